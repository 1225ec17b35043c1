"""A convolution and the activation of its result in one pass, and the gradients.

    conv2d_activation(x, weight, bias, activation="silu")   sum = conv2d(x, weight, bias), output = silu(sum)

The activation is taken of each piece of the sum as the convolution finishes it: the sum is not read again from memory, and only
written where a gradient will take it.
"""

from .. import _alloc, _check, results
from .conv_geometry import _bias, _geometry, _operands, _with_docstring, _words
from .elementwise import UNARY, cost
from .linear_activation import ACTIVATION, _activation

__all__ = ["ConvActivation", "ConvActivationGradients"]

_OPERANDS = """\
x : ndarray {x}
weight : ndarray {weight}
bias : ndarray [Cout], optional"""
_OPTIONS = """\
activation : {{"relu", "gelu", "gelu_tanh", "silu"}}
    The operation of that name; "gelu_tanh" is gelu with approximate="tanh".
{options}
    As of :meth:`{forward}`."""
_FORWARD = f"""Convolve as :meth:`{{forward}}` and apply an activation to the result: output = activation({{forward}}(x, weight, bias)).

Parameters
----------
{_OPERANDS}
{_OPTIONS}
out : ndarray, optional
    Where to write the result; it may not overlap an operand.

Returns
-------
ndarray {{output}}

Raises
------
ShapeError, DTypeError, ArgumentError
    As of :meth:`{{forward}}`; ArgumentError also when `activation` is another word.

Notes
-----
The bits of `{{forward}}` and the activation after each other, in one pass, whichever path the convolution takes. Gradient:
`{{forward}}_activation_backward`, from the sum that :meth:`{{forward}}_activation_with_sum` returns as well.
"""
_WITH_SUM = f"""Do as :meth:`{{forward}}_activation`, and return what its gradient needs besides.

Parameters
----------
{_OPERANDS}
{_OPTIONS}

Returns
-------
Conv{{n}}dActivationWithSum
    (output, sum), both {{output}}: the activation of the convolution, and the convolution.

Raises
------
ShapeError, DTypeError, ArgumentError
    As of :meth:`{{forward}}_activation`.

Notes
-----
Gradient: `{{forward}}_activation_backward`, of the output; the sum is a constant to it.
"""
_BACKWARD = f"""Differentiate `{{forward}}_activation`: with d = output_grad · activation'(sum), what `{{forward}}_backward` gives for d.

Parameters
----------
x : ndarray {{x}}
weight : ndarray {{weight}}
bias : ndarray [Cout], or None
sum : ndarray {{output}}
    As `{{forward}}_activation_with_sum` returned it; of relu the output does as well.
output_grad : ndarray {{output}}
{_OPTIONS}
x_grad : bool
    Whether to compute the gradient to x, which a first layer does not need.

Returns
-------
Conv{{n}}dActivationGrads
    (x_grad or None, weight_grad, bias_grad, or None where there is no bias).

Raises
------
ShapeError, DTypeError, ArgumentError
    As of the forward; ShapeError also when sum or output_grad has not the output's shape.
"""


def _documented(n, text):
    """Give a method on n axes its docstring."""
    return _with_docstring(text.format(**_words(n)))


class ConvActivation:
    """Forward, with and without what the gradient takes."""

    @_documented(1, _FORWARD)
    def conv1d_activation(self, x, weight, bias=None, *, activation="relu", stride=1, padding=0, dilation=1, groups=1, out=None):
        options = stride, padding, dilation, groups, "NCHW"
        return self._activated("conv1d_activation", 1, x, weight, bias, activation, options, False, out)

    @_documented(2, _FORWARD)
    def conv2d_activation(
        self, x, weight, bias=None, *, activation="relu", stride=1, padding=0, dilation=1, groups=1, layout="NCHW", out=None
    ):
        options = stride, padding, dilation, groups, layout
        return self._activated("conv2d_activation", 2, x, weight, bias, activation, options, False, out)

    @_documented(3, _FORWARD)
    def conv3d_activation(self, x, weight, bias=None, *, activation="relu", stride=1, padding=0, dilation=1, groups=1, out=None):
        options = stride, padding, dilation, groups, "NCHW"
        return self._activated("conv3d_activation", 3, x, weight, bias, activation, options, False, out)

    @_documented(1, _WITH_SUM)
    def conv1d_activation_with_sum(self, x, weight, bias=None, *, activation="relu", stride=1, padding=0, dilation=1, groups=1):
        options = stride, padding, dilation, groups, "NCHW"
        return results.Conv1dActivationWithSum(*self._activated("conv1d_activation_with_sum", 1, x, weight, bias, activation, options, True))

    @_documented(2, _WITH_SUM)
    def conv2d_activation_with_sum(
        self, x, weight, bias=None, *, activation="relu", stride=1, padding=0, dilation=1, groups=1, layout="NCHW"
    ):
        options = stride, padding, dilation, groups, layout
        return results.Conv2dActivationWithSum(*self._activated("conv2d_activation_with_sum", 2, x, weight, bias, activation, options, True))

    @_documented(3, _WITH_SUM)
    def conv3d_activation_with_sum(self, x, weight, bias=None, *, activation="relu", stride=1, padding=0, dilation=1, groups=1):
        options = stride, padding, dilation, groups, "NCHW"
        return results.Conv3dActivationWithSum(*self._activated("conv3d_activation_with_sum", 3, x, weight, bias, activation, options, True))

    def _activated(self, op, n, x, weight, bias, activation, options, with_sum, out=None):
        name = _activation(op, activation)
        xa, wa = _operands(op, n, ("x", "weight"), (x, weight))
        geometry = _geometry(op, xa.shape, wa.shape, *options)
        ba = _bias(op, xa, bias, geometry.groups * geometry.outputs)
        shape = geometry.output_shape
        out = _alloc.output(op, out, shape, xa.dtype, (x, weight, bias))
        total = _alloc.empty(shape, xa.dtype) if with_sum else None
        ns = geometry.work + cost(name, out.size)
        self._run("conv.conv_activation", xa.dtype, ns, xa, wa, ba, total, out, ACTIVATION[name], geometry.numbers)
        return (out, total) if with_sum else out


class ConvActivationGradients:
    """Gradient: the activation's and the convolution's, one after the other."""

    @_documented(1, _BACKWARD)
    def conv1d_activation_backward(
        self, x, weight, bias, sum, output_grad, *, activation="relu", x_grad=True, stride=1, padding=0, dilation=1, groups=1
    ):
        options = stride, padding, dilation, groups, "NCHW"
        grads = self._activated_all("conv1d_activation_backward", 1, x, weight, bias, sum, output_grad, activation, x_grad, options)
        return results.Conv1dActivationGrads(*grads)

    @_documented(2, _BACKWARD)
    def conv2d_activation_backward(
        self, x, weight, bias, sum, output_grad, *, activation="relu", x_grad=True, stride=1, padding=0, dilation=1, groups=1, layout="NCHW"
    ):  # fmt: skip
        options = stride, padding, dilation, groups, layout
        grads = self._activated_all("conv2d_activation_backward", 2, x, weight, bias, sum, output_grad, activation, x_grad, options)
        return results.Conv2dActivationGrads(*grads)

    @_documented(3, _BACKWARD)
    def conv3d_activation_backward(
        self, x, weight, bias, sum, output_grad, *, activation="relu", x_grad=True, stride=1, padding=0, dilation=1, groups=1
    ):
        options = stride, padding, dilation, groups, "NCHW"
        grads = self._activated_all("conv3d_activation_backward", 3, x, weight, bias, sum, output_grad, activation, x_grad, options)
        return results.Conv3dActivationGrads(*grads)

    def _activated_all(self, op, n, x, weight, bias, total, output_grad, activation, x_grad, options):
        name = _activation(op, activation)
        wants_x = _check.flag(op, "x_grad", x_grad)
        xa, wa, total, g = _operands(op, n, ("x", "weight", "sum", "output_grad"), (x, weight, total, output_grad))
        geometry = _geometry(op, xa.shape, wa.shape, *options)
        ba = _bias(op, xa, bias, geometry.groups * geometry.outputs)
        for operand, value in (("sum", total), ("output_grad", g)):
            _check.shape(op, operand, value, geometry.output_shape, "the output's")
        d = self._unary_backward(name, UNARY[name], g, total, _alloc.empty(g.shape, g.dtype), 0.0, 0.0)
        return self._conv_grads(n, xa, wa, d, geometry, wants_x, ba is not None)
