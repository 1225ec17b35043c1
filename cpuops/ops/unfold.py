"""Windows of images as columns, and back: each of the two is the other's gradient.

Letters: B batch, C channels, H W image, KH KW kernel, OH OW windows along each axis.
"""

import math

from .. import _alloc, _check, _threads
from .._remembered import remembered
from ..errors import ShapeError, message

__all__ = ["Unfold", "UnfoldGradients"]


@remembered
def _windows(op, size_name, size, kernel_size, stride, padding, dilation):
    """Checked options: (the kernel, the number of windows along each axis, the kernels' geometry, the options as pairs)."""
    kernel = _check.per_axis(op, "kernel_size", kernel_size, 2, 1)
    stride = _check.per_axis(op, "stride", stride, 2, 1)
    dilation = _check.per_axis(op, "dilation", dilation, 2, 1)
    pads = _check.padding(op, padding, 2)
    output = []
    for length, k, s, d, (before, after) in zip(size, kernel, stride, dilation, pads, strict=True):
        reach, padded = d * (k - 1) + 1, length + before + after
        if reach > padded:
            given = f"{k} with dilation {d} (it reaches over {reach} cells)"
            raise ShapeError(message(op, "kernel_size", given, f"at most the {length} cells of {size_name} with padding ({before}, {after})"))
        if padded >= _check.BOUND:
            raise ShapeError(message(op, "padding", f"({before}, {after})", "one that fits an array"))
        output.append((padded - reach) // s + 1)
    apart = [d if k > 1 else 1 for d, k in zip(dilation, kernel, strict=True)]
    geometry = (*size, *kernel, *output, *stride, *apart, *[before for before, _ in pads])
    return kernel, tuple(output), geometry, {"stride": stride, "padding": pads, "dilation": dilation}


def _columns_shape(op, shape, kernel, output):
    """[B, C·KH·KW, OH·OW], which must fit an array."""
    shape = (shape[0], shape[1] * math.prod(kernel), math.prod(output))
    if math.prod(shape) >= _check.BOUND // 8:
        raise ShapeError(message(op, "kernel_size", f"{kernel}, with {output} windows", "one whose columns fit an array"))
    return shape


def _columns_planes(op, name, a, size_name, size, kernel, output):
    """The planes that columns `a` are of."""
    channels, left = divmod(a.shape[1], math.prod(kernel))
    if left:
        given = f"of {a.shape[1]} channels (shape {a.shape})"
        raise ShapeError(message(op, name, given, f"a multiple of kernel_size's {math.prod(kernel)} cells"))
    if a.shape[2] != math.prod(output):
        given = f"of {a.shape[2]} columns (shape {a.shape})"
        raise ShapeError(message(op, name, given, f"{output[0]}·{output[1]} = {math.prod(output)}, the windows of {size_name} {size}"))
    return channels


class Unfold:
    """Windows as columns, and the sum of columns."""

    def unfold4d(self, x, kernel_size, *, stride=1, padding=0, dilation=1, out=None):
        """Lay every window of an image out as a column: out[b, (c·KH + i)·KW + j, p·OW + q] = x[b, c, p·sh + i·dh − top, q·sw + j·dw − left].

        Parameters
        ----------
        x : ndarray [B, C, H, W]
        kernel_size : int or sequence of two, >= 1
        stride, dilation : int or sequence of two, >= 1
        padding : int, sequence of two ints or of two (before, after) pairs
            Cells of 0 around x.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C·KH·KW, OH·OW]
            OH = ⌊(H + top + bottom − dh·(KH−1) − 1)/sh⌋ + 1, OW likewise.

        Raises
        ------
        ShapeError
            x has not four axes, or a kernel that is larger than the padded x.
        ArgumentError
            Options out of range.
        DTypeError
            x is not float32 or float64.

        Notes
        -----
        A copy, whatever the values. The gradient is :meth:`fold4d` of the gradient.
        """
        op = "unfold4d"
        xa = _check.floating(op, "x", x)
        _check.rank(op, "x", xa, 4)
        kernel, output, geometry, _ = _windows(op, "x", xa.shape[2:], kernel_size, stride, padding, dilation)
        out = _alloc.output(op, out, _columns_shape(op, xa.shape, kernel, output), xa.dtype, (x,))
        self._run("unfold.unfold", xa.dtype, _threads.work(bytes_=xa.nbytes + out.nbytes), xa, out, xa.shape[0] * xa.shape[1], geometry)
        return out

    def fold4d(self, x, output_size, kernel_size, *, stride=1, padding=0, dilation=1, out=None):
        """Add columns up into the image that they are windows of: the transpose of :meth:`unfold4d`.

        Parameters
        ----------
        x : ndarray [B, C·KH·KW, OH·OW]
        output_size : int or sequence of two, >= 1
            (H, W).
        kernel_size : int or sequence of two, >= 1
        stride, dilation : int or sequence of two, >= 1
        padding : int, sequence of two ints or of two (before, after) pairs
            Cells around the image, what falls on which is dropped.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C, H, W]
            Cells that no window covers are 0.

        Raises
        ------
        ShapeError
            x has not three axes, or channels or columns that are not those of the windows of output_size.
        ArgumentError
            Options out of range.
        DTypeError
            x is not float32 or float64.

        Notes
        -----
        Each cell is a sum in double precision over the taps of the kernel, in their order: the same bits whatever the
        number of threads. The gradient is :meth:`unfold4d` of the gradient.
        """
        op = "fold4d"
        xa = _check.floating(op, "x", x)
        _check.rank(op, "x", xa, 3)
        size = _check.per_axis(op, "output_size", output_size, 2, 1)
        kernel, output, geometry, _ = _windows(op, "output_size", size, kernel_size, stride, padding, dilation)
        channels = _columns_planes(op, "x", xa, "output_size", size, kernel, output)
        if xa.shape[0] * channels * math.prod(size) >= _check.BOUND // 8:
            raise ShapeError(message(op, "output_size", str(size), "one that fits an array"))
        out = _alloc.output(op, out, (xa.shape[0], channels, *size), xa.dtype, (x,))
        self._run("unfold.fold", xa.dtype, _threads.work(bytes_=xa.nbytes + out.nbytes), xa, out, xa.shape[0] * channels, geometry)
        return out


class UnfoldGradients:
    """Gradients of unfold4d and fold4d: each is the other."""

    def unfold4d_backward(self, output_grad, input_size, kernel_size, *, stride=1, padding=0, dilation=1, out=None):
        """Differentiate :meth:`unfold4d`: :meth:`fold4d` of output_grad.

        Parameters
        ----------
        output_grad : ndarray [B, C·KH·KW, OH·OW]
        input_size : int or sequence of two, >= 1
            x's (H, W).
        kernel_size, stride, padding, dilation
            As given to :meth:`unfold4d`.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C, H, W]

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward pass; ShapeError also when output_grad has not the output's shape.
        """
        op = "unfold4d_backward"
        g = _check.floating(op, "output_grad", output_grad)
        _check.rank(op, "output_grad", g, 3)
        size = _check.per_axis(op, "input_size", input_size, 2, 1)
        kernel, output, geometry, options = _windows(op, "input_size", size, kernel_size, stride, padding, dilation)
        channels = _columns_planes(op, "output_grad", g, "input_size", size, kernel, output)
        out = _alloc.output(op, out, (g.shape[0], channels, *size), g.dtype, (output_grad,))
        return self._unfold4d_backward(g, size, kernel, options, geometry, out)

    def fold4d_backward(self, output_grad, kernel_size, *, stride=1, padding=0, dilation=1, out=None):
        """Differentiate :meth:`fold4d`: :meth:`unfold4d` of output_grad.

        Parameters
        ----------
        output_grad : ndarray [B, C, H, W]
        kernel_size, stride, padding, dilation
            As given to :meth:`fold4d`.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C·KH·KW, OH·OW]

        Raises
        ------
        ShapeError, DTypeError, ArgumentError
            As the forward pass.
        """
        op = "fold4d_backward"
        g = _check.floating(op, "output_grad", output_grad)
        _check.rank(op, "output_grad", g, 4)
        kernel, output, geometry, options = _windows(op, "output_grad", g.shape[2:], kernel_size, stride, padding, dilation)
        out = _alloc.output(op, out, _columns_shape(op, g.shape, kernel, output), g.dtype, (output_grad,))
        return self._fold4d_backward(g, kernel, options, geometry, out)

    # ---------------------------------------------------------------- the defaults

    def _unfold4d_backward(self, g, size, kernel, options, geometry, out):
        return self.fold4d(g, size, kernel, **options, out=out)

    def _fold4d_backward(self, g, kernel, options, geometry, out):
        return self.unfold4d(g, kernel, **options, out=out)
