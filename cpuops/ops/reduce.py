"""Reductions over any set of axes and their gradients.

Every call is one canonical form, :func:`plan`: the kernel's reduce.h says how it is walked.
"""

import math

import numpy as np

from .. import _alloc, _check, _small, _threads
from .._kernels import constants
from .._remembered import remembered
from ..errors import ArgumentError, message

__all__ = ["OPS", "Reduce", "ReduceGradients", "count", "plan", "reduced_shape"]

OPS = constants("reduce").OPS
INDEX = np.dtype(np.int64)
EXP_NS_A_BYTE = 0.17  # an exponential and its share of a sum, on one thread


@remembered
def plan(shape, axes):
    """Return a reduction of `shape` over the sorted `axes` as the kernels take it.

    Returns
    -------
    tuple
        (outer, segments, rows, width, kept dims, kept steps, reduced dims, reduced steps): the innermost matrix of
        `rows` reduced by `width` kept cells, and the groups of axes around it with their steps in elements.
    """
    groups = []  # (is reduced, length) of merged neighbours, axes of length 1 left out
    for i, n in enumerate(shape):
        reduced = i in axes
        if n != 1 and groups and groups[-1][0] == reduced:
            groups[-1] = (reduced, groups[-1][1] * n)
        elif n != 1:
            groups.append((reduced, n))
    width = groups.pop()[1] if groups and not groups[-1][0] else 1
    rows = groups.pop()[1] if groups else 1
    dims, steps, step = ([], []), ([], []), rows * width
    for reduced, n in reversed(groups):
        dims[reduced].insert(0, n)
        steps[reduced].insert(0, step)
        step *= n
    kept, folded = tuple(dims[0]), tuple(dims[1])
    return math.prod(kept), math.prod(folded), rows, width, kept, tuple(steps[0]), folded, tuple(steps[1])


def reduced_shape(shape, axes, keepdims):
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def count(shape, axes):
    """Cells that go into one output."""
    return math.prod(shape[a] for a in axes)


@remembered
def options(op, shape, axis, keepdims):
    """The checked axes, the output's shape and the cells that go into one output."""
    axes = _check.axes(op, axis, len(shape))
    return axes, reduced_shape(shape, axes, _check.flag(op, "keepdims", keepdims)), count(shape, axes)


def _refuse_no_element(op, shape, axes, cells):
    if cells == 0:
        raise ArgumentError(message(op, "x", f"of shape {shape}", f"at least one element along axis {axes}"))


_DOC = """{summary}

        Parameters
        ----------
        x : ndarray [...]
            float32 or float64.
        axis : int or tuple of int, optional
            The axes to reduce; None means all, () none.
        keepdims : bool
            Keep reduced axes with length 1.
        out : ndarray, optional
            Where to write{out}.

        Returns
        -------
        ndarray [...]
            {returns}

        Raises
        ------
        DTypeError, ShapeError, ArgumentError
            `x` is no floating array, `axis` is out of range or repeated, or `out` does not fit{raises}.

        Notes
        -----
        {notes}
        """


def _method(name, op, summary, notes, mean=False, needs_elements=False):
    index = OPS[op]
    indices = op == "argmax"
    dtype = INDEX if indices else None
    ns = EXP_NS_A_BYTE if op == "logsumexp" else _threads.work(bytes_=1)

    def method(self, x, *, axis=None, keepdims=False, out=None):
        if out is None and keepdims is False and (small := _small.reduction(self, x, axis, index, dtype, mean, ns)) is not None:
            return small
        xa = _check.floating(name, "x", x)
        axes, shape, cells = options(name, xa.shape, axis, keepdims)
        if needs_elements:
            _refuse_no_element(name, xa.shape, axes, cells)
        out = _alloc.output(name, out, shape, dtype or xa.dtype, (x,))
        divisor = float(cells) if mean else 1.0
        self._run("reduce.reduce", xa.dtype, xa.nbytes * ns, index, xa, out, None, divisor, plan(xa.shape, axes))
        return out

    method.__name__ = name
    method.__doc__ = _DOC.format(
        summary=summary, notes=notes, out=", of dtype int64" if indices else "",
        returns="int64" if indices else "Of `x`'s dtype, without the reduced axes (or with length 1).",
        raises="; or an output has no element" if needs_elements else "",
    )  # fmt: skip
    return method


class Reduce:
    """Sums, means, extremes, log-sum-exp and argmax."""

    reduce_sum = _method(
        "reduce_sum", "sum", "Sum over axes.",
        "Accumulated in double, rounded once. A sum of no element is 0. Gradient: `output_grad` to every element.",
    )  # fmt: skip
    reduce_mean = _method(
        "reduce_mean", "sum", "Mean over axes.",
        "Accumulated in double. A mean of no element is NaN. Gradient: `output_grad` / count to every element.", mean=True,
    )  # fmt: skip
    reduce_max = _method(
        "reduce_max", "max", "Largest element over axes.",
        "NaN wins. Gradient: `output_grad` to the first of the largest.", needs_elements=True,
    )  # fmt: skip
    reduce_min = _method(
        "reduce_min", "min", "Smallest element over axes.",
        "NaN wins. Gradient: `output_grad` to the first of the smallest.", needs_elements=True,
    )  # fmt: skip
    argmax = _method(
        "argmax", "argmax", "Index of the largest element over axes.",
        "The first of several equal ones; the first NaN wins. Several axes count as one flat axis in row-major order.",
        needs_elements=True,
    )  # fmt: skip
    logsumexp = _method(
        "logsumexp", "logsumexp", "Logarithm of the sum of exponentials over axes: log Σ eˣ.",
        "Shifted by the maximum, so that nothing overflows; −inf of no element or of −inf alone, +inf where an x is +inf, "
        "NaN where one is NaN. Gradient: `output_grad` · softmax(x).",
    )  # fmt: skip


class ReduceGradients:
    """Gradients of the reductions."""

    def reduce_sum_backward(self, output_grad, original_shape, *, axis=None, keepdims=False, out=None):
        """Gradient of :meth:`reduce_sum`: `output_grad` at every element that was summed.

        Parameters
        ----------
        output_grad : ndarray [...]
            The gradient that arrives from above, of the output's shape.
        original_shape : tuple of int
            Shape of the forward's x.
        axis, keepdims
            As in the forward.
        out : ndarray, optional
            Where to write.

        Returns
        -------
        ndarray [original_shape]

        Raises
        ------
        DTypeError, ShapeError, ArgumentError
            `output_grad` has not the output's shape, or an option is not the forward's.
        """
        return self._reduce_spread("reduce_sum_backward", output_grad, original_shape, axis, keepdims, out, False)

    def reduce_mean_backward(self, output_grad, original_shape, *, axis=None, keepdims=False, out=None):
        """Gradient of :meth:`reduce_mean`: `output_grad` / count at every element.

        Parameters
        ----------
        output_grad : ndarray [...]
            The gradient that arrives from above, of the output's shape.
        original_shape : tuple of int
            Shape of the forward's x.
        axis, keepdims
            As in the forward.
        out : ndarray, optional
            Where to write.

        Returns
        -------
        ndarray [original_shape]

        Raises
        ------
        DTypeError, ShapeError, ArgumentError
            `output_grad` has not the output's shape, or an option is not the forward's.
        """
        return self._reduce_spread("reduce_mean_backward", output_grad, original_shape, axis, keepdims, out, True)

    def _reduce_spread(self, op, output_grad, original_shape, axis, keepdims, out, mean):
        g = _check.floating(op, "output_grad", output_grad)
        shape = _check.dims(op, "original_shape", original_shape)
        axes, expected, cells = options(op, shape, axis, keepdims)
        _check.shape(op, "output_grad", g, expected, f"original_shape {shape} reduced over {axes}")
        out = _alloc.output(op, out, shape, g.dtype, (output_grad,))
        return self._reduce_sum_backward(g, axes, float(cells) if mean else 1.0, out)

    def _reduce_sum_backward(self, g, axes, divisor, out):
        if out.size:
            out[...] = g.reshape(reduced_shape(out.shape, axes, True)) / divisor
        return out

    def reduce_max_backward(self, output_grad, x, *, axis=None, keepdims=False, out=None):
        """Gradient of :meth:`reduce_max`: `output_grad` at the first maximum in row-major order, 0 elsewhere.

        Parameters
        ----------
        output_grad : ndarray [...]
            The gradient that arrives from above, of the output's shape.
        x : ndarray [...]
            The forward's operand.
        axis, keepdims
            As in the forward.
        out : ndarray, optional
            Where to write.

        Returns
        -------
        ndarray [...]
            Of `x`'s shape.

        Raises
        ------
        DTypeError, ShapeError, ArgumentError
            `output_grad` has not the output's shape, or an option is not the forward's.
        """
        return self._reduce_extreme("reduce_max_backward", output_grad, x, axis, keepdims, out, "argmax")

    def reduce_min_backward(self, output_grad, x, *, axis=None, keepdims=False, out=None):
        """Gradient of :meth:`reduce_min`: `output_grad` at the first minimum in row-major order, 0 elsewhere.

        Parameters
        ----------
        output_grad : ndarray [...]
            The gradient that arrives from above, of the output's shape.
        x : ndarray [...]
            The forward's operand.
        axis, keepdims
            As in the forward.
        out : ndarray, optional
            Where to write.

        Returns
        -------
        ndarray [...]
            Of `x`'s shape.

        Raises
        ------
        DTypeError, ShapeError, ArgumentError
            `output_grad` has not the output's shape, or an option is not the forward's.
        """
        return self._reduce_extreme("reduce_min_backward", output_grad, x, axis, keepdims, out, "argmin")

    def _reduce_extreme(self, op, output_grad, x, axis, keepdims, out, which):
        g, xa = _check.required(op, ("output_grad", "x"), (output_grad, x))
        axes, expected, cells = options(op, xa.shape, axis, keepdims)
        _refuse_no_element(op, xa.shape, axes, cells)
        _check.shape(op, "output_grad", g, expected, f"x of shape {xa.shape} reduced over {axes}")
        out = _alloc.output(op, out, xa.shape, xa.dtype, (output_grad, x))
        return self._reduce_extreme_backward(g, xa, axes, which, out)

    def _reduce_extreme_backward(self, g, x, axes, which, out):
        out[...] = 0
        if out.size:
            # -x has its first maximum, or NaN, where x has its first minimum, or NaN
            flat = self.argmax(x if which == "argmax" else self.neg(x), axis=axes, keepdims=True)
            at = list(np.indices(flat.shape, sparse=True))
            for a in reversed(axes):
                flat, at[a] = np.divmod(flat, x.shape[a])
            out[tuple(at)] = g.reshape(reduced_shape(x.shape, axes, True))
        return out

    def logsumexp_backward(self, output_grad, x, *, axis=None, keepdims=False, out=None):
        """Gradient of :meth:`logsumexp`: `output_grad` · softmax(x).

        Parameters
        ----------
        output_grad : ndarray [...]
            The gradient that arrives from above, of the output's shape.
        x : ndarray [...]
            The forward's operand.
        axis, keepdims
            As in the forward.
        out : ndarray, optional
            Where to write.

        Returns
        -------
        ndarray [...]
            Of `x`'s shape.

        Raises
        ------
        DTypeError, ShapeError, ArgumentError
            `output_grad` has not the output's shape, or an option is not the forward's.
        """
        op = "logsumexp_backward"
        g, xa = _check.required(op, ("output_grad", "x"), (output_grad, x))
        axes, expected, _ = options(op, xa.shape, axis, keepdims)
        _check.shape(op, "output_grad", g, expected, f"x of shape {xa.shape} reduced over {axes}")
        out = _alloc.output(op, out, xa.shape, xa.dtype, (output_grad, x))
        return self._logsumexp_backward(g, xa, axes, out)

    def _logsumexp_backward(self, g, x, axes, out):
        x = x.astype(np.float64)
        with np.errstate(all="ignore"):
            out[...] = g.reshape(reduced_shape(x.shape, axes, True)) * np.exp(x - self.logsumexp(x, axis=axes, keepdims=True))
        return out
