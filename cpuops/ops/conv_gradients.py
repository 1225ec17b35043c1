"""Gradients of convolution. Letters as in :mod:`cpuops.ops.conv_geometry`."""

import itertools

import numpy as np

from .. import _alloc, _check, results
from ..errors import ShapeError, message
from .conv_geometry import LAYOUTS, _geometry, _operands, _with_docstring, _words

__all__ = ["ConvGradients"]

_OUT = """
out : ndarray, optional
    Where the result is written."""
# gradient -> (what the forward is differentiated by, its own parameters, what is returned)
_GRADIENTS = {
    "x": ("x", """\
x : ndarray {x}
    Only its shape and dtype count.
weight : ndarray {weight}
output_grad : ndarray {output}
{options}
    As given to :meth:`{forward}`.""" + _OUT, """\
ndarray of x's shape
    Cells that no window covers are 0."""),
    "weight": ("the weight", """\
x : ndarray {x}
weight : ndarray {weight}
    Only its shape and dtype count.
output_grad : ndarray {output}
{options}
    As given to :meth:`{forward}`.""" + _OUT, "ndarray of weight's shape"),
    "bias": ("the bias", """\
x : ndarray {x}
    Only its batch and dtype count.
bias : ndarray [Cout]
    Only its shape and dtype count.
output_grad : ndarray {output}{layout}""" + _OUT, """\
ndarray [Cout]
    Summed in double precision."""),
    "all": ("all operands at once", """\
x : ndarray {x}
weight : ndarray {weight}
output_grad : ndarray {output}
bias : bool
    Whether the forward pass had a bias.
{options}
    As given to :meth:`{forward}`.""", """\
Conv{n}dGrads
    (x_grad, weight_grad, bias_grad); bias_grad is None without bias."""),
}  # fmt: skip
_DOC = """Differentiate :meth:`{forward}` by {by}{formula}.

Parameters
----------
{parameters}

Returns
-------
{returned}

Raises
------
ShapeError, DTypeError, ArgumentError
    As the forward; ShapeError also when output_grad has not the output's shape.
"""


def _documented(n, gradient, formula="", notes=""):
    """Give a gradient of the convolution along n axes its docstring."""
    by, parameters, returned = _GRADIENTS[gradient]
    words = {**_words(n), "by": by, "formula": formula, "layout": '\nlayout : {"NCHW", "NHWC"}' * (n == 2)}
    text = _DOC.format(parameters=parameters.format(**words), returned=returned.format(**words), **words)
    if notes:
        text += f"\nNotes\n-----\n{notes}\n"
    return _with_docstring(text)


class ConvGradients:
    """Gradients of convolution."""

    @_documented(1, "x", ": x_grad[b,c,l] = Σ_{m,k} weight[m,c,k] · output_grad[b,m,o], o·stride + k·dilation − before = l")
    def conv1d_x_backward(self, x, weight, output_grad, *, stride=1, padding=0, dilation=1, groups=1, out=None):
        return self._conv_x("conv1d_x_backward", 1, x, weight, output_grad, stride, padding, dilation, groups, "NCHW", out)

    @_documented(
        2, "x", ": x_grad[b,c,h,w] = Σ weight[m,c,i,j] · output_grad[b,m,p,q] over p·sh + i·dh − top = h, …",
        "A correlation of output_grad with the flipped weights, one for each position of a cell between strides, so that "
        "nothing is multiplied by a zero: as many flops as the forward pass.",
    )
    def conv2d_x_backward(self, x, weight, output_grad, *, stride=1, padding=0, dilation=1, groups=1, layout="NCHW", out=None):
        return self._conv_x("conv2d_x_backward", 2, x, weight, output_grad, stride, padding, dilation, groups, layout, out)

    @_documented(3, "x", ", as :meth:`conv2d_x_backward` with one more axis")
    def conv3d_x_backward(self, x, weight, output_grad, *, stride=1, padding=0, dilation=1, groups=1, out=None):
        return self._conv_x("conv3d_x_backward", 3, x, weight, output_grad, stride, padding, dilation, groups, "NCHW", out)

    @_documented(1, "weight", ": weight_grad[m,c,k] = Σ_{b,o} output_grad[b,m,o] · x[b,c, o·stride + k·dilation − before]")
    def conv1d_weight_backward(self, x, weight, output_grad, *, stride=1, padding=0, dilation=1, groups=1, out=None):
        return self._conv_weight("conv1d_weight_backward", 1, x, weight, output_grad, stride, padding, dilation, groups, "NCHW", out)

    @_documented(
        2, "weight", ": weight_grad[m,c,i,j] = Σ_{b,p,q} output_grad[b,m,p,q] · x[b,c, p·sh + i·dh − top, …]",
        "The sum over batch and positions is cut into pieces by shape; the pieces are added in index order.",
    )
    def conv2d_weight_backward(self, x, weight, output_grad, *, stride=1, padding=0, dilation=1, groups=1, layout="NCHW", out=None):
        return self._conv_weight("conv2d_weight_backward", 2, x, weight, output_grad, stride, padding, dilation, groups, layout, out)

    @_documented(3, "weight", ", as :meth:`conv2d_weight_backward` with one more axis")
    def conv3d_weight_backward(self, x, weight, output_grad, *, stride=1, padding=0, dilation=1, groups=1, out=None):
        return self._conv_weight("conv3d_weight_backward", 3, x, weight, output_grad, stride, padding, dilation, groups, "NCHW", out)

    @_documented(1, "bias", ": bias_grad[m] = Σ_{b,o} output_grad[b,m,o]")
    def conv1d_bias_backward(self, x, bias, output_grad, *, out=None):
        return self._conv_bias("conv1d_bias_backward", 1, x, bias, output_grad, "NCHW", out)

    @_documented(2, "bias", ": bias_grad[m] = Σ_{b,p,q} output_grad[b,m,p,q]")
    def conv2d_bias_backward(self, x, bias, output_grad, *, layout="NCHW", out=None):
        return self._conv_bias("conv2d_bias_backward", 2, x, bias, output_grad, layout, out)

    @_documented(3, "bias", ": bias_grad[m] is the sum of output_grad over batch and positions")
    def conv3d_bias_backward(self, x, bias, output_grad, *, out=None):
        return self._conv_bias("conv3d_bias_backward", 3, x, bias, output_grad, "NCHW", out)

    @_documented(1, "all")
    def conv1d_backward(self, x, weight, output_grad, *, bias=True, stride=1, padding=0, dilation=1, groups=1):
        grads = self._conv_all("conv1d_backward", 1, x, weight, output_grad, bias, stride, padding, dilation, groups, "NCHW")
        return results.Conv1dGrads(*grads)

    @_documented(2, "all")
    def conv2d_backward(self, x, weight, output_grad, *, bias=True, stride=1, padding=0, dilation=1, groups=1, layout="NCHW"):
        grads = self._conv_all("conv2d_backward", 2, x, weight, output_grad, bias, stride, padding, dilation, groups, layout)
        return results.Conv2dGrads(*grads)

    @_documented(3, "all")
    def conv3d_backward(self, x, weight, output_grad, *, bias=True, stride=1, padding=0, dilation=1, groups=1):
        grads = self._conv_all("conv3d_backward", 3, x, weight, output_grad, bias, stride, padding, dilation, groups, "NCHW")
        return results.Conv3dGrads(*grads)

    def conv2d_input_backward(self, output_grad, kernel, input_shape, stride_h, stride_w, *, out=None):
        """Differentiate an unpadded channels-last :meth:`conv2d` by its input.

        Parameters
        ----------
        output_grad : ndarray [B, OH, OW, Cout]
        kernel : ndarray [KH, KW, Cin, Cout]
        input_shape : sequence of int
            (B, H, W, Cin).
        stride_h, stride_w : int
            Strides in pixels, >= 1.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, H, W, Cin]
            What ``conv2d_x_backward(…, layout="NHWC", stride=(stride_h, stride_w))`` gives.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.
        """
        op = "conv2d_input_backward"
        g, w = _check.required(op, ("output_grad", "kernel"), (output_grad, kernel))
        _check.rank(op, "output_grad", g, 4)
        _check.rank(op, "kernel", w, 4)
        shape = _check.dims(op, "input_shape", input_shape)
        if len(shape) != 4:
            raise ShapeError(message(op, "input_shape", f"of {len(shape)} axes", "(B, H, W, Cin)"))
        stride = (_check.integer(op, "stride_h", stride_h, 1), _check.integer(op, "stride_w", stride_w, 1))
        geometry = _geometry(op, shape, w.shape, stride, 0, 1, 1, "NHWC", ("input_shape", "kernel"))
        _check.shape(op, "output_grad", g, geometry.output_shape, f"the output's shape for input_shape {shape}")
        out = _alloc.output(op, out, shape, g.dtype, (output_grad, kernel))
        return self._conv_x_backward(w, g, geometry, out)

    # ---------------------------------------------------------------- shared by the ranks

    def _conv_checked(self, op, n, x, weight, output_grad, stride, padding, dilation, groups, layout):
        xa, wa, g = _operands(op, n, ("x", "weight", "output_grad"), (x, weight, output_grad))
        geometry = _geometry(op, xa.shape, wa.shape, stride, padding, dilation, groups, layout)
        _check.shape(op, "output_grad", g, geometry.output_shape, "the output's shape")
        return xa, wa, g, geometry

    def _conv_x(self, op, n, x, weight, output_grad, stride, padding, dilation, groups, layout, out):
        xa, wa, g, geometry = self._conv_checked(op, n, x, weight, output_grad, stride, padding, dilation, groups, layout)
        out = _alloc.output(op, out, xa.shape, xa.dtype, (x, weight, output_grad))
        return self._conv_x_backward(wa, g, geometry, out)

    def _conv_weight(self, op, n, x, weight, output_grad, stride, padding, dilation, groups, layout, out):
        xa, wa, g, geometry = self._conv_checked(op, n, x, weight, output_grad, stride, padding, dilation, groups, layout)
        out = _alloc.output(op, out, wa.shape, wa.dtype, (x, weight, output_grad))
        return self._conv_weight_backward(xa, g, geometry, out)

    def _conv_bias(self, op, n, x, bias, output_grad, layout, out):
        layout = _check.choice(op, "layout", layout, LAYOUTS)
        xa, ba, g = _check.required(op, ("x", "bias", "output_grad"), (x, bias, output_grad))
        _check.rank(op, "x", xa, n + 2)
        _check.rank(op, "bias", ba, 1)
        _check.rank(op, "output_grad", g, n + 2)
        channel = n + 1 if layout == "NHWC" else 1
        if g.shape[channel] != ba.shape[0]:
            raise ShapeError(message(op, "output_grad", f"of {g.shape[channel]} channels (shape {g.shape})", f"bias's {ba.shape[0]}"))
        if g.shape[0] != xa.shape[0]:
            raise ShapeError(message(op, "output_grad", f"of batch {g.shape[0]}", f"x's batch {xa.shape[0]}"))
        out = _alloc.output(op, out, ba.shape, ba.dtype, (x, bias, output_grad))
        return self._conv_bias_backward(g, channel, out)

    def _conv_all(self, op, n, x, weight, output_grad, bias, stride, padding, dilation, groups, layout):
        bias = _check.flag(op, "bias", bias)
        xa, wa, g, geometry = self._conv_checked(op, n, x, weight, output_grad, stride, padding, dilation, groups, layout)
        return self._conv_grads(n, xa, wa, g, geometry, True, bias)

    def _conv_grads(self, n, x, w, g, geometry, wants_x, bias):
        """The gradients of checked operands, None for one that is not wanted."""
        x_grad = self._conv_x_backward(w, g, geometry, _alloc.empty(x.shape, x.dtype)) if wants_x else None
        weight_grad = self._conv_weight_backward(x, g, geometry, _alloc.empty(w.shape, w.dtype))
        if not bias:
            return x_grad, weight_grad, None
        bias_grad = _alloc.empty((geometry.groups * geometry.outputs,), x.dtype)
        return x_grad, weight_grad, self._conv_bias_backward(g, n + 1 if geometry.channels_last else 1, bias_grad)

    # ---------------------------------------------------------------- the defaults: tap by tap, in double precision

    def _conv_x_backward(self, w, g, geometry, out):
        g, w = geometry.planes(g, geometry.outputs), geometry.taps(w)
        planes = geometry.planes(out, geometry.channels)
        total = np.zeros(planes.shape)
        for tap in itertools.product(*map(range, geometry.kernel)):
            if met := geometry.covered(tap):
                over, under = met
                total[..., *under] += np.einsum("bgmzyx,gmc->bgczyx", g[..., *over], w[..., *tap], dtype=np.float64, optimize=True)
        planes[...] = total
        return out

    def _conv_weight_backward(self, x, g, geometry, out):
        x, g, taps = geometry.planes(x, geometry.channels), geometry.planes(g, geometry.outputs), geometry.taps(out)
        taps[...] = 0
        for tap in itertools.product(*map(range, geometry.kernel)):
            if met := geometry.covered(tap):
                over, under = met
                taps[..., *tap] = np.einsum("bgmzyx,bgczyx->gmc", g[..., *over], x[..., *under], dtype=np.float64, optimize=True)
        return out

    def _conv_bias_backward(self, g, channel, out):
        out[...] = g.sum(axis=tuple(a for a in range(g.ndim) if a != channel), dtype=np.float64)
        return out
