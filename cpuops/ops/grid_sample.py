"""Sampling images at the places of a grid, and its gradients.

N images of C channels, H by W cells; OH by OW places.
"""

import numpy as np

from .. import _alloc, _check, _threads
from ..errors import ShapeError, message
from ..results import GridSampleGrads

__all__ = ["TAPS", "GridSample", "GridSampleGradients", "cost", "for_kernel"]

TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4}  # along each axis
PADDING = ("zeros", "border", "reflection")  # as grid_sample.h numbers them
CUBIC_A = -0.75


class GridSample:
    """Forward operations of the family."""

    def grid_sample_2d(self, x, grid, *, mode="bilinear", padding_mode="zeros", align_corners=False, out=None):
        """Sample images at places: output[n,c,p] = Σ over taps (j, i) of weight_y[j] · weight_x[i] · x[n,c,j,i].

        Parameters
        ----------
        x : ndarray, float32 or float64, [N, C, H, W]
        grid : ndarray of x's dtype, [N, OH, OW, 2]
            Places as (x, y): -1 is the left or upper end of the image, 1 the right or lower one; any other number is legal.
        mode : {"bilinear", "nearest", "bicubic"}
            Two, one (half to even) or four taps along each axis; bicubic is Keys' kernel with a = -0.75.
        padding_mode : {"zeros", "border", "reflection"}
            Outside of x: taps are left out; the nearest cell; x mirrored at its ends (at the centres of its outermost cells with
            align_corners, at their outer edges without).
        align_corners : bool
            Whether the ends are the centres of the outermost cells: (g + 1) / 2 · (L − 1), or their outer edges:
            ((g + 1) · L − 1) / 2.
        out : ndarray, optional
            Where to write the result; it may not overlap an operand.

        Returns
        -------
        ndarray
            [N, C, OH, OW]

        Raises
        ------
        ShapeError
            An operand has not four axes, x has no cells, or grid is not [N, OH, OW, 2] for x's N.
        ArgumentError
            mode, padding_mode or align_corners is none of those above.
        DTypeError
            An operand is no floating array, or their dtypes differ.

        Notes
        -----
        Gradients: `grid_sample_2d_backward`. Places and weights are worked out in double precision, once for all channels. A place
        that is NaN gives NaN, as an infinite one does with "reflection", which has no limit there (PyTorch takes NaN for -1). A
        tap outside is skipped, not multiplied. 2·taps²·N·C·OH·OW operations.
        """
        op = "grid_sample_2d"
        xa, ga = _check.required(op, ("x", "grid"), (x, grid))
        options = _options(op, mode, padding_mode, align_corners)
        shape = _output_shape(op, xa, ga)
        out = _alloc.output(op, out, shape, xa.dtype, (x, grid))
        if out.size:
            self._run("grid_sample.grid_sample", xa.dtype, cost(xa, ga, mode), xa, ga, out, xa.shape, for_kernel(*options))
        return out


class GridSampleGradients:
    """Gradients of the family."""

    def grid_sample_2d_backward(self, x, grid, output_grad, *, mode="bilinear", padding_mode="zeros", align_corners=False):
        """Differentiate :meth:`grid_sample_2d` by both operands.

        x_grad[n,c,j,i] = Σ output_grad[n,c,p] · weight_y · weight_x over the samples p that have the tap (j, i), and
        grid_grad[n,p] = Σ over c of output_grad[n,c,p] · (Σ taps weight_y · weight_x' · x, Σ taps weight_y' · weight_x · x).

        Parameters
        ----------
        x : ndarray, float32 or float64, [N, C, H, W]
        grid : ndarray of x's dtype, [N, OH, OW, 2]
        output_grad : ndarray of x's dtype, [N, C, OH, OW]
        mode, padding_mode, align_corners
            As given to the forward.

        Returns
        -------
        GridSampleGrads
            (x_grad, grid_grad), each of its operand's shape.

        Raises
        ------
        ShapeError, ArgumentError, DTypeError
            As the forward; ShapeError also when output_grad has not the output's shape.

        Notes
        -----
        Samples are added in their order, each channel by one thread. The grid's gradient is 0 with "nearest", and where the border
        holds a place; across a mirror it changes its sign. Places that are no numbers give nothing to x.
        """
        op = "grid_sample_2d_backward"
        xa, ga, g = _check.required(op, ("x", "grid", "output_grad"), (x, grid, output_grad))
        options = _options(op, mode, padding_mode, align_corners)
        _check.shape(op, "output_grad", g, _output_shape(op, xa, ga), "the output's shape")
        x_grad, grid_grad = _alloc.empty(xa.shape, xa.dtype), _alloc.empty(ga.shape, ga.dtype)
        if not g.size:
            x_grad[...] = 0
            grid_grad[...] = 0
        else:
            self._grid_sample_2d_backward(xa, ga, g, options, x_grad, grid_grad)
        return GridSampleGrads(x_grad, grid_grad)

    def _grid_sample_2d_backward(self, x, grid, g, options, x_grad, grid_grad):
        height, width = x.shape[2:]
        with np.errstate(all="ignore"):
            rows = _axis(grid[..., 1].astype(np.float64), height, *options)
            columns = _axis(grid[..., 0].astype(np.float64), width, *options)
            by_place, g_by_place = np.moveaxis(x, 1, -1).astype(np.float64), np.moveaxis(g, 1, -1).astype(np.float64)
            spread, lean = np.zeros(by_place.shape), np.zeros(grid.shape)
            image = np.arange(len(x))[:, None, None]
            for row, row_weight, row_slope in rows:
                for column, column_weight, column_slope in columns:
                    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
                    at = image, np.where(inside, row, 0), np.where(inside, column, 0)
                    given = (row_weight * column_weight)[..., None] * g_by_place
                    np.add.at(spread, at, np.where(inside[..., None], given, 0))
                    shown = np.where(inside, (g_by_place * by_place[at]).sum(-1), 0)
                    lean[..., 0] += row_weight * column_slope * shown
                    lean[..., 1] += row_slope * column_weight * shown
        x_grad[...] = np.moveaxis(spread, -1, 1)
        grid_grad[...] = 0 if options[0] == "nearest" else lean


def _options(op, mode, padding_mode, align_corners):
    return (
        _check.choice(op, "mode", mode, tuple(TAPS)),
        _check.choice(op, "padding_mode", padding_mode, PADDING),
        _check.flag(op, "align_corners", align_corners),
    )


def _output_shape(op, x, grid):
    _check.rank(op, "x", x, 4)
    _check.rank(op, "grid", grid, 4)
    if min(x.shape[2:]) < 1:
        raise ShapeError(message(op, "x", f"of shape {x.shape}", "spatial axes of at least one cell"))
    _check.shape(op, "grid", grid, (x.shape[0], *grid.shape[1:3], 2), "x's batch, and (x, y)")
    return (*x.shape[:2], *grid.shape[1:3])


def for_kernel(mode, padding_mode, align_corners):
    """The options as kernels take them."""
    return TAPS[mode], PADDING.index(padding_mode), align_corners


def cost(x, grid, mode):
    """Nanoseconds on one thread: a tap of a sample takes as long as ten operations of a product, a place thirty taps."""
    places = grid.size // 2
    return _threads.work(bytes_=x.nbytes + grid.nbytes, flops=10 * (x.shape[1] + 30) * places * TAPS[mode] ** 2)


# ---- places along one axis, for the default gradient


def _mirrored(at, size, align_corners):
    """`at` brought into 0..size-1, and the sign of the slope there."""
    low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
    if not span:
        return at - at, np.zeros(at.shape)
    rest = np.fmod(np.abs(at - low), 2 * span)
    odd = rest >= span
    return np.where(odd, 2 * span - rest, rest) + low, np.where(odd != (at < low), -1.0, 1.0)


def _axis(places, size, mode, padding_mode, align_corners):
    """The taps of places along an axis: (cell, weight, slope of the weight), cells outside being no cells of the axis."""
    half = (size - 1 if align_corners else size) / 2
    at, slope = (places + 1) * half - (0 if align_corners else 0.5), np.full(places.shape, half)
    if mode != "bicubic" and padding_mode != "zeros":
        if padding_mode == "reflection":
            at, turned = _mirrored(at, size, align_corners)
            slope = slope * turned
        slope = np.where((at <= 0) | (at >= size - 1), 0, slope)
        at = np.clip(at, 0, size - 1)
    if mode != "bicubic" or padding_mode != "reflection":
        at = np.clip(at, -4, size + 4)
    nothing = at - at  # NaN where there is no place
    known = nothing == 0
    at = np.where(known, at, 0)
    first = np.rint(at) if mode == "nearest" else np.floor(at)
    t = at - first + nothing
    if mode == "nearest":
        taps = [(0, 1 + nothing, 0 * slope)]
    elif mode == "bilinear":
        taps = [(0, 1 - t, nothing - slope), (1, t, nothing + slope)]
    else:
        taps = [(k, *_cubic(t - k, slope)) for k in (-1, 0, 1, 2)]
    return [(_cell(first + k, known, size, mode, padding_mode, align_corners), weight, lean) for k, weight, lean in taps]


def _cell(cell, known, size, mode, padding_mode, align_corners):
    if mode == "bicubic" and padding_mode == "reflection":
        cell, _ = _mirrored(cell, size, align_corners)
    if mode == "bicubic" and padding_mode != "zeros":
        cell = np.clip(cell, 0, size - 1)
    return np.where(known, cell, -1).astype(np.int64)


def _cubic(distance, slope):
    """Keys' kernel and its derivative."""
    a, d = CUBIC_A, np.abs(distance)
    weight = np.where(d <= 1, ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a)
    lean = np.where(d <= 1, (3 * (a + 2) * d - 2 * (a + 3)) * d, (3 * a * d - 10 * a) * d + 8 * a)
    return weight, np.sign(distance) * lean * slope
