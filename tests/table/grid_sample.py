"""Sampling at the places of a grid."""

import itertools

import numpy as np

from table.base import CHANNELS, TAILS, Bad, Call, Gradient, Row, normal

MODES = ("bilinear", "nearest", "bicubic")
PADDING = ("zeros", "border", "reflection")
# (H, W, OH, OW)
SIZES = [(5, 7, 4, 3), (1, 6, 2, 5), (6, 1, 3, 2), (1, 1, 2, 2), (2, 3, 1, 1), (9, 4, 5, 6)]


def places(rng, n, oh, ow, h, w, align_corners, reach=1.6):
    """Places in and around the image, away from the centres and edges of cells: no kink within a finite difference."""
    size = np.array([w, h], float)
    cells = np.floor((rng.uniform(-reach, reach, (n, oh, ow, 2)) + 1) * size / 2)
    at = cells + rng.choice([0.0, 0.5], cells.shape) + rng.uniform(0.05, 0.45, cells.shape)
    return at * 2 / np.maximum(size - 1, 1) - 1 if align_corners else (at + 0.5) * 2 / size - 1


def call(rng, n, c, size, mode, padding_mode, align_corners, smooth=True, **more):
    h, w, oh, ow = size
    args = {"x": normal(rng, n, c, h, w), "grid": places(rng, n, oh, ow, h, w, align_corners, **more)}
    options = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    defaults = {"mode": "bilinear", "padding_mode": "zeros", "align_corners": False}
    return Call(args, {k: v for k, v in options.items() if v != defaults[k]}, smooth)


def exact_places(rng, size):
    """Centres, edges, the ends, and what is no number."""
    h, w, oh, ow = size
    grid = rng.choice([-1.0, 1.0, 0.0, 0.5, -3.0, 1e9, -1e30, np.inf, -np.inf, np.nan, 1 - 1 / w, 1 / h - 1], (2, oh, ow, 2))
    return grid


def calls(rng):
    every = list(itertools.product(MODES, PADDING, (False, True)))
    for mode, padding_mode, align_corners in every:
        for c, size in zip((3, 4, 1, 2, 17, 9), SIZES, strict=True):
            yield call(rng, 2, c, size, mode, padding_mode, align_corners)
        for c, size in ((2, SIZES[0]), (6, SIZES[5])):
            bad = call(rng, 2, c, size, mode, padding_mode, align_corners, False)
            bad.args["grid"] = exact_places(rng, size)
            yield bad
    for i, c in enumerate(CHANNELS):
        yield call(rng, 1, c, (4, 5, 3, 4), *every[i % len(every)])
        yield call(rng, 1, c, (4, 19, 3, 4), *every[(7 * i + 3) % len(every)])
    for n in TAILS:
        yield call(rng, 1, 3 if n % 2 else 5, (3, 4, 1, n), *every[n % len(every)])
    yield call(rng, 2, 5, (9, 8, 11, 13), "bilinear", "reflection", False, reach=9.0)
    yield call(rng, 2, 2, (9, 8, 11, 13), "bicubic", "reflection", True, reach=9.0)
    for c in (2, 5):
        for shape in ((0, c, 4, 5), (2, 0, 4, 5)):
            x = normal(rng, *shape)
            yield Call({"x": x, "grid": places(rng, shape[0], 2, 3, 4, 5, False)})
        yield Call({"x": normal(rng, 2, c, 4, 5), "grid": np.zeros((2, 0, 3, 2))})


def large(rng):
    for mode, padding_mode in zip(MODES, PADDING, strict=True):
        yield call(rng, 2, 17, (40, 37, 41, 33), mode, padding_mode, False)
        yield call(rng, 2, 3, (40, 37, 70, 65), mode, padding_mode, True)
    yield call(rng, 1, 33, (23, 40, 90, 60), "bilinear", "border", False)


def f(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def refusals():
    x, grid, g = f(1, 2, 4, 5), f(1, 3, 3, 2), f(1, 2, 3, 3)
    for op, rest in (("", ()), ("grid_sample_2d_backward", (g,))):

        def bad(why, args, names, errors="ShapeError", options=None, op=op, rest=rest):
            return Bad(why, (*args, *rest), options or {}, errors, names, op)

        yield bad("grid of another batch", (f(2, 2, 4, 5), grid), "grid x")
        yield bad("grid with three coordinates", (x, f(1, 3, 3, 3)), "grid")
        yield bad("grid of one axis less", (x, f(3, 3, 2)), "grid")
        yield bad("x of one axis more", (f(1, 2, 4, 5, 1), grid), "x")
        yield bad("an empty spatial axis", (f(1, 2, 0, 5), grid), "x")
        for mode in ("linear", "cubic", None, 2):
            yield bad(f"mode {mode!r}", (x, grid), "mode", "ArgumentError", {"mode": mode})
        for mode in ("reflect", "zero", None, 0):
            yield bad(f"padding_mode {mode!r}", (x, grid), "padding_mode", "ArgumentError", {"padding_mode": mode})
        for value in (1, None, "True"):
            yield bad(f"align_corners {value!r}", (x, grid), "align_corners", "ArgumentError", {"align_corners": value})


def largest_of(value):
    return np.abs(value[np.isfinite(value)]).max(initial=0.0)


def to_x(call, wanted):
    """To the largest cell, whose multiples cancel."""
    return [np.where(np.isfinite(w), np.abs(w), 0) + 2 * largest_of(call.args["x"]) for w in wanted]


def of_gradients(call, wanted):
    """To the terms: g a tap, and for the grid g · x · (cells for one unit of g) over all channels."""
    x, g = call.args["x"], call.args["output_grad"]
    terms = np.abs(g).sum(1)[..., None] * largest_of(x) * np.array([x.shape[3], x.shape[2]])
    x_grad, grid_grad = (np.where(np.isfinite(w), np.abs(w), 0) for w in wanted)
    return [x_grad + 4 * largest_of(g), grid_grad + 4 * terms]


def flops(call, output):
    taps = {"nearest": 1, "bilinear": 4, "bicubic": 16}[call.options.get("mode", "bilinear")]
    return 2 * output.size * taps


ROWS = [
    Row(
        "grid_sample_2d", calls, large,
        (Gradient(
            "grid_sample_2d_backward", "x grid output_grad", ("x", "grid"), result="GridSampleGrads", work=3.0, scale=of_gradients,
        ),),
        differentiable=("x", "grid"), scale=to_x, rtol={"float32": 2e-6, "float64": 2e-14}, flops=flops, bad=refusals,
    ),
]  # fmt: skip
