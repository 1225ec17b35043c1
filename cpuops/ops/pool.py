"""Max and average pooling in one, two and three dimensions, regular and adaptive, and their gradients.

Every rank, layout and kind of window is one canonical form (:class:`Geometry`): absent axes have length 1, and an adaptive
axis is one without a kernel. Letters: B batch, C channels, L length, D H W volume, OL OD OH OW output, O one axis of it.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

from .. import _alloc, _check, _threads, results
from ..errors import ArgumentError, DTypeError, ShapeError, message, shown

__all__ = ["Axis", "Geometry", "Pool", "PoolGradients"]

LAYOUTS = ("NCHW", "NHWC")
INDICES = (np.dtype(np.int32), np.dtype(np.int64))


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


class Geometry(NamedTuple):
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

    @property
    def cells(self):
        """Cells of a plane: what indices count."""
        return math.prod(self.sizes)

    @property
    def for_kernel(self):
        return (self.planes, self.channels, *map(tuple, self.axes))

    def cost(self, itemsize, passes=1):
        """Nanoseconds on one thread: x and the output go through memory, and each tap is one operation."""
        outputs = self.planes * self.channels * math.prod(self.outputs)
        cells = self.planes * self.channels * self.cells
        taps = math.prod(a.taps for a in self.axes)
        return _threads.work(bytes_=passes * itemsize * (cells + outputs), flops=2 * outputs * taps)


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


def _geometry(op, n, x, windows, layout):
    """Check x's shape and the options of a pooling along n axes, and bring it into canonical form."""
    last = _check.choice(op, "layout", layout, LAYOUTS) == "NHWC"
    _check.rank(op, "x", x, n + 2)
    sizes, channels = (x.shape[1:-1], x.shape[-1]) if last else (x.shape[2:], x.shape[1])
    if min(sizes) < 1:
        raise ShapeError(message(op, "x", f"of shape {x.shape}", "spatial axes of at least one cell"))
    axes = windows.axes(op, sizes)
    outputs = tuple(a.output for a in axes)
    shape = (x.shape[0], *outputs, channels) if last else (x.shape[0], channels, *outputs)
    if math.prod(shape) >= _check.BOUND // 8:
        raise ShapeError(message(op, "output_size", f"{outputs}, which makes an output of {shape}", "one that fits memory"))
    axes = [Axis(1, 1, 1, 1, 0, 0, 1)] * (3 - n) + axes
    while axes[2].plain and not all(a.plain for a in axes):
        axes = [axes[2], axes[0], axes[1]]  # kernels take vectors of the last axis
    planes, inner = (x.shape[0], channels) if last else (x.shape[0] * channels, 1)
    return Geometry(planes, inner, tuple(axes), x.shape, shape)


def _back_geometry(op, n, x, g, windows, layout):
    """The same for a gradient; without `windows` they are adaptive, as many as output_grad has cells."""
    adaptive = windows is None
    if adaptive:
        _check.choice(op, "layout", layout, LAYOUTS)
        _check.rank(op, "output_grad", g, n + 2)
        lengths = g.shape[1:-1] if layout == "NHWC" else g.shape[2:]
        if min(lengths) < 1:
            raise ShapeError(message(op, "output_grad", f"of shape {g.shape}", "spatial axes of at least one cell"))
        windows = Adaptive(lengths)
    geometry = _geometry(op, n, x, windows, layout)
    _check.shape(op, "output_grad", g, geometry.output_shape, "x's batch and channels" if adaptive else "the output's shape")
    return geometry


def _divisor(op, count_include_pad, divisor_override):
    """The two options as kernels take them: a flag, and 0.0 for no override."""
    include = _check.flag(op, "count_include_pad", count_include_pad)
    return include, 0.0 if divisor_override is None else float(_check.integer(op, "divisor_override", divisor_override, 1))


def _indices_dtype(op, geometry, value):
    try:
        dtype = np.dtype(value)
    except Exception:  # whatever NumPy makes of a stranger
        raise DTypeError(message(op, "indices_dtype", shown(value), "int32 or int64")) from None
    if value is None or dtype not in INDICES or not dtype.isnative:
        raise DTypeError(message(op, "indices_dtype", shown(value), "int32 or int64"))
    if geometry.cells - 1 > np.iinfo(dtype).max:
        raise ArgumentError(message(op, "indices_dtype", "int32", f"int64 for planes of {geometry.cells} cells"))
    return dtype


def _operands(op, x, output_grad):
    return _check.required(op, ("x", "output_grad"), (x, output_grad))


def _first_maxima(x, geometry):
    """Indices of the first maximum (the first NaN, where there is one) of every window, like the output."""
    x = x.reshape(geometry.planes, *geometry.sizes, geometry.channels)
    (d, d_in, _), (h, h_in, _), (w, w_in, _) = (a.windows() for a in geometry.axes)
    best = np.full((geometry.planes, *geometry.outputs, geometry.channels), -np.inf, x.dtype)
    index = np.full(best.shape, -1)
    for i, j, k in itertools.product(range(d.shape[1]), range(h.shape[1]), range(w.shape[1])):
        inside = d_in[:, i, None, None] & h_in[None, :, j, None] & w_in[None, None, :, k]
        at = [np.where(hit[:, t], cell[:, t], 0) for cell, hit, t in ((d, d_in, i), (h, h_in, j), (w, w_in, k))]
        v = x[:, at[0][:, None, None], at[1][:, None], at[2]]
        take = inside[..., None] & ((index < 0) | (v > best) | (np.isnan(v) & ~np.isnan(best)))
        flat = (at[0][:, None, None] * geometry.sizes[1] + at[1][:, None]) * geometry.sizes[2] + at[2]
        best = np.where(take, v, best)
        index = np.where(take, flat[..., None], index)
    return index


class Pool:
    """Forward pooling. Everything is checked before memory is taken; sums are in double precision."""

    def max_pool1d(self, x, kernel_size, *, stride=None, padding=0, dilation=1, ceil_mode=False, out=None):
        """Take the maximum of every window: output[b,c,o] = max_t x[b,c, o·stride − padding + t·dilation].

        Parameters
        ----------
        x : ndarray [B, C, L]
        kernel_size : int, or sequence of one
            Taps along each axis.
        stride : int, or sequence of one, optional
            Cells from one window to the next; None is kernel_size.
        padding : int, or sequence of one int or (before, after) pair an axis
            Cells around x that never win; at most half of kernel_size.
        dilation : int, or sequence of one
            Cells from one tap to the next.
        ceil_mode : bool
            Round the output's lengths up; a last window that would start behind x and the padding before it is dropped.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C, OL]

        Raises
        ------
        ShapeError
            When x has another rank or an empty spatial axis, or the kernel does not fit the padded x.
        ArgumentError
            When an option is out of range, padding is more than half of kernel_size, or a window touches no cell of x.

        Notes
        -----
        A NaN in a window wins. The gradient goes to the first maximum of a window in row-major order
        (`max_pool1d_backward`).
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        return self._max_pool("max_pool1d", 1, x, windows, "NCHW", out)

    def max_pool2d(self, x, kernel_size, *, stride=None, padding=0, dilation=1, ceil_mode=False, layout="NCHW", out=None):
        """Take the maximum of every window: output[b,c,o] = max_t x[b,c, o·stride − padding + t·dilation].

        Parameters
        ----------
        x : ndarray [B, C, H, W] or [B, H, W, C]
        kernel_size : int, or sequence of (height, width)
            Taps along each axis.
        stride : int, or sequence of (height, width), optional
            Cells from one window to the next; None is kernel_size.
        padding : int, or sequence of one int or (before, after) pair an axis
            Cells around x that never win; at most half of kernel_size.
        dilation : int, or sequence of (height, width)
            Cells from one tap to the next.
        ceil_mode : bool
            Round the output's lengths up; a last window that would start behind x and the padding before it is dropped.
        layout : {"NCHW", "NHWC"}
            Order of the axes of x and the output.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C, OH, OW] or [B, OH, OW, C]

        Raises
        ------
        ShapeError
            When x has another rank or an empty spatial axis, or the kernel does not fit the padded x.
        ArgumentError
            When an option is out of range, padding is more than half of kernel_size, or a window touches no cell of x.

        Notes
        -----
        A NaN in a window wins. The gradient goes to the first maximum of a window in row-major order
        (`max_pool2d_backward`).
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        return self._max_pool("max_pool2d", 2, x, windows, layout, out)

    def max_pool3d(self, x, kernel_size, *, stride=None, padding=0, dilation=1, ceil_mode=False, out=None):
        """Take the maximum of every window: output[b,c,o] = max_t x[b,c, o·stride − padding + t·dilation].

        Parameters
        ----------
        x : ndarray [B, C, D, H, W]
        kernel_size : int, or sequence of (depth, height, width)
            Taps along each axis.
        stride : int, or sequence of (depth, height, width), optional
            Cells from one window to the next; None is kernel_size.
        padding : int, or sequence of one int or (before, after) pair an axis
            Cells around x that never win; at most half of kernel_size.
        dilation : int, or sequence of (depth, height, width)
            Cells from one tap to the next.
        ceil_mode : bool
            Round the output's lengths up; a last window that would start behind x and the padding before it is dropped.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C, OD, OH, OW]

        Raises
        ------
        ShapeError
            When x has another rank or an empty spatial axis, or the kernel does not fit the padded x.
        ArgumentError
            When an option is out of range, padding is more than half of kernel_size, or a window touches no cell of x.

        Notes
        -----
        A NaN in a window wins. The gradient goes to the first maximum of a window in row-major order
        (`max_pool3d_backward`).
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        return self._max_pool("max_pool3d", 3, x, windows, "NCHW", out)

    def max_pool1d_with_indices(
        self, x, kernel_size, *, stride=None, padding=0, dilation=1, ceil_mode=False, indices_dtype=np.int64
    ):
        """Take the maximum of every window, and where it stands.

        Parameters
        ----------
        x : ndarray [B, C, L]
        kernel_size, stride, padding, dilation, ceil_mode
            As for :meth:`max_pool1d`.
        indices_dtype : dtype
            int32 or int64.

        Returns
        -------
        MaxPool1dWithIndices
            (output, indices), both [B, C, OL].
            An index counts the cells of a plane in row-major order. It is that of the first maximum, or of the first NaN
            where there is one, and always that of a cell of x.

        Raises
        ------
        ShapeError, ArgumentError
            As for :meth:`max_pool1d`; ArgumentError also when int32 cannot count the cells of a plane.
        DTypeError
            When indices_dtype is neither int32 nor int64.
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        pair = self._max_pool_with_indices("max_pool1d_with_indices", 1, x, windows, indices_dtype, "NCHW")
        return results.MaxPool1dWithIndices(*pair)

    def max_pool2d_with_indices(
        self, x, kernel_size, *, stride=None, padding=0, dilation=1, ceil_mode=False, indices_dtype=np.int64, layout="NCHW"
    ):
        """Take the maximum of every window, and where it stands.

        Parameters
        ----------
        x : ndarray [B, C, H, W] or [B, H, W, C]
        kernel_size, stride, padding, dilation, ceil_mode, layout
            As for :meth:`max_pool2d`.
        indices_dtype : dtype
            int32 or int64.

        Returns
        -------
        MaxPool2dWithIndices
            (output, indices), both [B, C, OH, OW] or [B, OH, OW, C].
            An index counts the cells of a plane in row-major order. It is that of the first maximum, or of the first NaN
            where there is one, and always that of a cell of x.

        Raises
        ------
        ShapeError, ArgumentError
            As for :meth:`max_pool2d`; ArgumentError also when int32 cannot count the cells of a plane.
        DTypeError
            When indices_dtype is neither int32 nor int64.
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        pair = self._max_pool_with_indices("max_pool2d_with_indices", 2, x, windows, indices_dtype, layout)
        return results.MaxPool2dWithIndices(*pair)

    def max_pool3d_with_indices(
        self, x, kernel_size, *, stride=None, padding=0, dilation=1, ceil_mode=False, indices_dtype=np.int64
    ):
        """Take the maximum of every window, and where it stands.

        Parameters
        ----------
        x : ndarray [B, C, D, H, W]
        kernel_size, stride, padding, dilation, ceil_mode
            As for :meth:`max_pool3d`.
        indices_dtype : dtype
            int32 or int64.

        Returns
        -------
        MaxPool3dWithIndices
            (output, indices), both [B, C, OD, OH, OW].
            An index counts the cells of a plane in row-major order. It is that of the first maximum, or of the first NaN
            where there is one, and always that of a cell of x.

        Raises
        ------
        ShapeError, ArgumentError
            As for :meth:`max_pool3d`; ArgumentError also when int32 cannot count the cells of a plane.
        DTypeError
            When indices_dtype is neither int32 nor int64.
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        pair = self._max_pool_with_indices("max_pool3d_with_indices", 3, x, windows, indices_dtype, "NCHW")
        return results.MaxPool3dWithIndices(*pair)

    def avg_pool1d(
        self, x, kernel_size, *, stride=None, padding=0, dilation=1, count_include_pad=True, ceil_mode=False,
        divisor_override=None, out=None,
    ):  # fmt: skip
        """Average every window: output[b,c,o] = Σ_t x[b,c, o·stride − padding + t·dilation] / divisor(o).

        Parameters
        ----------
        x : ndarray [B, C, L]
        kernel_size : int, or sequence of one
            Taps along each axis.
        stride : int, or sequence of one, optional
            Cells from one window to the next; None is kernel_size.
        padding : int, or sequence of one int or (before, after) pair an axis
            Cells around x that add nothing; at most half of kernel_size.
        dilation : int, or sequence of one
            Cells from one tap to the next.
        count_include_pad : bool
            Whether taps in the padding count in the divisor. Taps behind it, which `ceil_mode` may make, never do.
        ceil_mode : bool
            Round the output's lengths up; a last window that would start behind x and the padding before it is dropped.
        divisor_override : int, optional
            The divisor of every window, at least 1.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C, OL]

        Raises
        ------
        ShapeError
            When x has another rank or an empty spatial axis, or the kernel does not fit the padded x.
        ArgumentError
            When an option is out of range, padding is more than half of kernel_size, or a window touches no cell of x.

        Notes
        -----
        The divisor is the number of the window's taps inside the padded x or, without `count_include_pad`, inside x. The
        gradient has the same (`avg_pool1d_backward`). Sums in double precision.
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        return self._avg_pool("avg_pool1d", 1, x, windows, count_include_pad, divisor_override, "NCHW", out)

    def avg_pool2d(
        self, x, kernel_size, *, stride=None, padding=0, dilation=1, count_include_pad=True, ceil_mode=False,
        divisor_override=None, layout="NCHW", out=None,
    ):  # fmt: skip
        """Average every window: output[b,c,o] = Σ_t x[b,c, o·stride − padding + t·dilation] / divisor(o).

        Parameters
        ----------
        x : ndarray [B, C, H, W] or [B, H, W, C]
        kernel_size : int, or sequence of (height, width)
            Taps along each axis.
        stride : int, or sequence of (height, width), optional
            Cells from one window to the next; None is kernel_size.
        padding : int, or sequence of one int or (before, after) pair an axis
            Cells around x that add nothing; at most half of kernel_size.
        dilation : int, or sequence of (height, width)
            Cells from one tap to the next.
        count_include_pad : bool
            Whether taps in the padding count in the divisor. Taps behind it, which `ceil_mode` may make, never do.
        ceil_mode : bool
            Round the output's lengths up; a last window that would start behind x and the padding before it is dropped.
        divisor_override : int, optional
            The divisor of every window, at least 1.
        layout : {"NCHW", "NHWC"}
            Order of the axes of x and the output.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C, OH, OW] or [B, OH, OW, C]

        Raises
        ------
        ShapeError
            When x has another rank or an empty spatial axis, or the kernel does not fit the padded x.
        ArgumentError
            When an option is out of range, padding is more than half of kernel_size, or a window touches no cell of x.

        Notes
        -----
        The divisor is the number of the window's taps inside the padded x or, without `count_include_pad`, inside x. The
        gradient has the same (`avg_pool2d_backward`). Sums in double precision.
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        return self._avg_pool("avg_pool2d", 2, x, windows, count_include_pad, divisor_override, layout, out)

    def avg_pool3d(
        self, x, kernel_size, *, stride=None, padding=0, dilation=1, count_include_pad=True, ceil_mode=False,
        divisor_override=None, out=None,
    ):  # fmt: skip
        """Average every window: output[b,c,o] = Σ_t x[b,c, o·stride − padding + t·dilation] / divisor(o).

        Parameters
        ----------
        x : ndarray [B, C, D, H, W]
        kernel_size : int, or sequence of (depth, height, width)
            Taps along each axis.
        stride : int, or sequence of (depth, height, width), optional
            Cells from one window to the next; None is kernel_size.
        padding : int, or sequence of one int or (before, after) pair an axis
            Cells around x that add nothing; at most half of kernel_size.
        dilation : int, or sequence of (depth, height, width)
            Cells from one tap to the next.
        count_include_pad : bool
            Whether taps in the padding count in the divisor. Taps behind it, which `ceil_mode` may make, never do.
        ceil_mode : bool
            Round the output's lengths up; a last window that would start behind x and the padding before it is dropped.
        divisor_override : int, optional
            The divisor of every window, at least 1.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C, OD, OH, OW]

        Raises
        ------
        ShapeError
            When x has another rank or an empty spatial axis, or the kernel does not fit the padded x.
        ArgumentError
            When an option is out of range, padding is more than half of kernel_size, or a window touches no cell of x.

        Notes
        -----
        The divisor is the number of the window's taps inside the padded x or, without `count_include_pad`, inside x. The
        gradient has the same (`avg_pool3d_backward`). Sums in double precision.
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        return self._avg_pool("avg_pool3d", 3, x, windows, count_include_pad, divisor_override, "NCHW", out)

    def adaptive_max_pool1d(self, x, output_size, *, out=None):
        """Take the maximum of `output_size` windows that share out x: window i of O is [⌊iL/O⌋, ⌈(i+1)L/O⌉).

        Parameters
        ----------
        x : ndarray [B, C, L]
        output_size : int, or sequence of one
            Windows along each axis; more than cells is legal.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C, OL]

        Raises
        ------
        ShapeError
            When x has another rank or an empty spatial axis.
        ArgumentError
            When output_size is less than 1.

        Notes
        -----
        A NaN in a window wins. The gradient goes to the first maximum of a window in row-major order
        (`adaptive_max_pool1d_backward`).
        """
        return self._max_pool("adaptive_max_pool1d", 1, x, Adaptive(output_size), "NCHW", out)

    def adaptive_max_pool2d(self, x, output_size, *, layout="NCHW", out=None):
        """Take the maximum of `output_size` windows that share out x: window i of O is [⌊iL/O⌋, ⌈(i+1)L/O⌉).

        Parameters
        ----------
        x : ndarray [B, C, H, W] or [B, H, W, C]
        output_size : int, or sequence of (height, width)
            Windows along each axis; more than cells is legal.
        layout : {"NCHW", "NHWC"}
            Order of the axes of x and the output.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C, OH, OW] or [B, OH, OW, C]

        Raises
        ------
        ShapeError
            When x has another rank or an empty spatial axis.
        ArgumentError
            When output_size is less than 1.

        Notes
        -----
        A NaN in a window wins. The gradient goes to the first maximum of a window in row-major order
        (`adaptive_max_pool2d_backward`).
        """
        return self._max_pool("adaptive_max_pool2d", 2, x, Adaptive(output_size), layout, out)

    def adaptive_max_pool3d(self, x, output_size, *, out=None):
        """Take the maximum of `output_size` windows that share out x: window i of O is [⌊iL/O⌋, ⌈(i+1)L/O⌉).

        Parameters
        ----------
        x : ndarray [B, C, D, H, W]
        output_size : int, or sequence of (depth, height, width)
            Windows along each axis; more than cells is legal.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C, OD, OH, OW]

        Raises
        ------
        ShapeError
            When x has another rank or an empty spatial axis.
        ArgumentError
            When output_size is less than 1.

        Notes
        -----
        A NaN in a window wins. The gradient goes to the first maximum of a window in row-major order
        (`adaptive_max_pool3d_backward`).
        """
        return self._max_pool("adaptive_max_pool3d", 3, x, Adaptive(output_size), "NCHW", out)

    def adaptive_max_pool1d_with_indices(self, x, output_size, *, indices_dtype=np.int64):
        """Take the maximum of `output_size` windows that share out x, and where it stands.

        Parameters
        ----------
        x : ndarray [B, C, L]
        output_size
            As for :meth:`adaptive_max_pool1d`.
        indices_dtype : dtype
            int32 or int64.

        Returns
        -------
        AdaptiveMaxPool1dWithIndices
            (output, indices), both [B, C, OL];
            indices as of :meth:`max_pool1d_with_indices`.

        Raises
        ------
        ShapeError, ArgumentError
            As for :meth:`adaptive_max_pool1d`; ArgumentError also when int32 cannot count the cells of a plane.
        DTypeError
            When indices_dtype is neither int32 nor int64.
        """
        pair = self._max_pool_with_indices("adaptive_max_pool1d_with_indices", 1, x, Adaptive(output_size), indices_dtype, "NCHW")
        return results.AdaptiveMaxPool1dWithIndices(*pair)

    def adaptive_max_pool2d_with_indices(self, x, output_size, *, indices_dtype=np.int64, layout="NCHW"):
        """Take the maximum of `output_size` windows that share out x, and where it stands.

        Parameters
        ----------
        x : ndarray [B, C, H, W] or [B, H, W, C]
        output_size, layout
            As for :meth:`adaptive_max_pool2d`.
        indices_dtype : dtype
            int32 or int64.

        Returns
        -------
        AdaptiveMaxPool2dWithIndices
            (output, indices), both [B, C, OH, OW] or [B, OH, OW, C];
            indices as of :meth:`max_pool2d_with_indices`.

        Raises
        ------
        ShapeError, ArgumentError
            As for :meth:`adaptive_max_pool2d`; ArgumentError also when int32 cannot count the cells of a plane.
        DTypeError
            When indices_dtype is neither int32 nor int64.
        """
        pair = self._max_pool_with_indices("adaptive_max_pool2d_with_indices", 2, x, Adaptive(output_size), indices_dtype, layout)
        return results.AdaptiveMaxPool2dWithIndices(*pair)

    def adaptive_max_pool3d_with_indices(self, x, output_size, *, indices_dtype=np.int64):
        """Take the maximum of `output_size` windows that share out x, and where it stands.

        Parameters
        ----------
        x : ndarray [B, C, D, H, W]
        output_size
            As for :meth:`adaptive_max_pool3d`.
        indices_dtype : dtype
            int32 or int64.

        Returns
        -------
        AdaptiveMaxPool3dWithIndices
            (output, indices), both [B, C, OD, OH, OW];
            indices as of :meth:`max_pool3d_with_indices`.

        Raises
        ------
        ShapeError, ArgumentError
            As for :meth:`adaptive_max_pool3d`; ArgumentError also when int32 cannot count the cells of a plane.
        DTypeError
            When indices_dtype is neither int32 nor int64.
        """
        pair = self._max_pool_with_indices("adaptive_max_pool3d_with_indices", 3, x, Adaptive(output_size), indices_dtype, "NCHW")
        return results.AdaptiveMaxPool3dWithIndices(*pair)

    def adaptive_avg_pool1d(self, x, output_size, *, out=None):
        """Average `output_size` windows that share out x: window i of O is [⌊iL/O⌋, ⌈(i+1)L/O⌉).

        Parameters
        ----------
        x : ndarray [B, C, L]
        output_size : int, or sequence of one
            Windows along each axis; more than cells is legal.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C, OL]

        Raises
        ------
        ShapeError
            When x has another rank or an empty spatial axis.
        ArgumentError
            When output_size is less than 1.

        Notes
        -----
        Sums in double precision. Gradient: `adaptive_avg_pool1d_backward`.
        """
        return self._avg_pool("adaptive_avg_pool1d", 1, x, Adaptive(output_size), True, None, "NCHW", out)

    def adaptive_avg_pool2d(self, x, output_size, *, layout="NCHW", out=None):
        """Average `output_size` windows that share out x: window i of O is [⌊iL/O⌋, ⌈(i+1)L/O⌉).

        Parameters
        ----------
        x : ndarray [B, C, H, W] or [B, H, W, C]
        output_size : int, or sequence of (height, width)
            Windows along each axis; more than cells is legal.
        layout : {"NCHW", "NHWC"}
            Order of the axes of x and the output.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C, OH, OW] or [B, OH, OW, C]

        Raises
        ------
        ShapeError
            When x has another rank or an empty spatial axis.
        ArgumentError
            When output_size is less than 1.

        Notes
        -----
        Sums in double precision. Gradient: `adaptive_avg_pool2d_backward`.
        """
        return self._avg_pool("adaptive_avg_pool2d", 2, x, Adaptive(output_size), True, None, layout, out)

    def adaptive_avg_pool3d(self, x, output_size, *, out=None):
        """Average `output_size` windows that share out x: window i of O is [⌊iL/O⌋, ⌈(i+1)L/O⌉).

        Parameters
        ----------
        x : ndarray [B, C, D, H, W]
        output_size : int, or sequence of (depth, height, width)
            Windows along each axis; more than cells is legal.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C, OD, OH, OW]

        Raises
        ------
        ShapeError
            When x has another rank or an empty spatial axis.
        ArgumentError
            When output_size is less than 1.

        Notes
        -----
        Sums in double precision. Gradient: `adaptive_avg_pool3d_backward`.
        """
        return self._avg_pool("adaptive_avg_pool3d", 3, x, Adaptive(output_size), True, None, "NCHW", out)

    def _max_pool(self, op, n, x, windows, layout, out):
        xa = _check.floating(op, "x", x)
        geometry = _geometry(op, n, xa, windows, layout)
        out = _alloc.output(op, out, geometry.output_shape, xa.dtype, (x,))
        self._run("pool.max_pool", xa.dtype, geometry.cost(xa.itemsize), xa, out, None, geometry.for_kernel)
        return out

    def _max_pool_with_indices(self, op, n, x, windows, indices_dtype, layout):
        xa = _check.floating(op, "x", x)
        geometry = _geometry(op, n, xa, windows, layout)
        indices = _alloc.empty(geometry.output_shape, _indices_dtype(op, geometry, indices_dtype))
        out = _alloc.empty(geometry.output_shape, xa.dtype)
        self._run("pool.max_pool", xa.dtype, geometry.cost(xa.itemsize, 2), xa, out, indices, geometry.for_kernel)
        return out, indices

    def _avg_pool(self, op, n, x, windows, count_include_pad, divisor_override, layout, out):
        xa = _check.floating(op, "x", x)
        geometry = _geometry(op, n, xa, windows, layout)
        divisor = _divisor(op, count_include_pad, divisor_override)
        out = _alloc.output(op, out, geometry.output_shape, xa.dtype, (x,))
        self._run("pool.avg_pool", xa.dtype, geometry.cost(xa.itemsize), xa, out, geometry.for_kernel, *divisor)
        return out


class PoolGradients:
    """Gradients of pooling; each public method checks and ends in a hook."""

    def max_pool1d_backward(self, x, output_grad, kernel_size, *, stride=None, padding=0, dilation=1, ceil_mode=False, out=None):
        """Differentiate `max_pool1d`: each window adds its output_grad to x_grad at its first maximum.

        Parameters
        ----------
        x : ndarray [B, C, L]
            The maxima are searched in it again.
        output_grad : ndarray [B, C, OL]
        kernel_size, stride, padding, dilation, ceil_mode
            As given to the forward.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.

        Notes
        -----
        Of equal cells the first in row-major order gets it all; a NaN counts as the maximum.
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        return self._max_back("max_pool1d_backward", 1, x, output_grad, windows, "NCHW", out)

    def max_pool2d_backward(
        self, x, output_grad, kernel_size, *, stride=None, padding=0, dilation=1, ceil_mode=False, layout="NCHW", out=None
    ):
        """Differentiate `max_pool2d`: each window adds its output_grad to x_grad at its first maximum.

        Parameters
        ----------
        x : ndarray [B, C, H, W] or [B, H, W, C]
            The maxima are searched in it again.
        output_grad : ndarray [B, C, OH, OW] or [B, OH, OW, C]
        kernel_size, stride, padding, dilation, ceil_mode, layout
            As given to the forward.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.

        Notes
        -----
        Of equal cells the first in row-major order gets it all; a NaN counts as the maximum.
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        return self._max_back("max_pool2d_backward", 2, x, output_grad, windows, layout, out)

    def max_pool3d_backward(self, x, output_grad, kernel_size, *, stride=None, padding=0, dilation=1, ceil_mode=False, out=None):
        """Differentiate `max_pool3d`: each window adds its output_grad to x_grad at its first maximum.

        Parameters
        ----------
        x : ndarray [B, C, D, H, W]
            The maxima are searched in it again.
        output_grad : ndarray [B, C, OD, OH, OW]
        kernel_size, stride, padding, dilation, ceil_mode
            As given to the forward.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.

        Notes
        -----
        Of equal cells the first in row-major order gets it all; a NaN counts as the maximum.
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        return self._max_back("max_pool3d_backward", 3, x, output_grad, windows, "NCHW", out)

    def max_pool1d_with_indices_backward(
        self, x, kernel_size, output_grad, indices, *, stride=None, padding=0, dilation=1, ceil_mode=False,
        out=None,
    ):  # fmt: skip
        """Differentiate `max_pool1d_with_indices`: x_grad[b,c,indices[b,c,o]] += output_grad[b,c,o].

        Parameters
        ----------
        x : ndarray [B, C, L]
            Only its shape and dtype count.
        kernel_size, stride, padding, dilation, ceil_mode
            As given to the forward.
        output_grad : ndarray [B, C, OL]
        indices : ndarray of integers [B, C, OL]
            As the forward gave them.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError, ArgumentError
            As the forward; ShapeError also when output_grad or indices have not the output's shape.
        IndexRangeError
            When an index lies outside its plane.

        Notes
        -----
        Repeats add up in the order of the output's cells.
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        return self._indices_back("max_pool1d_with_indices_backward", 1, x, output_grad, indices, windows, "NCHW", out)

    def max_pool2d_with_indices_backward(
        self, x, kernel_size, output_grad, indices, *, stride=None, padding=0, dilation=1, ceil_mode=False,
        layout="NCHW", out=None,
    ):  # fmt: skip
        """Differentiate `max_pool2d_with_indices`: x_grad[b,c,indices[b,c,o]] += output_grad[b,c,o].

        Parameters
        ----------
        x : ndarray [B, C, H, W] or [B, H, W, C]
            Only its shape and dtype count.
        kernel_size, stride, padding, dilation, ceil_mode, layout
            As given to the forward.
        output_grad : ndarray [B, C, OH, OW] or [B, OH, OW, C]
        indices : ndarray of integers [B, C, OH, OW] or [B, OH, OW, C]
            As the forward gave them.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError, ArgumentError
            As the forward; ShapeError also when output_grad or indices have not the output's shape.
        IndexRangeError
            When an index lies outside its plane.

        Notes
        -----
        Repeats add up in the order of the output's cells.
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        return self._indices_back("max_pool2d_with_indices_backward", 2, x, output_grad, indices, windows, layout, out)

    def max_pool3d_with_indices_backward(
        self, x, kernel_size, output_grad, indices, *, stride=None, padding=0, dilation=1, ceil_mode=False,
        out=None,
    ):  # fmt: skip
        """Differentiate `max_pool3d_with_indices`: x_grad[b,c,indices[b,c,o]] += output_grad[b,c,o].

        Parameters
        ----------
        x : ndarray [B, C, D, H, W]
            Only its shape and dtype count.
        kernel_size, stride, padding, dilation, ceil_mode
            As given to the forward.
        output_grad : ndarray [B, C, OD, OH, OW]
        indices : ndarray of integers [B, C, OD, OH, OW]
            As the forward gave them.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError, ArgumentError
            As the forward; ShapeError also when output_grad or indices have not the output's shape.
        IndexRangeError
            When an index lies outside its plane.

        Notes
        -----
        Repeats add up in the order of the output's cells.
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        return self._indices_back("max_pool3d_with_indices_backward", 3, x, output_grad, indices, windows, "NCHW", out)

    def avg_pool1d_backward(
        self, x, output_grad, kernel_size, *, stride=None, padding=0, dilation=1, count_include_pad=True, ceil_mode=False,
        divisor_override=None, out=None,
    ):  # fmt: skip
        """Differentiate `avg_pool1d`: x_grad[b,c,i] = Σ output_grad[b,c,o] / divisor(o) over the windows o that hold i.

        Parameters
        ----------
        x : ndarray [B, C, L]
            Only its shape and dtype count.
        output_grad : ndarray [B, C, OL]
        kernel_size, stride, padding, dilation, count_include_pad, ceil_mode, divisor_override
            As given to the forward.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape
            Summed in double precision.

        Raises
        ------
        ShapeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        return self._avg_back("avg_pool1d_backward", 1, x, output_grad, windows, count_include_pad, divisor_override, "NCHW", out)

    def avg_pool2d_backward(
        self, x, output_grad, kernel_size, *, stride=None, padding=0, dilation=1, count_include_pad=True, ceil_mode=False,
        divisor_override=None, layout="NCHW", out=None,
    ):  # fmt: skip
        """Differentiate `avg_pool2d`: x_grad[b,c,i] = Σ output_grad[b,c,o] / divisor(o) over the windows o that hold i.

        Parameters
        ----------
        x : ndarray [B, C, H, W] or [B, H, W, C]
            Only its shape and dtype count.
        output_grad : ndarray [B, C, OH, OW] or [B, OH, OW, C]
        kernel_size, stride, padding, dilation, count_include_pad, ceil_mode, divisor_override, layout
            As given to the forward.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape
            Summed in double precision.

        Raises
        ------
        ShapeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        return self._avg_back("avg_pool2d_backward", 2, x, output_grad, windows, count_include_pad, divisor_override, layout, out)

    def avg_pool3d_backward(
        self, x, output_grad, kernel_size, *, stride=None, padding=0, dilation=1, count_include_pad=True, ceil_mode=False,
        divisor_override=None, out=None,
    ):  # fmt: skip
        """Differentiate `avg_pool3d`: x_grad[b,c,i] = Σ output_grad[b,c,o] / divisor(o) over the windows o that hold i.

        Parameters
        ----------
        x : ndarray [B, C, D, H, W]
            Only its shape and dtype count.
        output_grad : ndarray [B, C, OD, OH, OW]
        kernel_size, stride, padding, dilation, count_include_pad, ceil_mode, divisor_override
            As given to the forward.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape
            Summed in double precision.

        Raises
        ------
        ShapeError, ArgumentError
            As the forward; ShapeError also when output_grad has not the output's shape.
        """
        windows = Regular(kernel_size, stride, padding, dilation, ceil_mode)
        return self._avg_back("avg_pool3d_backward", 3, x, output_grad, windows, count_include_pad, divisor_override, "NCHW", out)

    def adaptive_max_pool1d_backward(self, x, output_grad, *, out=None):
        """Differentiate `adaptive_max_pool1d`: each window adds its output_grad to x_grad at its first maximum.

        Parameters
        ----------
        x : ndarray [B, C, L]
            The maxima are searched in it again.
        output_grad : ndarray [B, C, OL]
            Its lengths tell the windows.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError
            When an operand has another rank or an empty spatial axis, or they differ in batch or channels.
        """
        return self._max_back("adaptive_max_pool1d_backward", 1, x, output_grad, None, "NCHW", out)

    def adaptive_max_pool2d_backward(self, x, output_grad, *, layout="NCHW", out=None):
        """Differentiate `adaptive_max_pool2d`: each window adds its output_grad to x_grad at its first maximum.

        Parameters
        ----------
        x : ndarray [B, C, H, W] or [B, H, W, C]
            The maxima are searched in it again.
        output_grad : ndarray [B, C, OH, OW] or [B, OH, OW, C]
            Its lengths tell the windows.
        layout : {"NCHW", "NHWC"}
            As given to the forward.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError
            When an operand has another rank or an empty spatial axis, or they differ in batch or channels.
        """
        return self._max_back("adaptive_max_pool2d_backward", 2, x, output_grad, None, layout, out)

    def adaptive_max_pool3d_backward(self, x, output_grad, *, out=None):
        """Differentiate `adaptive_max_pool3d`: each window adds its output_grad to x_grad at its first maximum.

        Parameters
        ----------
        x : ndarray [B, C, D, H, W]
            The maxima are searched in it again.
        output_grad : ndarray [B, C, OD, OH, OW]
            Its lengths tell the windows.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError
            When an operand has another rank or an empty spatial axis, or they differ in batch or channels.
        """
        return self._max_back("adaptive_max_pool3d_backward", 3, x, output_grad, None, "NCHW", out)

    def adaptive_max_pool1d_with_indices_backward(self, x, output_grad, indices, *, out=None):
        """Differentiate `adaptive_max_pool1d_with_indices`: x_grad[b,c,indices[b,c,o]] += output_grad[b,c,o].

        Parameters
        ----------
        x : ndarray [B, C, L]
            Only its shape and dtype count.
        output_grad : ndarray [B, C, OL]
        indices : ndarray of integers [B, C, OL]
            As the forward gave them.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError
            When an operand has another rank or an empty spatial axis, or they differ in batch, channels or lengths.
        IndexRangeError
            When an index lies outside its plane.
        """
        return self._indices_back("adaptive_max_pool1d_with_indices_backward", 1, x, output_grad, indices, None, "NCHW", out)

    def adaptive_max_pool2d_with_indices_backward(self, x, output_grad, indices, *, layout="NCHW", out=None):
        """Differentiate `adaptive_max_pool2d_with_indices`: x_grad[b,c,indices[b,c,o]] += output_grad[b,c,o].

        Parameters
        ----------
        x : ndarray [B, C, H, W] or [B, H, W, C]
            Only its shape and dtype count.
        output_grad : ndarray [B, C, OH, OW] or [B, OH, OW, C]
        indices : ndarray of integers [B, C, OH, OW] or [B, OH, OW, C]
            As the forward gave them.
        layout : {"NCHW", "NHWC"}
            As given to the forward.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError
            When an operand has another rank or an empty spatial axis, or they differ in batch, channels or lengths.
        IndexRangeError
            When an index lies outside its plane.
        """
        return self._indices_back("adaptive_max_pool2d_with_indices_backward", 2, x, output_grad, indices, None, layout, out)

    def adaptive_max_pool3d_with_indices_backward(self, x, output_grad, indices, *, out=None):
        """Differentiate `adaptive_max_pool3d_with_indices`: x_grad[b,c,indices[b,c,o]] += output_grad[b,c,o].

        Parameters
        ----------
        x : ndarray [B, C, D, H, W]
            Only its shape and dtype count.
        output_grad : ndarray [B, C, OD, OH, OW]
        indices : ndarray of integers [B, C, OD, OH, OW]
            As the forward gave them.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape

        Raises
        ------
        ShapeError
            When an operand has another rank or an empty spatial axis, or they differ in batch, channels or lengths.
        IndexRangeError
            When an index lies outside its plane.
        """
        return self._indices_back("adaptive_max_pool3d_with_indices_backward", 3, x, output_grad, indices, None, "NCHW", out)

    def adaptive_avg_pool1d_backward(self, x, output_grad, *, out=None):
        """Differentiate `adaptive_avg_pool1d`: x_grad[b,c,i] = Σ output_grad[b,c,o] / |window o| over the windows o that hold i.

        Parameters
        ----------
        x : ndarray [B, C, L]
            Only its shape and dtype count.
        output_grad : ndarray [B, C, OL]
            Its lengths tell the windows.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape
            Summed in double precision.

        Raises
        ------
        ShapeError
            When an operand has another rank or an empty spatial axis, or they differ in batch or channels.
        """
        return self._avg_back("adaptive_avg_pool1d_backward", 1, x, output_grad, None, True, None, "NCHW", out)

    def adaptive_avg_pool2d_backward(self, x, output_grad, *, layout="NCHW", out=None):
        """Differentiate `adaptive_avg_pool2d`: x_grad[b,c,i] = Σ output_grad[b,c,o] / |window o| over the windows o that hold i.

        Parameters
        ----------
        x : ndarray [B, C, H, W] or [B, H, W, C]
            Only its shape and dtype count.
        output_grad : ndarray [B, C, OH, OW] or [B, OH, OW, C]
            Its lengths tell the windows.
        layout : {"NCHW", "NHWC"}
            As given to the forward.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape
            Summed in double precision.

        Raises
        ------
        ShapeError
            When an operand has another rank or an empty spatial axis, or they differ in batch or channels.
        """
        return self._avg_back("adaptive_avg_pool2d_backward", 2, x, output_grad, None, True, None, layout, out)

    def adaptive_avg_pool3d_backward(self, x, output_grad, *, out=None):
        """Differentiate `adaptive_avg_pool3d`: x_grad[b,c,i] = Σ output_grad[b,c,o] / |window o| over the windows o that hold i.

        Parameters
        ----------
        x : ndarray [B, C, D, H, W]
            Only its shape and dtype count.
        output_grad : ndarray [B, C, OD, OH, OW]
            Its lengths tell the windows.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray of x's shape
            Summed in double precision.

        Raises
        ------
        ShapeError
            When an operand has another rank or an empty spatial axis, or they differ in batch or channels.
        """
        return self._avg_back("adaptive_avg_pool3d_backward", 3, x, output_grad, None, True, None, "NCHW", out)

    def _max_back(self, op, n, x, output_grad, windows, layout, out):
        xa, g = _operands(op, x, output_grad)
        geometry = _back_geometry(op, n, xa, g, windows, layout)
        out = _alloc.output(op, out, xa.shape, xa.dtype, (x, output_grad))
        return self._max_pool_backward(xa, g, geometry, out)

    def _indices_back(self, op, n, x, output_grad, indices, windows, layout, out):
        xa, g = _operands(op, x, output_grad)
        geometry = _back_geometry(op, n, xa, g, windows, layout)
        at = _check.integers(op, "indices", indices)
        _check.shape(op, "indices", at, g.shape, "output_grad's shape")
        _check.index_range(op, "indices", at, geometry.cells)
        out = _alloc.output(op, out, xa.shape, xa.dtype, (x, output_grad, indices))
        return self._max_pool_with_indices_backward(g, at, geometry, out)

    def _avg_back(self, op, n, x, output_grad, windows, count_include_pad, divisor_override, layout, out):
        xa, g = _operands(op, x, output_grad)
        geometry = _back_geometry(op, n, xa, g, windows, layout)
        divisor = _divisor(op, count_include_pad, divisor_override)
        out = _alloc.output(op, out, xa.shape, xa.dtype, (x, output_grad))
        return self._avg_pool_backward(g, geometry, *divisor, out)

    # ---- the hooks: operands in the shapes of `geometry`

    def _max_pool_backward(self, x, g, geometry, out):
        return self._max_pool_with_indices_backward(g, _first_maxima(x, geometry), geometry, out)

    def _max_pool_with_indices_backward(self, g, indices, geometry, out):
        flat = (geometry.planes, math.prod(geometry.outputs), geometry.channels)
        x_grad = np.zeros((geometry.planes, geometry.cells, geometry.channels), g.dtype)
        plane, _, channel = np.ogrid[: geometry.planes, :1, : geometry.channels]
        np.add.at(x_grad, (plane, indices.reshape(flat), channel), g.reshape(flat))
        out[...] = x_grad.reshape(out.shape)
        return out

    def _avg_pool_backward(self, g, geometry, include_pad, divisor, out):
        x_grad = g.reshape(geometry.planes, *geometry.outputs, geometry.channels).astype(np.float64)
        if divisor:
            x_grad /= divisor
        for i, axis in enumerate(geometry.axes, 1):
            cells, inside, counted = axis.windows()
            # the windows of this axis first: [O, ...] to [L, ...]
            per_window = np.moveaxis(x_grad, i, 0)
            if not divisor:
                per_window = per_window / (counted if include_pad else inside.sum(1)).reshape(-1, 1, 1, 1, 1)
            per_cell = np.zeros((axis.size, *per_window.shape[1:]))
            for tap in range(cells.shape[1]):
                hit = inside[:, tap]
                np.add.at(per_cell, cells[hit, tap], per_window[hit])
            x_grad = np.moveaxis(per_cell, 0, i)
        out[...] = x_grad.reshape(out.shape)
        return out
