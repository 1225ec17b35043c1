"""Max pooling with windows of one size, with and without indices, and the gradients of every maximum."""

import itertools
import math

import numpy as np

from .. import _alloc, _check, results
from ..errors import ArgumentError, DTypeError, message, shown
from .pool_windows import Regular, back_geometry, geometry_of, operands_of

__all__ = ["MaxPool", "MaxPoolGradients"]

INDICES = (np.dtype(np.int32), np.dtype(np.int64))


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


class MaxPool:
    """Forward max pooling. Everything is checked before memory is taken."""

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

    def _max_pool(self, op, n, x, windows, layout, out):
        xa = _check.floating(op, "x", x)
        geometry = geometry_of(op, n, xa, windows, layout)
        out = _alloc.output(op, out, geometry.output_shape, xa.dtype, (x,))
        self._run("pool.max_pool", xa.dtype, geometry.cost(xa.itemsize), xa, out, None, geometry.for_kernel)
        return out

    def _max_pool_with_indices(self, op, n, x, windows, indices_dtype, layout):
        xa = _check.floating(op, "x", x)
        geometry = geometry_of(op, n, xa, windows, layout)
        indices = _alloc.empty(geometry.output_shape, _indices_dtype(op, geometry, indices_dtype))
        out = _alloc.empty(geometry.output_shape, xa.dtype)
        self._run("pool.max_pool", xa.dtype, geometry.cost(xa.itemsize, 2), xa, out, indices, geometry.for_kernel)
        return out, indices


class MaxPoolGradients:
    """Gradients of max pooling; adaptive windows share the hooks."""

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

    def _max_back(self, op, n, x, output_grad, windows, layout, out):
        xa, g = operands_of(op, x, output_grad)
        geometry = back_geometry(op, n, xa, g, windows, layout)
        out = _alloc.output(op, out, xa.shape, xa.dtype, (x, output_grad))
        return self._max_pool_backward(xa, g, geometry, out)

    def _indices_back(self, op, n, x, output_grad, indices, windows, layout, out):
        xa, g = operands_of(op, x, output_grad)
        geometry = back_geometry(op, n, xa, g, windows, layout)
        at = _check.integers(op, "indices", indices)
        _check.shape(op, "indices", at, g.shape, "output_grad's shape")
        _check.index_range(op, "indices", at, geometry.cells)
        out = _alloc.output(op, out, xa.shape, xa.dtype, (x, output_grad, indices))
        return self._max_pool_with_indices_backward(g, at, geometry, out)

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
