"""A linear layer and the activation of its result in one pass, and the gradients.

    linear_activation(x, weight, bias, activation="gelu")   sum = x · weight + bias, output = gelu(sum)

The activation is taken of each tile of the sum as the product finishes it: the sum is not read again from memory, and only
written where a gradient will take it.
"""

from .. import _alloc, _check, results
from .._kernels import constants
from .elementwise import UNARY, cost
from .matmul import linear_operands, product_ns

__all__ = ["LinearActivation", "LinearActivationGradients"]

ACTIVATION = constants("matmul").ACTIVATION


def _activation(op, name):
    return _check.choice(op, "activation", name, tuple(ACTIVATION))


class LinearActivation:
    """Forward, with and without what the gradient takes."""

    def linear_activation(self, x, weight, bias=None, *, activation="relu", out=None):
        """Apply a linear layer and an activation to its result: output = activation(x · weight + bias).

        Parameters
        ----------
        x : ndarray, float32 or float64, [..., d_in]
        weight : ndarray of the same dtype, [d_in, d_out]
        bias : ndarray of the same dtype, [d_out], optional
        activation : {"relu", "gelu", "gelu_tanh", "silu"}
            The operation of that name; "gelu_tanh" is gelu with approximate="tanh".
        out : ndarray, optional
            Where to write the result; it may not overlap an operand.

        Returns
        -------
        ndarray
            [..., d_out]

        Raises
        ------
        ShapeError, DTypeError
            As of :meth:`linear`.
        ArgumentError
            `activation` is another word.

        Notes
        -----
        The bits of `linear` and the activation after each other, in one pass. Gradient: `linear_activation_backward`, from the
        sum that :meth:`linear_activation_with_sum` returns as well.
        2·B·d_in·d_out flops for B rows, and the activation's.
        """
        op = "linear_activation"
        name = _activation(op, activation)
        xa, w, b, shape = linear_operands(op, x, weight, bias)
        out = _alloc.output(op, out, shape, w.dtype, (x, weight, bias))
        self._linear_activation(name, xa, w, b, None, out)
        return out

    def linear_activation_with_sum(self, x, weight, bias=None, *, activation="relu"):
        """Do as :meth:`linear_activation`, and return what its gradient needs besides.

        Parameters
        ----------
        x : ndarray, float32 or float64, [..., d_in]
        weight : ndarray of the same dtype, [d_in, d_out]
        bias : ndarray of the same dtype, [d_out], optional
        activation : {"relu", "gelu", "gelu_tanh", "silu"}
            As of :meth:`linear_activation`.

        Returns
        -------
        LinearActivationWithSum
            (output, sum), both [..., d_out]: the activation of the linear layer's result, and that result.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As of :meth:`linear_activation`.

        Notes
        -----
        Gradient: `linear_activation_backward`, of the output; the sum is a constant to it.
        """
        op = "linear_activation_with_sum"
        name = _activation(op, activation)
        xa, w, b, shape = linear_operands(op, x, weight, bias)
        out, total = _alloc.empty(shape, w.dtype), _alloc.empty(shape, w.dtype)
        self._linear_activation(name, xa, w, b, total, out)
        return results.LinearActivationWithSum(out, total)

    def _linear_activation(self, name, x, w, b, total, out):
        ns = product_ns(out.shape, w.shape[0]) + cost(name, out.size)
        self._run("matmul.linear_activation", w.dtype, ns, x, w, b, total, out, ACTIVATION[name])


class LinearActivationGradients:
    """Gradient: the activation's and the linear layer's, one after the other."""

    def linear_activation_backward(self, x, weight, bias, sum, output_grad, *, activation="relu", x_grad=True):
        """Differentiate `linear_activation`: with d = output_grad · activation'(sum), what `linear_backward` gives for d.

        Parameters
        ----------
        x : ndarray, [..., d_in]
        weight : ndarray, [d_in, d_out]
        bias : ndarray, [d_out], or None
        sum : ndarray, [..., d_out]
            As `linear_activation_with_sum` returned it; of relu the output does as well.
        output_grad : ndarray, [..., d_out]
        activation : {"relu", "gelu", "gelu_tanh", "silu"}
            As in the forward.
        x_grad : bool
            Whether to compute the gradient to x, which a first layer does not need.

        Returns
        -------
        LinearActivationGrads
            (x_grad = d · weightᵀ or None, weight_grad = xᵀ · d, bias_grad = Σ d, or None where there is no bias).

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As of the forward; ShapeError also when sum or output_grad has not the output's shape.
        """
        op = "linear_activation_backward"
        name = _activation(op, activation)
        wants_x = _check.flag(op, "x_grad", x_grad)
        xa, w, b, shape = linear_operands(op, x, weight, bias)
        total, g, _ = _check.required(op, ("sum", "output_grad", "weight"), (sum, output_grad, weight))
        for operand, value in (("sum", total), ("output_grad", g)):
            _check.shape(op, operand, value, shape, "the output's")
        d = self._unary_backward(name, UNARY[name], g, total, _alloc.empty(shape, w.dtype), 0.0, 0.0)
        return results.LinearActivationGrads(
            self._linear_x_backward(w, d, _alloc.empty(xa.shape, w.dtype)) if wants_x else None,
            self._linear_weight_backward(xa, d, _alloc.empty(w.shape, w.dtype)),
            None if b is None else self._linear_bias_backward(d, _alloc.empty(b.shape, w.dtype)),
        )
