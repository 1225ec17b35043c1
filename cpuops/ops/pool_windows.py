"""The windows of every pooling: what is checked, which cells they read, what they count. Forward and gradients share it.

Every rank, layout and kind of window is one canonical form (:class:`Geometry`): absent axes have length 1, and an adaptive
axis is one without a kernel. Letters: B batch, C channels, L length, D H W volume, OL OD OH OW output, O one axis of it.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .. import _check, _threads
from .._remembered import remembered
from ..errors import ArgumentError, ShapeError, message

__all__ = ["Adaptive", "Axis", "Geometry", "Regular", "back_geometry", "geometry_of", "operands_of"]

LAYOUTS = ("NCHW", "NHWC")


class Axis(NamedTuple):
    """The windows along one axis; the field order is the kernels' order. An adaptive axis has kernel 0."""

    size: int
    output: int
    kernel: int
    stride: int
    before: int
    after: int
    dilation: int

    @property
    def plain(self):
        """Whether the axis is as good as absent."""
        return self.size == self.output == 1 and self.kernel <= 1 and self.before == self.after == 0

    @property
    def whole(self):
        """Whether one window holds all of the axis and nothing else."""
        return self.output == 1 and self.kernel == self.size and self.before == self.after == 0 and (self.dilation == 1 or self.size == 1)

    @property
    def taps(self):
        """The most cells of a window."""
        return min(self.kernel, self.size) if self.kernel else min(self.size, self.size // self.output + 2)

    def windows(self):
        """What every window reads and counts.

        Returns
        -------
        cells : ndarray [O, T] of int64
        inside : ndarray [O, T] of bool
            Whether the tap is one of the window's and its cell one of the axis.
        counted : ndarray [O] of int64
            Taps inside the padded extent.
        """
        o = np.arange(self.output, dtype=np.int64)[:, None]
        if self.kernel:
            cells = o * self.stride - self.before + self.dilation * np.arange(self.kernel, dtype=np.int64)
            inside = (cells >= 0) & (cells < self.size)
            return cells, inside, (cells < self.size + self.after).sum(1)
        first, last = o * self.size // self.output, -(-(o + 1) * self.size // self.output)
        cells = first + np.arange(self.taps, dtype=np.int64)
        inside = cells < last
        return cells, inside, inside.sum(1)


ABSENT = Axis(1, 1, 1, 1, 0, 0, 1)


@dataclass(frozen=True)
class Geometry:
    """One pooling in canonical form: x [planes, *sizes, channels], output [planes, *outputs, channels]."""

    planes: int
    channels: int
    axes: tuple
    x_shape: tuple
    output_shape: tuple

    @property
    def sizes(self):
        return tuple(a.size for a in self.axes)

    @property
    def outputs(self):
        return tuple(a.output for a in self.axes)

    @cached_property
    def cells(self):
        """Cells of a plane: what indices count."""
        return math.prod(self.sizes)

    @cached_property
    def for_kernel(self):
        return (self.planes, self.channels, *map(tuple, self.axes))

    @cached_property
    def _traffic(self):
        """Cells that go through memory, and taps."""
        outputs = math.prod(self.output_shape)
        return math.prod(self.x_shape) + outputs, outputs * math.prod(a.taps for a in self.axes)

    def cost(self, itemsize, passes=1):
        """Nanoseconds on one thread: x and the output go through memory, and each tap is one operation."""
        cells, taps = self._traffic
        return _threads.work(bytes_=passes * itemsize * cells, flops=2 * taps)


class Regular(NamedTuple):
    """The options of a pooling with windows of one size, as given."""

    kernel_size: object
    stride: object
    padding: object
    dilation: object
    ceil_mode: object

    def axes(self, op, sizes):
        n = len(sizes)
        kernel = _check.per_axis(op, "kernel_size", self.kernel_size, n, 1)
        stride = kernel if self.stride is None else _check.per_axis(op, "stride", self.stride, n, 1)
        dilation = _check.per_axis(op, "dilation", self.dilation, n, 1)
        pads = _check.padding(op, self.padding, n)
        ceil_mode = _check.flag(op, "ceil_mode", self.ceil_mode)
        each = zip(sizes, kernel, stride, dilation, pads, strict=True)
        return [_regular_axis(op, i, *options, ceil_mode) for i, options in enumerate(each)]


class Adaptive(NamedTuple):
    """The option of a pooling with a number of windows, as given."""

    output_size: object

    def axes(self, op, sizes):
        outputs = _check.per_axis(op, "output_size", self.output_size, len(sizes), 1)
        return [_adaptive_axis(size, output) for size, output in zip(sizes, outputs, strict=True)]


def _regular_axis(op, i, size, k, s, d, pads, ceil_mode):
    """Check one axis; the forward and every gradient share this."""
    before, after = pads
    reach, padded = d * (k - 1) + 1, size + before + after
    if 2 * max(pads) > k:
        raise ArgumentError(message(op, "padding", f"{pads} on spatial axis {i}", f"at most half of kernel_size {k}"))
    if reach > padded:
        given = f"{k} with dilation {d} (reach {reach}) on spatial axis {i}"
        raise ShapeError(message(op, "kernel_size", given, f"at most x's padded length {padded}"))
    room = padded - reach
    output = (-(-room // s) if ceil_mode else room // s) + 1
    if ceil_mode and (output - 1) * s >= size + before:
        output -= 1
    if size < d:  # a window of at most half padding can miss x only between two taps
        starts = np.arange(output) * s - before
        missed = np.where(starts < 0, starts % d, starts) >= size
        if missed.any():
            given = f"{d}, with which window {int(missed.argmax())} on spatial axis {i} touches no cell of x"
            raise ArgumentError(message(op, "dilation", given, f"at most x's length {size}, or less padding"))
    return Axis(size, output, k, s, before, after, d)


def _adaptive_axis(size, output):
    """Windows of one size where `output` divides `size`: the faster kind."""
    if size % output:
        return Axis(size, output, 0, 1, 0, 0, 1)
    return Axis(size, output, size // output, size // output, 0, 0, 1)


def _joined(axes):
    """Make one axis of the last ones that a single window holds: its cells lie side by side."""
    while axes[1].whole and axes[2].whole and not (axes[0].plain and axes[1].plain):
        size = axes[1].size * axes[2].size
        axes = [ABSENT, axes[0], Axis(size, 1, size, size, 0, 0, 1)]
    return axes


def geometry_of(op, n, x, windows, layout):
    """Check x's shape and the options of a pooling along n axes, and bring it into canonical form."""
    last = _check.choice(op, "layout", layout, LAYOUTS) == "NHWC"
    _check.rank(op, "x", x, n + 2)
    return _geometry(windows, op, n, x.shape, last)


@remembered
def _geometry(windows, op, n, x_shape, last):
    sizes, channels = (x_shape[1:-1], x_shape[-1]) if last else (x_shape[2:], x_shape[1])
    if min(sizes) < 1:
        raise ShapeError(message(op, "x", f"of shape {x_shape}", "spatial axes of at least one cell"))
    axes = windows.axes(op, sizes)
    outputs = tuple(a.output for a in axes)
    shape = (x_shape[0], *outputs, channels) if last else (x_shape[0], channels, *outputs)
    if math.prod(shape) >= _check.BOUND // 8:
        raise ShapeError(message(op, "output_size", f"{outputs}, which makes an output of {shape}", "one that fits memory"))
    axes = _joined([ABSENT] * (3 - n) + axes)
    while axes[2].plain and not all(a.plain for a in axes):
        axes = [axes[2], axes[0], axes[1]]  # kernels take vectors of the last axis
    planes, inner = (x_shape[0], channels) if last else (x_shape[0] * channels, 1)
    return Geometry(planes, inner, tuple(axes), x_shape, shape)


def back_geometry(op, n, x, g, windows, layout):
    """The same for a gradient; without `windows` they are adaptive, as many as output_grad has cells."""
    adaptive = windows is None
    if adaptive:
        _check.choice(op, "layout", layout, LAYOUTS)
        _check.rank(op, "output_grad", g, n + 2)
        lengths = g.shape[1:-1] if layout == "NHWC" else g.shape[2:]
        if min(lengths) < 1:
            raise ShapeError(message(op, "output_grad", f"of shape {g.shape}", "spatial axes of at least one cell"))
        windows = Adaptive(lengths)
    geometry = geometry_of(op, n, x, windows, layout)
    _check.shape(op, "output_grad", g, geometry.output_shape, "x's batch and channels" if adaptive else "the output's shape")
    return geometry


def operands_of(op, x, output_grad):
    return _check.required(op, ("x", "output_grad"), (x, output_grad))
