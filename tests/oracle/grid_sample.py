"""Sampling at the places of a grid: one place at a time."""

import math

import numpy as np


def reflect(i, size, align_corners):
    """(i mirrored at the ends, sign of the slope): at the outermost centres, or at the outer edges."""
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    if low == high:
        return (0.0 if math.isfinite(i) else math.nan), 0.0
    if not math.isfinite(i):
        return math.nan, 1.0
    away = math.fmod(abs(i - low), 2 * (high - low))
    back = away > high - low
    return low + (2 * (high - low) - away if back else away), -1.0 if back != (i < low) else 1.0


def keys(d, a=-0.75):
    """Keys' kernel and its derivative."""
    s, d = math.copysign(1.0, d), abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1, s * (3 * (a + 2) * d**2 - 2 * (a + 3) * d)
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a, s * (3 * a * d**2 - 10 * a * d + 8 * a)


def taps(g, size, mode, padding_mode, align_corners):
    """[(cell or None, weight, slope of the weight along g)] along an axis of `size` cells; NaN where g is no place."""
    half = (size - 1) / 2 if align_corners else size / 2
    i, slope = (g + 1) * half - (0 if align_corners else 0.5), half
    if mode != "bicubic" and padding_mode == "reflection":
        i, turn = reflect(i, size, align_corners)
        slope *= turn
    if mode != "bicubic" and padding_mode != "zeros" and not math.isnan(i):
        slope = 0.0 if i <= 0 or i >= size - 1 else slope
        i = min(max(i, 0.0), size - 1.0)
    if math.isnan(i) or (math.isinf(i) and mode == "bicubic" and padding_mode == "reflection"):
        return None
    i = min(max(i, -1e15), 1e15) if math.isinf(i) else i
    first = np.floor(i)
    if mode == "nearest":
        found = [(np.rint(i), 1.0, 0.0)]
    elif mode == "bilinear":
        found = [(first, 1 - (i - first), -slope), (first + 1, i - first, slope)]
    else:
        found = [(first + k, *keys(i - first - k)) for k in (-1, 0, 1, 2)]
        found = [(cell, weight, lean * slope) for cell, weight, lean in found]
    result = []
    for cell, weight, lean in found:
        if mode == "bicubic" and padding_mode == "reflection":
            cell, _ = reflect(float(cell), size, align_corners)
        if mode == "bicubic" and padding_mode != "zeros":
            cell = min(max(cell, 0), size - 1)
        result.append((int(cell) if 0 <= cell < size else None, weight, lean))
    return result


def visit(x, grid, options):
    """(image, row, column, taps along y, taps along x) of every place; the taps are None where it is no place."""
    for n, h, w in np.ndindex(grid.shape[:3]):
        along_x, along_y = taps(grid[n, h, w, 0], x.shape[3], *options), taps(grid[n, h, w, 1], x.shape[2], *options)
        yield n, h, w, None if along_x is None else along_y, along_x


def options_of(mode="bilinear", padding_mode="zeros", align_corners=False):
    return mode, padding_mode, align_corners


def grid_sample_2d(x, grid, **options):
    out = np.zeros((*x.shape[:2], *grid.shape[1:3]))
    for n, h, w, along_y, along_x in visit(x, grid, options_of(**options)):
        if along_y is None:
            out[n, :, h, w] = np.nan
            continue
        for j, weight_y, _ in along_y:
            for i, weight_x, _ in along_x:
                if i is not None and j is not None:
                    out[n, :, h, w] += weight_y * weight_x * x[n, :, j, i]
    return out


def grid_sample_2d_backward(x, grid, output_grad, **options):
    x_grad, grid_grad = np.zeros(x.shape), np.zeros(grid.shape)
    for n, h, w, along_y, along_x in visit(x, grid, options_of(**options)):
        g = output_grad[n, :, h, w]
        if along_y is None:
            grid_grad[n, h, w] = np.nan if options.get("mode") != "nearest" else 0
            continue
        for j, weight_y, slope_y in along_y:
            for i, weight_x, slope_x in along_x:
                if i is not None and j is not None:
                    x_grad[n, :, j, i] += weight_y * weight_x * g
                    grid_grad[n, h, w] += np.array([weight_y * slope_x, slope_y * weight_x]) * (g * x[n, :, j, i]).sum()
    return x_grad, grid_grad
