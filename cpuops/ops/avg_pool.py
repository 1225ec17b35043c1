"""Average pooling with windows of one size, and the gradient of every average. Sums are in double precision."""

import numpy as np

from .. import _alloc, _check
from .pool_windows import Regular, back_geometry, geometry_of, operands_of

__all__ = ["AvgPool", "AvgPoolGradients"]


def _divisor(op, count_include_pad, divisor_override):
    """The two options as kernels take them: a flag, and 0.0 for no override."""
    include = _check.flag(op, "count_include_pad", count_include_pad)
    return include, 0.0 if divisor_override is None else float(_check.integer(op, "divisor_override", divisor_override, 1))


class AvgPool:
    """Forward average pooling. Everything is checked before memory is taken."""

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

    def _avg_pool(self, op, n, x, windows, count_include_pad, divisor_override, layout, out):
        xa = _check.floating(op, "x", x)
        geometry = geometry_of(op, n, xa, windows, layout)
        divisor = _divisor(op, count_include_pad, divisor_override)
        out = _alloc.output(op, out, geometry.output_shape, xa.dtype, (x,))
        self._run("pool.avg_pool", xa.dtype, geometry.cost(xa.itemsize), xa, out, geometry.for_kernel, *divisor)
        return out


class AvgPoolGradients:
    """Gradients of average pooling; adaptive windows share the hook."""

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

    def _avg_back(self, op, n, x, output_grad, windows, count_include_pad, divisor_override, layout, out):
        xa, g = operands_of(op, x, output_grad)
        geometry = back_geometry(op, n, xa, g, windows, layout)
        divisor = _divisor(op, count_include_pad, divisor_override)
        out = _alloc.output(op, out, xa.shape, xa.dtype, (x, output_grad))
        return self._avg_pool_backward(g, geometry, *divisor, out)

    # ---- the hook: operands in the shapes of `geometry`

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
