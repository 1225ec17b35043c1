"""Adaptive pooling: a number of windows instead of their size. The work is that of max_pool and avg_pool."""

import numpy as np

from .. import results
from .pool_windows import Adaptive

__all__ = ["AdaptivePool", "AdaptivePoolGradients"]


class AdaptivePool:
    """Forward adaptive pooling."""

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


class AdaptivePoolGradients:
    """Gradients of adaptive pooling."""

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
