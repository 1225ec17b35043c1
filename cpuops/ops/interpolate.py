"""Resampling over one to three spatial axes, and its gradient.

Every mode, transform and option is a table an axis (`interpolate_tables`); the forward applies the tables, the gradient
their transposes, by one kernel.
"""

import math
from typing import NamedTuple

import numpy as np

from .. import _alloc, _check, _threads
from .._remembered import remembered
from ..errors import ArgumentError, DTypeError, ShapeError, message, shown
from .interpolate_tables import MODES, ROUNDINGS, TRANSFORMS, Rule, table_of

__all__ = ["Interpolate", "InterpolateGradients", "resample"]

OCTETS = np.dtype(np.uint8)
F32 = np.dtype(np.float32)
MOST_SIZE = _check.BOUND // 8
# an image with the channels last is read as it lies where its channels are few and an output reads not too many columns
MOST_INTERLEAVED, MOST_INTERLEAVED_REACH = 4, 1024

# what the two nearest modes mean without further options; every other mode is half_pixel and rounds nothing
NEAREST = {"nearest": ("asymmetric", "floor"), "nearest_exact": ("half_pixel", "round_prefer_ceil")}


class Options(NamedTuple):
    """The options as given."""

    output_size: object
    scale_factor: object
    mode: object
    coordinate_transform: object
    nearest_rounding: object
    cubic_a: object
    exclude_outside: object
    antialias: object
    roi: object
    extrapolation_value: object

    def checked(self, op, sizes):
        """(a rule an axis, the value of cells outside of a crop)."""
        n = len(sizes)
        outputs, scales = self._lengths(op, sizes)
        mode = _check.choice(op, "mode", self.mode, MODES)
        transform, rounding = NEAREST.get(mode, ("half_pixel", "floor"))
        if self.coordinate_transform is not None:
            transform = _check.choice(op, "coordinate_transform", self.coordinate_transform, TRANSFORMS)
        if self.nearest_rounding is not None:
            rounding = _check.choice(op, "nearest_rounding", self.nearest_rounding, ROUNDINGS)
        a = _check.number(op, "cubic_a", self.cubic_a)
        exclude = _check.flag(op, "exclude_outside", self.exclude_outside)
        antialias = _check.flag(op, "antialias", self.antialias)
        value = _check.number(op, "extrapolation_value", self.extrapolation_value, finite=False)
        rois = (None,) * n
        if self.roi is not None:
            rois = _roi(op, self.roi, n)
        elif transform == "tf_crop_and_resize":
            raise ArgumentError(message(op, "roi", "None", "a (start, end) pair an axis with tf_crop_and_resize"))
        if transform != "tf_crop_and_resize":
            rois = (None,) * n
        each = zip(sizes, outputs, scales, rois, strict=True)
        rules = [Rule(s, o, f, mode, transform, rounding, a, exclude, antialias, r) for s, o, f, r in each]
        return tuple(rules), value

    def _lengths(self, op, sizes):
        n = len(sizes)
        if (self.output_size is None) == (self.scale_factor is None):
            both = "both given" if self.scale_factor is not None else "both None"
            raise ArgumentError(message(op, "output_size and scale_factor", both, "exactly one of them"))
        if self.scale_factor is None:
            return _check.per_axis(op, "output_size", self.output_size, n, 1), (None,) * n
        scales = _numbers(op, "scale_factor", self.scale_factor, n)
        outputs = []
        for size, scale in zip(sizes, scales, strict=True):
            output = math.floor(size * scale) if size * scale < MOST_SIZE else MOST_SIZE
            if not 1 <= output < MOST_SIZE:
                given = f"{scale}, which makes {size} cells {output if output < MOST_SIZE else 'more than fit memory'}"
                raise ArgumentError(message(op, "scale_factor", given, "a factor that leaves at least one cell, and fits"))
            outputs.append(output)
        return tuple(outputs), scales


def _numbers(op, name, value, n):
    """A number > 0 for all axes, or a sequence of one an axis."""
    if not isinstance(value, list | tuple | np.ndarray):
        return (_check.number(op, name, value, 0, strict=True),) * n
    if np.ndim(value) != 1 or len(value) != n:
        raise ArgumentError(message(op, name, shown(value), f"a number > 0, or {n} of them"))
    return tuple(_check.number(op, name, v, 0, strict=True) for v in value)


def _roi(op, value, n):
    wanted = f"{n} (start, end) pair{'s' if n > 1 else ''}"
    if not isinstance(value, list | tuple | np.ndarray) or len(value) != n:
        raise ArgumentError(message(op, "roi", shown(value), wanted))
    pairs = []
    for pair in value:
        if not isinstance(pair, list | tuple | np.ndarray) or len(pair) != 2:
            raise ArgumentError(message(op, "roi", shown(value), wanted))
        pairs.append(tuple(_check.number(op, "roi", v) for v in pair))
    return tuple(pairs)


def _geometry(op, x, options):
    """(rules, the output's shape, the value outside)."""
    _check.rank(op, "x", x, 3, 5)
    return _resized(options, op, x.shape)


@remembered
def _resized(options, op, x_shape):
    sizes = x_shape[2:]
    if min(sizes) < 1:
        raise ShapeError(message(op, "x", f"of shape {x_shape}", "spatial axes of at least one cell"))
    rules, value = options.checked(op, sizes)
    shape = x_shape[:2] + tuple(r.output for r in rules)
    if math.prod(max(n, 1) for n in shape) >= MOST_SIZE:
        name = "scale_factor" if options.output_size is None else "output_size"
        raise ShapeError(message(op, name, f"such that the output is {shape}", "one that fits memory"))
    return rules, shape, value


def _image(op, x):
    """x as it lies where it is uint8, else as every floating operand."""
    a = x if isinstance(x, np.ndarray) else _check.array(op, "x", x)
    if a.dtype == OCTETS:
        return a
    if a.dtype.kind != "f" or a.dtype.itemsize not in (4, 8):
        raise DTypeError(message(op, "x", f"of dtype {shown(a.dtype)}", "float32, float64 or uint8"))
    return _check.floating(op, "x", x)


# ---------------------------------------------------------------- the kernel's form


def _folded(shape, tables):
    """(planes, axes) of fewest axes: neighbours that stay as they are are one, and those in front are planes."""
    planes, axes = shape[0] * shape[1], []
    for size, table in zip(shape[2:], tables, strict=True):
        if table is not None:
            axes.append(table[1])
        elif not axes:
            planes *= size
        elif len(axes[-1]) == 1:
            axes[-1] = (axes[-1][0] * size,)
        else:
            axes.append((size,))
    if len(axes) == 1:
        return 1, [(1,), (planes,), *axes]
    return planes, [(1,)] * (3 - len(axes)) + axes


def _cost(x, out, axes):
    """Nanoseconds on one thread: a multiply-add an output and term of every axis, at half the rate of a product."""
    terms = sum(len(a[3]) / a[1] for a in axes if len(a) > 1)
    return _threads.work(bytes_=x.nbytes + out.nbytes, flops=4 * max(x.size, out.size) * terms)


def _interleaved(x, tables):
    """Whether x is [B, H, W, C] in memory, and worth reading as it lies."""
    return (
        x.ndim == 4
        and 2 <= x.shape[1] <= MOST_INTERLEAVED
        and x.transpose(0, 2, 3, 1).flags.c_contiguous
        and (tables[1] is None or tables[1][1][6] <= MOST_INTERLEAVED_REACH)
    )


def resample(backend, x, tables, out):
    """Write into `out` what `tables`, one a spatial axis (None: leave it), make of x; both floating or both uint8."""
    if all(t is None for t in tables):
        np.copyto(out, x)
        return
    dtype = F32 if x.dtype == OCTETS else x.dtype
    if not x.flags.c_contiguous and _interleaved(x, tables):
        h, w = ((size,) if t is None else t[1] for size, t in zip(x.shape[2:], tables, strict=True))
        backend._run("interpolate.interpolate", dtype, _cost(x, out, (h, w)), x, out, x.shape[0], x.shape[1], (1,), h, w)
        return
    x = _check.contiguous(x)
    planes, axes = _folded(x.shape, tables)
    backend._run("interpolate.interpolate", dtype, _cost(x, out, axes), x, out, planes, 1, *axes)


class Interpolate:
    """Forward resampling."""

    def interpolate(
        self, x, output_size=None, *, scale_factor=None, mode="bilinear", coordinate_transform=None, nearest_rounding=None,
        cubic_a=-0.75, exclude_outside=False, antialias=False, roi=None, extrapolation_value=0.0, out=None,
    ):  # fmt: skip
        """Resample every plane: output[b,c,o] = Σ_i k((i − s(o)) / r) x[b,c,i] along each spatial axis in turn.

        Parameters
        ----------
        x : ndarray [B, C, L], [B, C, H, W] or [B, C, D, H, W]
            float32, float64, or uint8 for images.
        output_size : int, or sequence of one an axis, optional
            Lengths of the output; exactly one of output_size and scale_factor is given.
        scale_factor : float, or sequence of one an axis, optional
            The length is ⌊L·scale_factor⌋, and coordinates use the factor as it was given.
        mode : {"nearest", "nearest_exact", "bilinear", "bicubic", "lanczos3"}
            The kernel k. "bilinear" is linear along every axis; the nearest modes take one cell.
        coordinate_transform : str, optional
            How output o lies among the cells, s(o): "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel",
            "half_pixel_symmetric" or "tf_crop_and_resize". None is "half_pixel", and "asymmetric" for mode "nearest".
        nearest_rounding : {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}, optional
            Which cell the nearest modes take. None is "floor" for "nearest", "round_prefer_ceil" for "nearest_exact".
        cubic_a : float
            The coefficient of the cubic kernel.
        exclude_outside : bool
            Drop cells outside of x and divide by the sum of the other weights, instead of repeating the edge. With cubic_a
            −0.5 this is what Pillow does, and PyTorch when antialiasing. "lanczos3" always does.
        antialias : bool
            Where an axis shrinks, widen the kernel by r, the cells from one output to the next.
        roi : sequence of one (start, end) pair an axis, optional
            What "tf_crop_and_resize" resamples, 0 to 1 from the first to the last cell. Other transforms ignore it.
        extrapolation_value : float
            What it writes where the crop lies outside of x.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray [B, C, OL], [B, C, OH, OW] or [B, C, OD, OH, OW]
            Of x's dtype; uint8 is the float32 result rounded (half to even) and saturated.

        Raises
        ------
        ShapeError
            When x has another rank or an empty spatial axis, or the output would not fit memory.
        ArgumentError
            When both or neither of output_size and scale_factor are given, or an option is out of range.
        DTypeError
            When x is neither floating nor uint8.

        Notes
        -----
        The gradient is the transpose (`interpolate_backward`). Coordinates that are ratios of lengths are exact, and with
        them every choice of a nearest cell; weights are in double precision, rounded once to x's dtype. A cell whose
        weight is 0 contributes nothing, whatever it holds. "align_corners" with one output reads cell 0. Transforms and
        roundings are those of ONNX's Resize; cubic: Keys 1981. An image in memory as [H, W, C] is taken as it lies:
        ``image.transpose(2, 0, 1)[None]``.
        """
        options = Options(
            output_size, scale_factor, mode, coordinate_transform, nearest_rounding, cubic_a, exclude_outside, antialias, roi,
            extrapolation_value,
        )  # fmt: skip
        xa = _image("interpolate", x)
        rules, shape, value = _geometry("interpolate", xa, options)
        if xa.dtype == OCTETS:
            value = min(max(0, round(value)), 255) if math.isfinite(value) else 255 * (value > 0)
        out = _alloc.output("interpolate", out, shape, xa.dtype, (x,))
        if not out.size:
            return out
        dtype = F32 if xa.dtype == OCTETS else xa.dtype
        tables = [table_of(r, dtype) for r in rules]
        resample(self, xa, tables, out)
        for axis, table in enumerate(tables, 2):
            if table is not None and table[0].outside.size:
                out[(slice(None),) * axis + (table[0].outside,)] = value
        return out


class InterpolateGradients:
    """Default gradient of resampling."""

    def interpolate_backward(
        self, x, output_grad, output_size=None, *, scale_factor=None, mode="bilinear", coordinate_transform=None,
        nearest_rounding=None, cubic_a=-0.75, exclude_outside=False, antialias=False, roi=None, extrapolation_value=0.0,
        out=None,
    ):  # fmt: skip
        """Gradient of `interpolate`: the exact transpose, x_grad[b,c,i] = Σ_o k((i − s(o)) / r) g[b,c,o] along each axis.

        Parameters
        ----------
        x : ndarray [B, C, L], [B, C, H, W] or [B, C, D, H, W]
            The forward's operand; only its shape counts. Floating.
        output_grad : ndarray [B, C, OL], [B, C, OH, OW] or [B, C, OD, OH, OW]
            Gradient of the output.
        output_size : int, or sequence of one an axis, optional
        scale_factor : float, or sequence of one an axis, optional
        mode, coordinate_transform, nearest_rounding, cubic_a, exclude_outside, antialias, roi, extrapolation_value : optional
            As in `interpolate`.
        out : ndarray, optional
            Where the result is written.

        Returns
        -------
        ndarray
            Of x's shape.

        Raises
        ------
        ShapeError
            When output_grad has not the output's shape, or the forward would refuse x.
        ArgumentError
            As the forward.

        Notes
        -----
        A gather by the transposed table: no cell is written twice, and terms are added in the order of the outputs. Cells
        outside of a crop pass nothing on.
        """
        op = "interpolate_backward"
        options = Options(
            output_size, scale_factor, mode, coordinate_transform, nearest_rounding, cubic_a, exclude_outside, antialias, roi,
            extrapolation_value,
        )  # fmt: skip
        xa, g = _check.required(op, ("x", "output_grad"), (x, output_grad))
        rules, shape, _ = _geometry(op, xa, options)
        _check.shape(op, "output_grad", g, shape, "the output's shape")
        out = _alloc.output(op, out, xa.shape, xa.dtype, (x, output_grad))
        if not out.size:
            return out
        return self._interpolate_backward(g, [table_of(r, xa.dtype, backward=True) for r in rules], out)

    def _interpolate_backward(self, g, tables, out):
        grad = g.astype(np.float64)
        for axis, table in enumerate(tables, 2):
            if table is not None:
                grad = np.moveaxis(_applied(table[0], np.moveaxis(grad, axis, 0)), 0, axis)
        np.copyto(out, grad)
        return out


def _applied(table, x):
    """The definition of a table, along the first axis."""
    out = np.zeros((table.output, *x.shape[1:]))
    with np.errstate(all="ignore"):
        for o in range(table.output):
            for k in range(table.start[o], table.start[o + 1]):
                out[o] += float(table.weight[k]) * x[table.cell[k]]
    return out
