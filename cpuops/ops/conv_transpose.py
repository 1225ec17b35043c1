"""Transposed convolution in one, two and three dimensions, and its gradients.

The transposed convolution is the adjoint of a convolution (`conv_geometry.Geometry`), in which x and output change places: its forward
pass is that convolution's gradient to x, its gradient to x that convolution, and its gradient to the weight that convolution's,
of (output_grad, x). So the kernels are those of :mod:`cpuops.ops.conv`. Letters as there; L is a length of x, O of the output.
"""

import math

import numpy as np

from .. import _alloc, _check, _threads, results
from .._remembered import remembered
from ..errors import ShapeError, message
from .conv_geometry import Geometry, _bias, _operands

__all__ = ["ConvTranspose", "ConvTransposeGradients"]

MOST = _check.BOUND // 8  # cells of an array


def _options(op, n, weight_shape, stride, padding, output_padding, dilation, groups):
    """Checked options, one (kernel, stride, dilation, before, after, extra) an axis; the forward and every gradient share this."""
    cin, _, *kernel = weight_shape
    groups = _check.integer(op, "groups", groups, 1)
    if cin % groups:
        raise ShapeError(message(op, "weight", f"of {cin} input channels", f"a multiple of groups {groups}"))
    if 0 in kernel:
        raise ShapeError(message(op, "weight", f"of shape {weight_shape}", "kernel sizes of at least 1"))
    stride = _check.per_axis(op, "stride", stride, n, 1)
    dilation = _check.per_axis(op, "dilation", dilation, n, 1)
    extra = _check.per_axis(op, "output_padding", output_padding, n, 0)
    pads = _check.padding(op, padding, n)
    return groups, list(zip(kernel, stride, dilation, *zip(*pads, strict=True), extra, strict=True))


def _output_length(op, length, k, s, d, before, after, extra):
    """(L − 1)·s + d·(k − 1) + extra + 1 − before − after, which is at least 1."""
    for name, value, cells in (("stride", s, (length - 1) * s), ("dilation", d, d * (k - 1)), ("output_padding", extra, extra)):
        if cells >= MOST:
            raise ShapeError(message(op, name, f"{value} ({cells} cells)", "one whose output fits an array"))
    full = (length - 1) * s + d * (k - 1) + extra + 1
    if full - before - after < 1:
        raise ShapeError(message(op, "padding", f"({before}, {after})", f"one that leaves a cell of the {full} there are without it"))
    return full - before - after


def _x_length(op, output, k, s, d, before, after, extra):
    """The length of x that the output's length tells."""
    steps = output + before + after - d * (k - 1) - extra - 1
    if steps % s or steps < -s:
        raise ShapeError(message(op, "output_grad", f"of length {output} on an axis", f"{s}·i + {output - steps} for some i >= 0"))
    return steps // s + 1


def _geometry(op, batch, weight_shape, groups, axes, x_lengths, output_lengths):
    """The convolution that this is the adjoint of."""
    cin, channels = weight_shape[:2]
    if batch * groups * channels * math.prod(output_lengths) >= MOST:
        given = f"{tuple(a[5] for a in axes)}: an output of {tuple(output_lengths)}"
        raise ShapeError(message(op, "output_padding", given, "one that with stride and dilation fits an array"))
    one, zero = (1,) * (3 - len(axes)), (0,) * (3 - len(axes))
    # a stride that no second cell takes, and a dilation that no second tap takes, are as good as others
    stride = [s if length > 1 else min(s, output) for (_, s, *_), length, output in zip(axes, x_lengths, output_lengths, strict=True)]
    dilation = [d if k > 1 else 1 for k, _, d, *_ in axes]
    return Geometry(
        batch, groups, cin // groups, channels, False, (*one, *output_lengths), (*one, *weight_shape[2:]), (*one, *x_lengths),
        (*one, *stride), (*one, *dilation), (*zero, *[a[3] for a in axes]), len(axes),
    )  # fmt: skip


@remembered
def _of_x(op, x_shape, weight_shape, options):
    """The geometry, from the shapes of x and weight."""
    if x_shape[1] != weight_shape[0]:
        raise ShapeError(message(op, "x", f"of {x_shape[1]} channels (shape {x_shape})", f"weight's {weight_shape[0]} (shape {weight_shape})"))
    groups, axes = _options(op, len(x_shape) - 2, weight_shape, *options)
    lengths = [_output_length(op, length, *a) for length, a in zip(x_shape[2:], axes, strict=True)]
    return _geometry(op, x_shape[0], weight_shape, groups, axes, x_shape[2:], lengths)


@remembered
def _of_output(op, output_shape, weight_shape, options):
    """The geometry, from the shapes of output_grad and weight."""
    groups, axes = _options(op, len(output_shape) - 2, weight_shape, *options)
    if output_shape[1] != groups * weight_shape[1]:
        expected = f"groups * weight's {weight_shape[1]} = {groups * weight_shape[1]} (weight of shape {weight_shape})"
        raise ShapeError(message(op, "output_grad", f"of {output_shape[1]} channels (shape {output_shape})", expected))
    lengths = [_x_length(op, length, *a) for length, a in zip(output_shape[2:], axes, strict=True)]
    return _geometry(op, output_shape[0], weight_shape, groups, axes, lengths, output_shape[2:])


# ---------------------------------------------------------------- the methods of a rank

AXES = {1: "L", 2: "H, W", 3: "D, H, W"}
KERNEL = {1: "K", 2: "KH, KW", 3: "KD, KH, KW"}
OUTPUT = {1: "OL", 2: "OH, OW", 3: "OD, OH, OW"}
MANY = {1: "one", 2: "two", 3: "three"}
OPTIONS = """stride, padding, output_padding, dilation, groups
            As given to the forward pass."""
RAISES = """ShapeError, DTypeError, ArgumentError
            As the forward pass; ShapeError also when output_grad has not the output's shape."""


def _named(method, op, doc):
    method.__name__ = op
    method.__qualname__ = op
    method.__doc__ = doc
    return method


def forward_method(n):
    op = f"conv_transpose{n}d"

    def method(self, x, weight, bias=None, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1, out=None):
        xa, wa = _operands(op, n, ("x", "weight"), (x, weight))
        options = (stride, padding, output_padding, dilation, groups)
        geometry = _of_x(op, xa.shape, wa.shape, options)
        ba = _bias(op, xa, bias, geometry.groups * geometry.channels)
        out = _alloc.output(op, out, geometry.x_shape, xa.dtype, (x, weight, bias))
        self._run("conv.conv_x_backward", xa.dtype, geometry.work + _threads.work(bytes_=out.nbytes), wa, xa, ba, out, geometry.numbers)
        return out

    doc = f"""Spread x over the output: out[b,m,i·stride + k·dilation − before] = bias[m] + Σ_{{c,i,k}} weight[c,m,k] · x[b,c,i].

        Parameters
        ----------
        x : ndarray [B, Cin, {AXES[n]}]
        weight : ndarray [Cin, Cout/groups, {KERNEL[n]}]
        bias : ndarray [Cout], optional
        stride, dilation : int or sequence of {MANY[n]}, >= 1
        padding : int, sequence of {MANY[n]}, or of {MANY[n]} (before, after) pairs, >= 0
            Cells that are cut off the output's ends.
        output_padding : int or sequence of {MANY[n]}, >= 0
            Cells that are added at the output's end; it may be larger than a stride.
        groups : int
            Divides Cin and Cout; output channels of a group see the input channels of that group.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, Cout, {OUTPUT[n]}]
            On each axis (L − 1)·stride − (before + after) + dilation·(K − 1) + output_padding + 1 cells. Those that no tap
            reaches hold the bias, or 0.

        Raises
        ------
        ShapeError
            Ranks or channel counts, or an output without cells.
        ArgumentError
            Options out of range.
        DTypeError
            Operands that are not all float32 or all float64.

        Notes
        -----
        The adjoint of :meth:`conv{n}d` with the same weight and options: its gradient to x, one correlation for each position of
        a cell between strides, so that nothing is multiplied by a zero and every cell is written by one thread. Sums are in the
        operands' precision, in an order that depends on the shapes only.
        2·B·Cin·(Cout/groups)·cells of x·taps flops. NaN and infinity reach exactly the outputs that their taps reach.
        With gradient g of the output: x_grad[b,c,i] = Σ_{{m,k}} weight[c,m,k] · g[b,m, i·stride + k·dilation − before],
        weight_grad[c,m,k] = Σ_{{b,i}} x[b,c,i] · g[b,m, i·stride + k·dilation − before], bias_grad[m] = Σ g.
        """
    return _named(method, op, doc)


def x_gradient(n):
    op = f"conv_transpose{n}d_x_backward"

    def method(self, weight, output_grad, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1, out=None):
        wa, g = _operands(op, n, ("weight", "output_grad"), (weight, output_grad))
        geometry = _of_output(op, g.shape, wa.shape, (stride, padding, output_padding, dilation, groups))
        out = _alloc.output(op, out, geometry.output_shape, g.dtype, (weight, output_grad))
        return self._conv_transpose_x_backward(wa, g, geometry, out)

    doc = f"""Differentiate :meth:`conv_transpose{n}d` by x: correlate output_grad with the weight.

        Parameters
        ----------
        weight : ndarray [Cin, Cout/groups, {KERNEL[n]}]
        output_grad : ndarray [B, Cout, {OUTPUT[n]}]
        {OPTIONS}
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, Cin, {AXES[n]}]
            x_grad[b,c,i] = Σ_{{m,k}} weight[c,m,k] · output_grad[b,m, i·stride + k·dilation − before]. Its lengths follow from
            output_grad's.

        Raises
        ------
        {RAISES}
        """
    return _named(method, op, doc)


def weight_gradient(n):
    op = f"conv_transpose{n}d_weight_backward"

    def method(self, x, weight, output_grad, *, stride=1, padding=0, output_padding=0, dilation=1, groups=1, out=None):
        xa, wa, g, geometry = _checked(op, n, x, weight, output_grad, (stride, padding, output_padding, dilation, groups))
        out = _alloc.output(op, out, wa.shape, wa.dtype, (x, weight, output_grad))
        return self._conv_weight_backward(g, xa, geometry, out)

    doc = f"""Differentiate :meth:`conv_transpose{n}d` by the weight.

        Parameters
        ----------
        x : ndarray [B, Cin, {AXES[n]}]
        weight : ndarray [Cin, Cout/groups, {KERNEL[n]}]
            Only its shape and dtype count.
        output_grad : ndarray [B, Cout, {OUTPUT[n]}]
        {OPTIONS}
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [Cin, Cout/groups, {KERNEL[n]}]
            weight_grad[c,m,k] = Σ_{{b,i}} x[b,c,i] · output_grad[b,m, i·stride + k·dilation − before].

        Raises
        ------
        {RAISES}
        """
    return _named(method, op, doc)


def bias_gradient(n):
    op = f"conv_transpose{n}d_bias_backward"

    def method(self, x, bias, output_grad, *, out=None):
        return self._conv_bias(op, n, x, bias, output_grad, "NCHW", out)

    doc = f"""Differentiate :meth:`conv_transpose{n}d` by the bias: sum output_grad over batch and positions.

        Parameters
        ----------
        x : ndarray [B, Cin, {AXES[n]}]
            Only its batch and dtype count.
        bias : ndarray [Cout]
            Only its shape and dtype count.
        output_grad : ndarray [B, Cout, {OUTPUT[n]}]
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [Cout]
            Summed in double precision; cells that no tap reached count.

        Raises
        ------
        {RAISES}
        """
    return _named(method, op, doc)


def joint_gradient(n):
    op = f"conv_transpose{n}d_backward"
    result = getattr(results, f"ConvTranspose{n}dGrads")

    def method(self, x, weight, output_grad, *, bias=True, stride=1, padding=0, output_padding=0, dilation=1, groups=1):
        bias = _check.flag(op, "bias", bias)
        xa, wa, g, geometry = _checked(op, n, x, weight, output_grad, (stride, padding, output_padding, dilation, groups))
        x_grad = self._conv_transpose_x_backward(wa, g, geometry, _alloc.empty(xa.shape, xa.dtype))
        weight_grad = self._conv_weight_backward(g, xa, geometry, _alloc.empty(wa.shape, wa.dtype))
        bias_grad = self._conv_bias_backward(g, 1, _alloc.empty(g.shape[1:2], g.dtype)) if bias else None
        return result(x_grad, weight_grad, bias_grad)

    doc = f"""Differentiate :meth:`conv_transpose{n}d` by all operands at once.

        Parameters
        ----------
        x : ndarray [B, Cin, {AXES[n]}]
        weight : ndarray [Cin, Cout/groups, {KERNEL[n]}]
        output_grad : ndarray [B, Cout, {OUTPUT[n]}]
        bias : bool
            Whether the forward pass had a bias.
        {OPTIONS}

        Returns
        -------
        ConvTranspose{n}dGrads
            (x_grad, weight_grad, bias_grad); bias_grad is None without bias.

        Raises
        ------
        {RAISES}
        """
    return _named(method, op, doc)


def _checked(op, n, x, weight, output_grad, options):
    xa, wa, g = _operands(op, n, ("x", "weight", "output_grad"), (x, weight, output_grad))
    geometry = _of_x(op, xa.shape, wa.shape, options)
    _check.shape(op, "output_grad", g, geometry.x_shape, "the output's shape")
    return xa, wa, g, geometry


class ConvTranspose:
    """Transposed convolution of one to three spatial axes."""

    conv_transpose1d = forward_method(1)
    conv_transpose2d = forward_method(2)
    conv_transpose3d = forward_method(3)


class ConvTransposeGradients:
    """Gradients of transposed convolution; those to weight and bias end in the hooks of :class:`cpuops.ops.conv.ConvGradients`."""

    conv_transpose1d_x_backward = x_gradient(1)
    conv_transpose2d_x_backward = x_gradient(2)
    conv_transpose3d_x_backward = x_gradient(3)
    conv_transpose1d_weight_backward = weight_gradient(1)
    conv_transpose2d_weight_backward = weight_gradient(2)
    conv_transpose3d_weight_backward = weight_gradient(3)
    conv_transpose1d_bias_backward = bias_gradient(1)
    conv_transpose2d_bias_backward = bias_gradient(2)
    conv_transpose3d_bias_backward = bias_gradient(3)
    conv_transpose1d_backward = joint_gradient(1)
    conv_transpose2d_backward = joint_gradient(2)
    conv_transpose3d_backward = joint_gradient(3)

    def _conv_transpose_x_backward(self, w, g, geometry, out):
        """The convolution, padded to give as many cells as x has; what lies behind them has come from output_padding."""
        if not out.size:
            return out
        seen, pads = [slice(None)] * 2, []
        options = (geometry.kernel, geometry.output, geometry.stride, geometry.dilation, geometry.before, geometry.size)
        for k, length, s, d, before, size in list(zip(*options, strict=True))[3 - geometry.ndim :]:
            window = (length - 1) * s + d * (k - 1) + 1
            before = min(before, window)
            seen.append(slice(0, min(size, window - before)))
            pads.append((before, window - before - seen[-1].stop))
        axes = slice(3 - geometry.ndim, None)
        conv = getattr(self, f"conv{geometry.ndim}d")
        np.copyto(
            out,
            conv(
                np.ascontiguousarray(g[tuple(seen)]), w, stride=geometry.stride[axes], padding=tuple(pads),
                dilation=geometry.dilation[axes], groups=geometry.groups,
            ),
        )  # fmt: skip
        return out
