"""Resampling, one output and one cell at a time, from the definition."""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from oracle.conv import per_axis

HALF = Fraction(1, 2)


def place(o, size, output, scale, transform, roi):
    """Where output o's centre lies among the cells: exact, but for a scale or a crop that was given as a float."""
    exact = scale is None
    s = Fraction(output, size) if exact else scale
    if transform == "align_corners":
        return Fraction(o * (size - 1), output - 1) if output > 1 else 0
    if transform == "asymmetric":
        return o / s
    if transform == "pytorch_half_pixel" and output == 1:
        return 0
    if transform == "tf_crop_and_resize":
        start, end = roi
        if output == 1:
            return (start + end) / 2 * (size - 1)
        return start * (size - 1) + o * (end - start) * (size - 1) / (output - 1)
    half = HALF if exact else 0.5
    if transform == "half_pixel_symmetric":
        return (
            Fraction(size, 2) * (1 - output / (s * size)) + (o + half) / s - half
            if exact
            else (size / 2 * (1 - output / (s * size)) + (o + 0.5) / s - 0.5)
        )
    return (o + half) / s - half


def apart(size, output, scale, transform, roi):
    """Cells from one output to the next."""
    if transform == "align_corners":
        return Fraction(size - 1, output - 1) if output > 1 else 0
    if transform == "tf_crop_and_resize":
        return abs(roi[1] - roi[0]) * (size - 1) / max(output - 1, 1)
    return Fraction(size, output) if scale is None else 1 / scale


def nearest(x, rounding):
    down = math.floor(x)
    part = x - down
    if rounding == "floor":
        return down
    if rounding == "ceil":
        return math.ceil(x)
    return down + (part > 0.5 or (rounding == "round_prefer_ceil" and part == 0.5))


def kernel(mode, t, a):
    t = abs(t)
    if mode == "bilinear":
        return max(0.0, 1.0 - float(t)) if t != 1 else 0.0
    if t != 0 and t == round(t):
        return 0.0
    if mode == "bicubic":
        t, a = Fraction(t), Fraction(a)
        if t < 1:
            return float(1 - (a + 3) * t**2 + (a + 2) * t**3)
        return float(a * (t**3 - 5 * t**2 + 8 * t - 4)) if t < 2 else 0.0
    t = float(t)
    if t == 0:
        return 1.0
    return 3 * math.sin(math.pi * t) * math.sin(math.pi * t / 3) / (math.pi * t) ** 2 if t < 3 else 0.0


REACH = {"bilinear": 1, "bicubic": 2, "lanczos3": 3}


@lru_cache(10_000)
def weights_of(o, size, output, scale, mode, transform, rounding, a, exclude, antialias, roi):
    """{cell: weight} of output o; None where it lies outside of a crop."""
    x = place(o, size, output, scale, transform, roi)
    if transform == "tf_crop_and_resize" and not 0 <= x <= size - 1:
        return None
    if mode not in REACH:
        return {min(max(nearest(x, rounding), 0), size - 1): 1.0}
    stretch = max(1, apart(size, output, scale, transform, roi)) if antialias else 1
    drop = exclude or mode == "lanczos3"
    found = []
    for cell in range(math.floor(x - REACH[mode] * stretch), math.ceil(x + REACH[mode] * stretch) + 1):
        if not drop or 0 <= cell < size:
            found.append((cell, kernel(mode, (cell - x) / stretch, a)))
    total = math.fsum(w for _, w in found) if drop or antialias else 1.0
    gathered = {}
    for cell, w in found:
        if w:
            cell = min(max(cell, 0), size - 1)
            gathered[cell] = gathered.get(cell, 0.0) + w / total
    return gathered


def options_of(shape, output_size, scale_factor, mode, coordinate_transform, nearest_rounding, roi):
    n = len(shape)
    if scale_factor is None:
        outputs, scales = per_axis(output_size, n), (None,) * n
    else:
        scales = tuple(scale_factor) if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * n
        outputs = tuple(math.floor(size * s) for size, s in zip(shape, scales, strict=True))
    transform = coordinate_transform or ("asymmetric" if mode == "nearest" else "half_pixel")
    rounding = nearest_rounding or ("round_prefer_ceil" if mode == "nearest_exact" else "floor")
    return outputs, scales, transform, rounding, roi or (None,) * n


def axes_of(
    shape, output_size=None, scale_factor=None, mode="bilinear", coordinate_transform=None, nearest_rounding=None, cubic_a=-0.75,
    exclude_outside=False, antialias=False, roi=None, extrapolation_value=0.0,
):  # fmt: skip
    """For each axis the {cell: weight} of every output."""
    outputs, scales, transform, rounding, rois = options_of(shape, output_size, scale_factor, mode, coordinate_transform, nearest_rounding, roi)
    return [
        [weights_of(o, size, out, s, mode, transform, rounding, cubic_a, exclude_outside, antialias, r) for o in range(out)]
        for size, out, s, r in zip(shape, outputs, scales, rois, strict=True)
    ]


def resampled(x, axes, outside=0.0, weight=lambda w: w):
    """Each axis in turn; cells outside of a crop are `outside`."""
    y = x
    for axis, outputs in enumerate(axes, 2):
        columns = np.moveaxis(y, axis, 0)
        made = np.zeros((len(outputs), *columns.shape[1:]))
        for o, cells in enumerate(outputs):
            for cell, w in (cells or {}).items():
                made[o] += weight(w) * columns[cell]
        y = np.moveaxis(made, 0, axis)
    for axis, outputs in enumerate(axes, 2):
        for o, cells in enumerate(outputs):
            if cells is None:
                y[(slice(None),) * axis + (o,)] = outside
    return y


def interpolate(x, output_size=None, **options):
    return resampled(x, axes_of(x.shape[2:], output_size, **options), options.get("extrapolation_value", 0.0))


def interpolate_backward(x, output_grad, output_size=None, **options):
    return transposed(x, output_grad, axes_of(x.shape[2:], output_size, **options))


def transposed(x, output_grad, axes, weight=lambda w: w):
    y = output_grad
    for axis, outputs in enumerate(axes, 2):
        columns = np.moveaxis(y, axis, 0)
        made = np.zeros((x.shape[axis], *columns.shape[1:]))
        for o, cells in enumerate(outputs):
            for cell, w in (cells or {}).items():
                made[cell] += weight(w) * columns[o]
        y = np.moveaxis(made, 0, axis)
    return y
