"""Matrix products: matmul and the linear layer, and their gradients.

M, N, K: rows and columns of a product and the length of its sums.
"""

from math import prod

import numpy as np

from .. import _alloc, _check, _small, _threads, results
from .._operand import ready_product
from ..errors import ShapeError, message

__all__ = ["Matmul", "MatmulGradients", "linear_operands", "product_ns", "product_shape"]

PAIR = ("lhs", "rhs")
NS_A_TERM = _threads.work(flops=2)
NS_A_CELL = _threads.work(bytes_=8)


def product_shape(op, lhs, rhs):
    """Shape of ``lhs @ rhs`` by NumPy's rules; ShapeError where there is none."""
    a, b = lhs.shape, rhs.shape
    for name, shape in zip(PAIR, (a, b), strict=True):
        if not shape:
            raise ShapeError(message(op, name, "of shape () (0 axes)", "at least 1 axis"))
    if a[-1] != b[-2:][0]:
        wanted = f"{a[-1]}, the length of the last axis of lhs, which has shape {a}"
        raise ShapeError(message(op, "rhs", f"of shape {b}, whose axis to sum over is {b[-2:][0]} long", wanted))
    batch = a[:-2] or b[:-2]
    if a[:-2] and b[:-2] and a[:-2] != b[:-2]:
        batch = _check.broadcast(op, ("the batch of lhs", "the batch of rhs"), (a[:-2], b[:-2]))
    return (*batch, *a[-2:-1], *b[1:][-1:])


def product_ns(shape, k):
    """Nanoseconds of a product of that shape and K on one thread: its arithmetic, and reading a matrix once."""
    cells = 1
    for n in shape:
        cells *= n
    columns = shape[-1] if shape else 1
    return k * (cells * NS_A_TERM + (columns + cells // (columns or 1)) * NS_A_CELL)


class Matmul:
    """Forward operations of the family."""

    def matmul(self, lhs, rhs, *, out=None):
        """Multiply matrices by NumPy's rules: output[..., i, j] = Σ_k lhs[..., i, k] · rhs[..., k, j].

        Parameters
        ----------
        lhs : ndarray, float32 or float64, [..., M, K] or [K]
            Any strides: a transposed view is read as it is.
        rhs : ndarray of the same dtype, [..., K, N] or [K]
            Batch axes of lhs and rhs broadcast, without being copied.
        out : ndarray, optional
            Where to write the result; it may not overlap an operand.

        Returns
        -------
        ndarray
            [..., M, N]; without the axis that a one-dimensional operand lacks.

        Raises
        ------
        ShapeError
            An operand has no axis, the lengths K differ, or the batch axes do not broadcast.
        DTypeError
            An operand is no floating array, or the dtypes differ.

        Notes
        -----
        Gradient: lhs_grad = g · rhsᵀ, rhs_grad = lhsᵀ · g, each summed over the axes its operand was broadcast along.
        0 · NaN and 0 · inf are NaN. A sum is cut into equal parts of at most 384 (float64: 256) terms; within one the terms
        are added in order in the operands' precision, and the parts' sums in order. In a matrix times one vector the parts
        are 2048 long and added by lanes. The order depends on K and on which of the two it is, not on layout, batch or
        thread count.
        2·M·N·K flops an item.
        """
        small = _small.matmul(self, lhs, rhs, NS_A_TERM) if out is None else None
        if small is not None:
            return small
        a, b, shape = lhs, rhs, ready_product(lhs, rhs)
        if shape is None:
            a, b = _check.required_strided("matmul", PAIR, (lhs, rhs))
            shape = product_shape("matmul", a, b)
        dtype = a.dtype
        out = _alloc.output("matmul", out, shape, dtype, (lhs, rhs))
        self._run("matmul.matmul", dtype, product_ns(shape, a.shape[-1]), a, b, None, out, 0)
        return out

    def linear(self, x, weight, bias=None, *, out=None):
        """Apply a linear layer: output[..., j] = Σ_i x[..., i] · weight[i, j] + bias[j].

        Parameters
        ----------
        x : ndarray, float32 or float64, [..., d_in]
        weight : ndarray of the same dtype, [d_in, d_out]
        bias : ndarray of the same dtype, [d_out], optional
        out : ndarray, optional
            Where to write the result; it may not overlap an operand.

        Returns
        -------
        ndarray
            [..., d_out]

        Raises
        ------
        ShapeError
            x has no axis, weight not two, the lengths d_in differ, or bias is not [d_out].
        DTypeError
            An operand is no floating array, or the dtypes differ.

        Notes
        -----
        Gradient: x_grad = g · weightᵀ, weight_grad = xᵀ · g and bias_grad = Σ g over all leading axes.
        One product, whatever the leading axes, in the order of :meth:`matmul`; the bias is added last.
        2·B·d_in·d_out flops for B rows.
        """
        xa, w, b, shape = linear_operands("linear", x, weight, bias)
        dtype = w.dtype
        out = _alloc.output("linear", out, shape, dtype, (x, weight, bias))
        self._run("matmul.matmul", dtype, product_ns(shape, w.shape[0]), xa, w, b, out, 0)
        return out


class MatmulGradients:
    """Gradients of the family."""

    def matmul_backward(self, output_grad, lhs, rhs):
        """Differentiate :meth:`matmul`: lhs_grad = g · rhsᵀ, rhs_grad = lhsᵀ · g.

        Parameters
        ----------
        output_grad : ndarray, the output's shape
        lhs, rhs : ndarray [..., M, K] and [..., K, N], or 1-d
            The operands of the forward call.

        Returns
        -------
        MatmulGrads
            (lhs_grad, rhs_grad), each of its operand's shape, summed over the axes along which that was broadcast.

        Raises
        ------
        ShapeError
            lhs and rhs cannot be multiplied, or output_grad has not the shape of their product.
        DTypeError
            An operand is no floating array, or the dtypes differ.

        Notes
        -----
        The broadcast axes become part of the sum, which is in the order of :meth:`matmul`: the gradient of every item is
        never stored. 4·M·N·K flops an item.
        """
        g, a, b = _check.required_strided("matmul_backward", ("output_grad", *PAIR), (output_grad, lhs, rhs))
        shape = ready_product(a, b) or product_shape("matmul_backward", a, b)
        if g.shape != shape:
            _check.shape("matmul_backward", "output_grad", g, shape, "the shape of lhs @ rhs")
        return results.MatmulGrads(*self._matmul_backward(g, a, b))

    def _matmul_backward(self, g, lhs, rhs):
        a, b = np.atleast_2d(lhs), rhs if rhs.ndim > 1 else rhs[:, None]
        g = g.reshape(*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
        grads = self.matmul(g, np.swapaxes(b, -1, -2)), self.matmul(np.swapaxes(a, -1, -2), g)
        return tuple(_summed_to(grad, x.shape).reshape(y.shape) for grad, x, y in zip(grads, (a, b), (lhs, rhs), strict=True))

    def linear_x_backward(self, weight, output_grad, *, out=None):
        """Differentiate :meth:`linear` by x: x_grad = g · weightᵀ.

        Parameters
        ----------
        weight : ndarray, [d_in, d_out]
        output_grad : ndarray, [..., d_out]
        out : ndarray, optional
            Where to write the result; it may not overlap an operand.

        Returns
        -------
        ndarray
            [..., d_in]

        Raises
        ------
        ShapeError
            weight has not two axes, output_grad none, or their d_out differ.
        DTypeError
            An operand is no floating array, or the dtypes differ.

        Notes
        -----
        One product in the order of :meth:`matmul`; 2·B·d_in·d_out flops for B rows.
        """
        op = "linear_x_backward"
        w, g = _check.required_strided(op, ("weight", "output_grad"), (weight, output_grad))
        if w.ndim != 2:
            _check.rank(op, "weight", w, 2)
        if g.ndim == 0 or g.shape[-1] != w.shape[1]:
            raise ShapeError(message(op, "output_grad", f"of shape {g.shape}", f"[..., {w.shape[1]}], weight's d_out"))
        out = _alloc.output(op, out, (*g.shape[:-1], w.shape[0]), w.dtype, (weight, output_grad))
        return self._linear_x_backward(w, g, out)

    def _linear_x_backward(self, w, g, out):
        return self.matmul(g, w.T, out=out)

    def linear_weight_backward(self, x, output_grad, *, out=None):
        """Differentiate :meth:`linear` by its weight: weight_grad = xᵀ · g, summed over all leading axes.

        Parameters
        ----------
        x : ndarray, [..., d_in]
        output_grad : ndarray, [..., d_out]
        out : ndarray, optional
            Where to write the result; it may not overlap an operand.

        Returns
        -------
        ndarray
            [d_in, d_out]; zeros for an empty batch.

        Raises
        ------
        ShapeError
            An operand has no axis, or the leading axes differ.
        DTypeError
            An operand is no floating array, or the dtypes differ.

        Notes
        -----
        One product over B rows in the order of :meth:`matmul`, with K = B; 2·B·d_in·d_out flops.
        """
        op = "linear_weight_backward"
        xa, g = _check.required_strided(op, ("x", "output_grad"), (x, output_grad))
        for name, a in (("x", xa), ("output_grad", g)):
            _check.rank(op, name, a, 1, 64)
        if g.shape[:-1] != xa.shape[:-1]:
            _check.shape(op, "output_grad", g, (*xa.shape[:-1], g.shape[-1]), f"x has shape {xa.shape}")
        out = _alloc.output(op, out, (xa.shape[-1], g.shape[-1]), xa.dtype, (x, output_grad))
        return self._linear_weight_backward(xa, g, out)

    def _linear_weight_backward(self, x, g, out):
        return self.matmul(_rows(x).T, _rows(g), out=out)

    def linear_bias_backward(self, output_grad, *, out=None):
        """Differentiate :meth:`linear` by its bias: bias_grad[j] = Σ g[..., j] over all leading axes.

        Parameters
        ----------
        output_grad : ndarray, [..., d_out]
        out : ndarray, optional
            Where to write the result; it may not overlap output_grad.

        Returns
        -------
        ndarray
            [d_out]; zeros for an empty batch.

        Raises
        ------
        ShapeError
            output_grad has no axis.
        DTypeError
            output_grad is no floating array.

        Notes
        -----
        A sum like any other: accumulated as :meth:`reduce_sum` does, in double precision for float32.
        """
        op = "linear_bias_backward"
        g = _check.floating(op, "output_grad", output_grad)
        _check.rank(op, "output_grad", g, 1, 64)
        out = _alloc.output(op, out, g.shape[-1:], g.dtype, (output_grad,))
        return self._linear_bias_backward(g, out)

    def _linear_bias_backward(self, g, out):
        return self.reduce_sum(_rows(g), axis=0, out=out)

    def linear_backward(self, x, weight, output_grad):
        """Differentiate :meth:`linear` by all its operands.

        Parameters
        ----------
        x : ndarray, [..., d_in]
        weight : ndarray, [d_in, d_out]
        output_grad : ndarray, [..., d_out]

        Returns
        -------
        LinearGrads
            (x_grad, weight_grad, bias_grad), as the three single gradients give them.

        Raises
        ------
        ShapeError
            The operands cannot belong to one call of linear.
        DTypeError
            An operand is no floating array, or the dtypes differ.
        """
        op = "linear_backward"
        xa, w, g = _check.required_strided(op, ("x", "weight", "output_grad"), (x, weight, output_grad))
        shape = ready_product(xa, w)
        if shape is None:
            _refuse_linear(op, xa, w)
        if g.shape != shape:
            _check.shape(op, "output_grad", g, shape, f"x has shape {xa.shape}, weight {w.shape}")
        return results.LinearGrads(
            self._linear_x_backward(w, g, _alloc.empty(xa.shape, w.dtype)),
            self._linear_weight_backward(xa, g, _alloc.empty(w.shape, w.dtype)),
            self._linear_bias_backward(_check.contiguous(g), _alloc.empty(w.shape[1:], w.dtype)),
        )


def linear_operands(op, x, weight, bias):
    """(x, weight, bias or None, shape of the output), checked; x and weight of any strides."""
    if bias is None:
        (xa, w), b = _check.required_strided(op, ("x", "weight"), (x, weight)), None
    else:
        xa, w, b = _check.required_strided(op, ("x", "weight", "bias"), (x, weight, bias))
    shape = ready_product(xa, w)
    if shape is None:
        _refuse_linear(op, xa, w)
    if b is not None:
        if b.shape != shape[-1:]:
            raise ShapeError(message(op, "bias", f"of shape {b.shape}", f"{shape[-1:]}, weight's d_out"))
        b = _check.contiguous(b)
    return xa, w, b, shape


def _refuse_linear(op, x, w):
    """Say why `x` and `w`, of one dtype, are no input and weight of a linear layer."""
    _check.rank(op, "x", x, 1, 64)
    _check.rank(op, "weight", w, 2)
    raise ShapeError(message(op, "x", f"of shape {x.shape}", f"[..., {w.shape[0]}] for weight of shape {w.shape}"))


def _rows(x):
    """x [..., n] as a matrix of all its rows: a view where the strides allow."""
    return x.reshape(prod(x.shape[:-1]), x.shape[-1])


def _summed_to(x, shape):
    """x summed over the axes that `shape` lacks or has with length 1."""
    lead = x.ndim - len(shape)
    axes = (*range(lead), *(i + lead for i, n in enumerate(shape) if n == 1 != x.shape[i + lead]))
    return x.sum(axes, keepdims=True).reshape(shape) if axes else x
