"""Convolution in one, two and three dimensions, and its gradients.

Every rank and layout is one canonical three-dimensional correlation (:class:`Geometry`): absent axes have length 1, and a
layout is a choice of strides. Letters: B batch, G groups, C input and M output channels of a group, D H W volume,
KD KH KW kernel, OD OH OW output.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

from .. import _alloc, _check, _threads, results
from ..errors import ShapeError, message
from ._remembered import remembered

__all__ = ["Conv", "ConvGradients", "Geometry"]

LAYOUTS = ("NCHW", "NHWC")


class Geometry(NamedTuple):
    """One correlation in canonical form; the tuples hold depth, height, width. The field order is the kernels' order."""

    batch: int
    groups: int
    outputs: int
    channels: int
    channels_last: bool
    size: tuple
    kernel: tuple
    output: tuple
    stride: tuple
    dilation: tuple
    before: tuple
    ndim: int

    @property
    def multiplications(self):
        """Multiplications of one pass, padding included: those of the forward and of either large gradient."""
        return self.batch * math.prod(self.output) * self.groups * self.outputs * self.channels * math.prod(self.kernel)

    @property
    def x_shape(self):
        return self._shape(self.batch, self.groups * self.channels, self.size)

    @property
    def weight_shape(self):
        kernel = self.kernel[3 - self.ndim :]
        if self.channels_last:
            return (*kernel, self.channels, self.groups * self.outputs)
        return (self.groups * self.outputs, self.channels, *kernel)

    @property
    def output_shape(self):
        return self._shape(self.batch, self.groups * self.outputs, self.output)

    def _shape(self, batch, channels, axes):
        axes = axes[3 - self.ndim :]
        return (batch, *axes, channels) if self.channels_last else (batch, channels, *axes)

    def planes(self, a, channels):
        """View of x, the output or a gradient of either as [B, G, channels, D, H, W]."""
        if self.channels_last:
            a = np.moveaxis(a, -1, 1)
        a = a.reshape(*a.shape[:1], self.groups, channels, *a.shape[2:])
        return np.expand_dims(a, tuple(range(3, 6 - self.ndim)))

    def taps(self, w):
        """View of the weight or its gradient as [G, M, C, KD, KH, KW]."""
        if self.channels_last:
            w = np.moveaxis(w, (-1, -2), (0, 1))
        w = w.reshape(self.groups, self.outputs, *w.shape[1:])
        return np.expand_dims(w, tuple(range(3, 6 - self.ndim)))

    def covered(self, tap):
        """Slices of the output's and of x's axes that meet at one tap: what lies over padding is in neither."""
        over, under = [], []
        for t, length, output, s, d, p in zip(tap, self.size, self.output, self.stride, self.dilation, self.before, strict=True):
            first = max(0, -((t * d - p) // s))
            last = min(output - 1, (length - 1 + p - t * d) // s)
            if last < first:
                return None
            start = first * s + t * d - p
            over.append(slice(first, last + 1))
            under.append(slice(start, start + (last - first) * s + 1, s))
        return tuple(over), tuple(under)


@remembered
def _geometry(op, x_shape, weight_shape, stride, padding, dilation, groups, layout="NCHW", names=("x", "weight")):
    """Check shapes and options of a convolution; the forward and every gradient share this.

    `x_shape` and `weight_shape` are of equal, checked rank; `names` are what the operation calls them.
    """
    n = len(x_shape) - 2
    x_name, w_name = names
    last = layout == "NHWC"
    if last:
        batch, *size, cin = x_shape
        *kernel, channels, cout = weight_shape
    else:
        batch, cin, *size = x_shape
        cout, channels, *kernel = weight_shape
    groups = _check.integer(op, "groups", groups, 1)
    if cin != groups * channels:
        expected = f"groups * {w_name} channels = {groups} * {channels} ({w_name} of shape {weight_shape})"
        raise ShapeError(message(op, x_name, f"of {cin} channels (shape {x_shape})", expected))
    if cout % groups:
        raise ShapeError(message(op, w_name, f"of {cout} output channels", f"a multiple of groups {groups}"))
    if 0 in kernel:
        raise ShapeError(message(op, w_name, f"of shape {weight_shape}", "kernel sizes of at least 1"))
    stride = _check.per_axis(op, "stride", stride, n, 1)
    dilation = _check.per_axis(op, "dilation", dilation, n, 1)
    pads = _check.padding(op, padding, n, ("valid", "same"), kernel, stride, dilation)
    output = []
    for length, k, s, d, (before, after) in zip(size, kernel, stride, dilation, pads, strict=True):
        reach, padded = d * (k - 1) + 1, length + before + after
        if reach > padded:
            given = f"of kernel size {k} with dilation {d} (it reaches over {reach} cells)"
            raise ShapeError(message(op, w_name, given, f"at most {x_name}'s {length} cells with padding ({before}, {after})"))
        if padded >= _check.BOUND:
            raise ShapeError(message(op, "padding", f"({before}, {after})", "one that fits an array"))
        output.append((padded - reach) // s + 1)
    if batch * cout * math.prod(output) >= _check.BOUND // 8:
        raise ShapeError(message(op, "padding", f"{pads}, which makes an output of {tuple(output)}", "one that fits an array"))
    one, zero = (1,) * (3 - n), (0,) * (3 - n)
    return Geometry(
        batch, groups, cout // groups, channels, last, (*one, *size), (*one, *kernel), (*one, *output), one + stride, one + dilation,
        zero + tuple([p[0] for p in pads]), n,
    )  # fmt: skip


def _operands(op, n, names, values):
    """The operands, all of one dtype; those but a bias have n spatial axes."""
    arrays = _check.required(op, names, values)
    for name, a in zip(names, arrays, strict=True):
        if a.ndim != n + 2 and name != "bias":
            _check.rank(op, name, a, n + 2)
    return arrays


def _work(geometry):
    return _threads.work(flops=2 * geometry.multiplications)


class Conv:
    """Convolution (cross-correlation) of one to three spatial axes."""

    def conv1d(self, x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1, out=None):
        """Correlate along one axis: out[b, m, o] = bias[m] + Σ_{c,k} weight[m, c, k] · x[b, c, o·stride + k·dilation − before].

        Parameters
        ----------
        x : ndarray [B, Cin, L]
        weight : ndarray [Cout, Cin/groups, K]
        bias : ndarray [Cout], optional
        stride, dilation : int or sequence of one int, >= 1
        padding : int, sequence of one int or of one (before, after) pair, "valid" (none) or "same" (keeps the length)
        groups : int
            Divides Cin and Cout; output channels of a group see the input channels of that group.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, Cout, ⌊(L + before + after − dilation·(K−1) − 1)/stride⌋ + 1]

        Raises
        ------
        ShapeError, ArgumentError, DTypeError
            As :meth:`conv2d`.

        Notes
        -----
        Numerics and gradient are those of :meth:`conv2d`.
        """
        return self._convolve("conv1d", 1, x, weight, bias, stride, padding, dilation, groups, "NCHW", out)

    def conv2d(self, x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1, layout="NCHW", out=None):
        """Correlate images: out[b,m,p,q] = bias[m] + Σ_{c,i,j} weight[m,c,i,j] · x[b,c, p·sh + i·dh − top, q·sw + j·dw − left].

        Parameters
        ----------
        x : ndarray [B, Cin, H, W], or [B, H, W, Cin] with ``layout="NHWC"``
        weight : ndarray [Cout, Cin/groups, KH, KW], or [KH, KW, Cin/groups, Cout]
        bias : ndarray [Cout], optional
        stride, dilation : int or sequence of two, >= 1
        padding : int, sequence of two ints or of two (before, after) pairs, "valid" or "same"
            Cells around x that count as absent: they are skipped, not multiplied. "same" keeps height and width (an odd
            extra cell at the end) and needs stride 1.
        groups : int
            Divides Cin and Cout; output channels of a group see the input channels of that group.
        layout : {"NCHW", "NHWC"}
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, Cout, OH, OW], or [B, OH, OW, Cout]
            OH = ⌊(H + top + bottom − dh·(KH−1) − 1)/sh⌋ + 1, OW likewise.

        Raises
        ------
        ShapeError
            Ranks, channel counts or a kernel that is larger than the padded input.
        ArgumentError
            Options out of range.
        DTypeError
            Operands that are not all float32 or all float64.

        Notes
        -----
        Sums are in the operands' precision, in blocks of a few hundred terms. The order of the sum depends on the shapes
        only. 3x3 kernels of stride 1 and many channels take fewer multiplications and a few times the error (Winograd 1980;
        ``docs/numerics.md``); :func:`cpuops.explain` tells which path a call takes.
        2·B·Cout·OH·OW·(Cin/groups)·KH·KW flops. NaN and infinity reach exactly the outputs whose window holds them.
        With gradient g of the output: x_grad[b,c,h,w] = Σ g·weight over the windows that cover the cell,
        weight_grad[m,c,i,j] = Σ_{b,p,q} g[b,m,p,q] · x[b,c, p·sh + i·dh − top, …], bias_grad[m] = Σ_{b,p,q} g.
        """
        layout = _check.choice("conv2d", "layout", layout, LAYOUTS)
        return self._convolve("conv2d", 2, x, weight, bias, stride, padding, dilation, groups, layout, out)

    def conv3d(self, x, weight, bias=None, *, stride=1, padding=0, dilation=1, groups=1, out=None):
        """Correlate volumes, as :meth:`conv2d` with one more axis.

        Parameters
        ----------
        x : ndarray [B, Cin, D, H, W]
        weight : ndarray [Cout, Cin/groups, KD, KH, KW]
        bias : ndarray [Cout], optional
        stride, dilation : int or sequence of three, >= 1
        padding : int, sequence of three ints or of three (before, after) pairs, "valid" or "same"
        groups : int
            Divides Cin and Cout; output channels of a group see the input channels of that group.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, Cout, OD, OH, OW]

        Raises
        ------
        ShapeError, ArgumentError, DTypeError
            As :meth:`conv2d`.

        Notes
        -----
        Numerics and gradient are those of :meth:`conv2d`.
        """
        return self._convolve("conv3d", 3, x, weight, bias, stride, padding, dilation, groups, "NCHW", out)

    def _convolve(self, op, n, x, weight, bias, stride, padding, dilation, groups, layout, out):
        if bias is None:
            xa, wa = _operands(op, n, ("x", "weight"), (x, weight))
            ba = None
        else:
            xa, wa, ba = _operands(op, n, ("x", "weight", "bias"), (x, weight, bias))
        geometry = _geometry(op, xa.shape, wa.shape, stride, padding, dilation, groups, layout)
        if ba is not None:
            _check.shape(op, "bias", ba, (geometry.groups * geometry.outputs,), "one value an output channel")
        out = _alloc.output(op, out, geometry.output_shape, xa.dtype, (x, weight, bias))
        self._run("conv.conv_forward", xa.dtype, _work(geometry), xa, wa, ba, out, geometry)
        return out


class ConvGradients:
    """Gradients of convolution."""

    def conv1d_x_backward(self, x, weight, output_grad, *, stride=1, padding=0, dilation=1, groups=1, out=None):
        """Differentiate :meth:`conv1d` by x: x_grad[b,c,l] = Σ_{m,k} weight[m,c,k] · output_grad[b,m,o], o·stride + k·dilation − before = l.

        Parameters
        ----------
        x : ndarray [B, Cin, L]
            Only its shape and dtype count.
        weight : ndarray [Cout, Cin/groups, K]
        output_grad : ndarray of the output's shape
        stride, padding, dilation, groups
            As given to :meth:`conv1d`.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, Cin, L]
            Cells that no window covers are 0.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.
        """
        return self._conv_x("conv1d_x_backward", 1, x, weight, output_grad, stride, padding, dilation, groups, "NCHW", out)

    def conv2d_x_backward(self, x, weight, output_grad, *, stride=1, padding=0, dilation=1, groups=1, layout="NCHW", out=None):
        """Differentiate :meth:`conv2d` by x: x_grad[b,c,h,w] = Σ weight[m,c,i,j] · output_grad[b,m,p,q] over p·sh + i·dh − top = h, ….

        Parameters
        ----------
        x : ndarray [B, Cin, H, W], or [B, H, W, Cin]
            Only its shape and dtype count.
        weight : ndarray [Cout, Cin/groups, KH, KW], or [KH, KW, Cin/groups, Cout]
        output_grad : ndarray of the output's shape
        stride, padding, dilation, groups, layout
            As given to :meth:`conv2d`.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape
            Cells that no window covers are 0.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.

        Notes
        -----
        A correlation of output_grad with the flipped weights, one for each position of a cell between strides, so that
        nothing is multiplied by a zero: as many flops as the forward pass.
        """
        return self._conv_x("conv2d_x_backward", 2, x, weight, output_grad, stride, padding, dilation, groups, layout, out)

    def conv3d_x_backward(self, x, weight, output_grad, *, stride=1, padding=0, dilation=1, groups=1, out=None):
        """Differentiate :meth:`conv3d` by x, as :meth:`conv2d_x_backward` with one more axis.

        Parameters
        ----------
        x : ndarray [B, Cin, D, H, W]
            Only its shape and dtype count.
        weight : ndarray [Cout, Cin/groups, KD, KH, KW]
        output_grad : ndarray of the output's shape
        stride, padding, dilation, groups
            As given to :meth:`conv3d`.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape
            Cells that no window covers are 0.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.
        """
        return self._conv_x("conv3d_x_backward", 3, x, weight, output_grad, stride, padding, dilation, groups, "NCHW", out)

    def conv1d_weight_backward(self, x, weight, output_grad, *, stride=1, padding=0, dilation=1, groups=1, out=None):
        """Differentiate :meth:`conv1d` by the weight: weight_grad[m,c,k] = Σ_{b,o} output_grad[b,m,o] · x[b,c, o·stride + k·dilation − before].

        Parameters
        ----------
        x : ndarray [B, Cin, L]
        weight : ndarray [Cout, Cin/groups, K]
            Only its shape and dtype count.
        output_grad : ndarray of the output's shape
        stride, padding, dilation, groups
            As given to :meth:`conv1d`.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [Cout, Cin/groups, K]

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.
        """
        return self._conv_weight("conv1d_weight_backward", 1, x, weight, output_grad, stride, padding, dilation, groups, "NCHW", out)

    def conv2d_weight_backward(self, x, weight, output_grad, *, stride=1, padding=0, dilation=1, groups=1, layout="NCHW", out=None):
        """Differentiate :meth:`conv2d` by the weight: weight_grad[m,c,i,j] = Σ_{b,p,q} output_grad[b,m,p,q] · x[b,c, p·sh + i·dh − top, …].

        Parameters
        ----------
        x : ndarray [B, Cin, H, W], or [B, H, W, Cin]
        weight : ndarray [Cout, Cin/groups, KH, KW], or [KH, KW, Cin/groups, Cout]
            Only its shape and dtype count.
        output_grad : ndarray of the output's shape
        stride, padding, dilation, groups, layout
            As given to :meth:`conv2d`.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of weight's shape

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.

        Notes
        -----
        The sum over batch and positions is cut into pieces by shape; the pieces are added in index order.
        """
        return self._conv_weight("conv2d_weight_backward", 2, x, weight, output_grad, stride, padding, dilation, groups, layout, out)

    def conv3d_weight_backward(self, x, weight, output_grad, *, stride=1, padding=0, dilation=1, groups=1, out=None):
        """Differentiate :meth:`conv3d` by the weight, as :meth:`conv2d_weight_backward` with one more axis.

        Parameters
        ----------
        x : ndarray [B, Cin, D, H, W]
        weight : ndarray [Cout, Cin/groups, KD, KH, KW]
            Only its shape and dtype count.
        output_grad : ndarray of the output's shape
        stride, padding, dilation, groups
            As given to :meth:`conv3d`.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of weight's shape

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.
        """
        return self._conv_weight("conv3d_weight_backward", 3, x, weight, output_grad, stride, padding, dilation, groups, "NCHW", out)

    def conv1d_bias_backward(self, x, bias, output_grad, *, out=None):
        """Differentiate :meth:`conv1d` by the bias: bias_grad[m] = Σ_{b,o} output_grad[b,m,o].

        Parameters
        ----------
        x : ndarray [B, Cin, L]
            Only its batch and dtype count.
        bias : ndarray [Cout]
            Only its shape and dtype count.
        output_grad : ndarray [B, Cout, OL]
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [Cout]
            Summed in double precision.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.
        """
        return self._conv_bias("conv1d_bias_backward", 1, x, bias, output_grad, "NCHW", out)

    def conv2d_bias_backward(self, x, bias, output_grad, *, layout="NCHW", out=None):
        """Differentiate :meth:`conv2d` by the bias: bias_grad[m] = Σ_{b,p,q} output_grad[b,m,p,q].

        Parameters
        ----------
        x : ndarray [B, Cin, H, W], or [B, H, W, Cin]
            Only its batch and dtype count.
        bias : ndarray [Cout]
            Only its shape and dtype count.
        output_grad : ndarray [B, Cout, OH, OW], or [B, OH, OW, Cout]
        layout : {"NCHW", "NHWC"}
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [Cout]
            Summed in double precision.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.
        """
        return self._conv_bias("conv2d_bias_backward", 2, x, bias, output_grad, layout, out)

    def conv3d_bias_backward(self, x, bias, output_grad, *, out=None):
        """Differentiate :meth:`conv3d` by the bias: bias_grad[m] is the sum of output_grad over batch and positions.

        Parameters
        ----------
        x : ndarray [B, Cin, D, H, W]
            Only its batch and dtype count.
        bias : ndarray [Cout]
            Only its shape and dtype count.
        output_grad : ndarray [B, Cout, OD, OH, OW]
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [Cout]
            Summed in double precision.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.
        """
        return self._conv_bias("conv3d_bias_backward", 3, x, bias, output_grad, "NCHW", out)

    def conv1d_backward(self, x, weight, output_grad, *, bias=True, stride=1, padding=0, dilation=1, groups=1):
        """Differentiate :meth:`conv1d` by all operands at once.

        Parameters
        ----------
        x : ndarray [B, Cin, L]
        weight : ndarray [Cout, Cin/groups, K]
        output_grad : ndarray of the output's shape
        bias : bool
            Whether the forward pass had a bias.
        stride, padding, dilation, groups
            As given to :meth:`conv1d`.

        Returns
        -------
        Conv1dGrads
            (x_grad, weight_grad, bias_grad); bias_grad is None without bias.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.
        """
        grads = self._conv_all("conv1d_backward", 1, x, weight, output_grad, bias, stride, padding, dilation, groups, "NCHW")
        return results.Conv1dGrads(*grads)

    def conv2d_backward(self, x, weight, output_grad, *, bias=True, stride=1, padding=0, dilation=1, groups=1, layout="NCHW"):
        """Differentiate :meth:`conv2d` by all operands at once.

        Parameters
        ----------
        x : ndarray [B, Cin, H, W], or [B, H, W, Cin]
        weight : ndarray [Cout, Cin/groups, KH, KW], or [KH, KW, Cin/groups, Cout]
        output_grad : ndarray of the output's shape
        bias : bool
            Whether the forward pass had a bias.
        stride, padding, dilation, groups, layout
            As given to :meth:`conv2d`.

        Returns
        -------
        Conv2dGrads
            (x_grad, weight_grad, bias_grad); bias_grad is None without bias.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.
        """
        grads = self._conv_all("conv2d_backward", 2, x, weight, output_grad, bias, stride, padding, dilation, groups, layout)
        return results.Conv2dGrads(*grads)

    def conv3d_backward(self, x, weight, output_grad, *, bias=True, stride=1, padding=0, dilation=1, groups=1):
        """Differentiate :meth:`conv3d` by all operands at once.

        Parameters
        ----------
        x : ndarray [B, Cin, D, H, W]
        weight : ndarray [Cout, Cin/groups, KD, KH, KW]
        output_grad : ndarray of the output's shape
        bias : bool
            Whether the forward pass had a bias.
        stride, padding, dilation, groups
            As given to :meth:`conv3d`.

        Returns
        -------
        Conv3dGrads
            (x_grad, weight_grad, bias_grad); bias_grad is None without bias.

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.
        """
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
        _check.choice(op, "layout", layout, LAYOUTS)
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
        x_grad = self._conv_x_backward(wa, g, geometry, _alloc.empty(xa.shape, xa.dtype))
        weight_grad = self._conv_weight_backward(xa, g, geometry, _alloc.empty(wa.shape, wa.dtype))
        if not bias:
            return x_grad, weight_grad, None
        bias_grad = _alloc.empty((geometry.groups * geometry.outputs,), xa.dtype)
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
