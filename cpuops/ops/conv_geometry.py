"""What a convolution is made of: one canonical three-dimensional correlation for every rank and layout.

Absent axes have length 1, and a layout is a choice of strides. Letters: B batch, G groups, C input and M output channels of a
group, D H W volume, KD KH KW kernel, OD OH OW output.
"""

import math
import struct

import numpy as np

from .. import _check, _operand, _threads
from .._remembered import remembered
from ..errors import ShapeError, message

__all__ = ["LAYOUTS", "Geometry"]

LAYOUTS = ("NCHW", "NHWC")
# number of axes -> the shapes of x, weight and output, in words
SHAPES = {
    1: ("[B, Cin, L]", "[Cout, Cin/groups, K]", "[B, Cout, OL]"),
    2: (
        "[B, Cin, H, W], or [B, H, W, Cin]",
        "[Cout, Cin/groups, KH, KW], or [KH, KW, Cin/groups, Cout]",
        "[B, Cout, OH, OW], or [B, OH, OW, Cout]",
    ),
    3: ("[B, Cin, D, H, W]", "[Cout, Cin/groups, KD, KH, KW]", "[B, Cout, OD, OH, OW]"),
}


def _words(n):
    """What docstrings of methods of the convolution along n axes are filled with."""
    x, weight, output = SHAPES[n]
    options = "stride, padding, dilation, groups" + ", layout" * (n == 2)
    return {"n": n, "forward": f"conv{n}d", "x": x, "weight": weight, "output": output, "options": options}


def _with_docstring(text):
    """Give a method this docstring."""

    def document(method):
        method.__doc__ = text
        return method

    return document


class Geometry:
    """One correlation in canonical form; the tuples hold depth, height, width.

    It is remembered, so what follows from it is worked out once: the shapes of the arrays, the multiplications of one pass
    (padding included: those of the forward and of either large gradient), their cost in nanoseconds, and the numbers as the
    kernels read them.
    """

    def __init__(self, batch, groups, outputs, channels, channels_last, size, kernel, output, stride, dilation, before, ndim):
        self.batch, self.groups, self.outputs, self.channels = batch, groups, outputs, channels
        self.channels_last, self.ndim = channels_last, ndim
        self.size, self.kernel, self.output = size, kernel, output
        self.stride, self.dilation, self.before = stride, dilation, before
        cin, cout, taps = groups * channels, groups * outputs, kernel[3 - ndim :]
        self.x_shape = self._shape(cin, size)
        self.output_shape = self._shape(cout, output)
        self.weight_shape = (*taps, channels, cout) if channels_last else (cout, channels, *taps)
        self.multiplications = batch * math.prod(output) * cout * channels * math.prod(kernel)
        self.work = _threads.work(flops=2 * self.multiplications)
        numbers = (batch, groups, outputs, channels, channels_last, *size, *kernel, *output, *stride, *dilation, *before)
        self.numbers = struct.pack(f"{len(numbers)}n", *numbers)

    def _shape(self, channels, axes):
        axes = axes[3 - self.ndim :]
        return (self.batch, *axes, channels) if self.channels_last else (self.batch, channels, *axes)

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
    _check.choice(op, "layout", layout, LAYOUTS)
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
    """The operands, all of one dtype and with n spatial axes."""
    if _operand.ready_of_rank(values, n + 2):
        return values
    arrays = _check.required(op, names, values)
    for name, a in zip(names, arrays, strict=True):
        _check.rank(op, name, a, n + 2)
    return arrays


def _bias(op, xa, bias, channels):
    """The bias as an array, or None."""
    if bias is None:
        return None
    _, ba = _check.required(op, ("x", "bias"), (xa, bias))
    _check.shape(op, "bias", ba, (channels,), "one value an output channel")
    return ba
