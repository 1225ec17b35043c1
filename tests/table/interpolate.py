"""Resampling over one, two and three axes."""

import itertools

import numpy as np
from oracle.interpolate import axes_of, resampled, transposed

from table.base import TAILS, Bad, Call, Gradient, Row, normal

H62 = 2**62
MODES = ("nearest", "nearest_exact", "bilinear", "bicubic", "lanczos3")
SMOOTH = MODES[2:]
TRANSFORMS = (
    "half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric", "tf_crop_and_resize",
)  # fmt: skip
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
# (lengths, output lengths)
SIZES = [((7,), (12,)), ((9,), (4,)), ((1,), (5,)), ((6,), (1,)), ((4, 5), (9, 3)), ((6, 3), (2, 8)), ((2, 3, 4), (5, 2, 7))]
SCALES = [((7,), 1.7), ((9,), (0.45,)), ((4, 5), (1.9, 0.7)), ((5, 6), 0.5), ((3, 2, 4), (1.5, 2.25, 0.8))]
ROIS = [(0.1, 0.8), (-0.3, 0.6), (0.9, 0.2)]


def options_on(mode, sizes):
    """Options off their defaults, those that the mode has."""
    for transform in TRANSFORMS:
        more = {"mode": mode, "coordinate_transform": transform}
        if transform == "tf_crop_and_resize":
            more |= {"roi": ROIS[: len(sizes)], "extrapolation_value": -2.5}
        if mode not in SMOOTH:
            yield from ({**more, "nearest_rounding": rounding} for rounding in ROUNDINGS)
        else:
            for antialias, exclude in itertools.product((False, True), (False, True)):
                a = {"cubic_a": -0.5 if antialias else -0.6} if mode == "bicubic" else {}
                yield {**more, **a, "antialias": antialias, "exclude_outside": exclude}


def calls(rng):
    for i, mode in enumerate(MODES):
        for lengths, outputs in SIZES:
            yield Call({"x": normal(rng, 2, 3, *lengths), "output_size": outputs}, {"mode": mode})
        for lengths, scale in SCALES:
            yield Call({"x": normal(rng, 1, 2, *lengths)}, {"mode": mode, "scale_factor": scale})
        for k, options in enumerate(options_on(mode, (0, 0, 0))):
            lengths, outputs = SIZES[(k + i) % len(SIZES)]
            options = {**options, **({"roi": options["roi"][: len(lengths)]} if "roi" in options else {})}
            if k % 2:
                yield Call({"x": normal(rng, 1, 2, *lengths), "output_size": outputs}, options)
                continue
            lengths, scale = SCALES[(k + i) % len(SCALES)]
            options = {**options, **({"roi": ROIS[: len(lengths)]} if "roi" in options else {})}
            yield Call({"x": normal(rng, 1, 1, *lengths)}, {**options, "scale_factor": scale})
    yield Call({"x": normal(rng, 2, 2, 4, 5), "output_size": 6})
    yield Call({"x": normal(rng, 2, 2, 4, 5), "output_size": (4, 5)}, {"mode": "bicubic"})
    yield Call({"x": normal(rng, 0, 2, 4, 5), "output_size": 6})
    yield Call({"x": normal(rng, 2, 0, 4), "output_size": [6]})
    # every tail, of lines that repeat (twice and half as long) and of those that do not, with few rows and with many
    for n in (*TAILS, 63, 64, 65, 127, 130):
        mode = MODES[n % len(MODES)]
        yield Call({"x": normal(rng, 1, 1 + n % 3, n), "output_size": 2 * n}, {"mode": mode})
        yield Call({"x": normal(rng, 1, 1 + n % 3, 2 * n + n % 2), "output_size": n}, {"mode": mode})
        yield Call({"x": normal(rng, 1, 18, n), "output_size": (3 * n + 1) // 2}, {"mode": SMOOTH[n % 3]})
    for i, mode in enumerate(MODES):
        anti = {"antialias": True} if mode in SMOOTH else {}
        yield Call({"x": normal(rng, 1, 2, 35 + i, 70), "output_size": (70 + 2 * i, 140)}, {"mode": mode})
        yield Call({"x": normal(rng, 2, 1, 40, 70), "output_size": (20, 35)}, {"mode": mode, **anti})
        yield Call({"x": normal(rng, 1, 1, 37, 41), "output_size": (90, 55)}, {"mode": mode})
        yield Call({"x": normal(rng, 1, 1, 41, 37), "output_size": (17, 11)}, {"mode": mode, **anti})
        yield Call({"x": normal(rng, 1, 2, 6, 18, 20), "output_size": (9, 36, 31)}, {"mode": mode})
        yield Call({"x": normal(rng, 1, 2, 7, 20, 19), "output_size": (4, 9, 38)}, {"mode": mode, **anti})
        # axes that stay as they are: in front, between and behind
        for outputs in ((5, 9, 6), (5, 7, 12), (10, 7, 6), (10, 7, 9), (3, 9, 6), (5, 7, 6)):
            yield Call({"x": normal(rng, 1, 2, 5, 7, 6), "output_size": outputs}, {"mode": mode})
        # sums of many terms: more rows, and more columns, than a kernel holds at once
        yield Call({"x": normal(rng, 1, 1, 300, 3), "output_size": (2, 4)}, {"mode": mode, **anti})
        yield Call({"x": normal(rng, 1, 2, 2, 300), "output_size": (3, 2)}, {"mode": mode, **anti})
    yield Call({"x": normal(rng, 1, 1, 40000), "output_size": 3}, {"antialias": True})
    yield Call({"x": normal(rng, 1, 1, 2, 40000), "output_size": (3, 2)}, {"mode": "bicubic", "antialias": True})
    yield Call({"x": normal(rng, 1, 1, 5000, 3), "output_size": (1, 5)}, {"antialias": True})
    yield Call({"x": normal(rng, 1, 1, 3), "output_size": 9001}, {"mode": "bicubic"})


def large(rng):
    for mode in MODES:
        yield Call({"x": normal(rng, 3, 17, 60, 61), "output_size": (120, 122)}, {"mode": mode})
        yield Call({"x": normal(rng, 3, 17, 120, 122), "output_size": (60, 61)}, {"mode": mode})
    yield Call({"x": normal(rng, 2, 3, 40, 41), "output_size": (301, 200)}, {"mode": "bicubic"})
    yield Call({"x": normal(rng, 1, 3, 300, 301), "output_size": (77, 50)}, {"mode": "bicubic", "antialias": True})
    yield Call({"x": normal(rng, 3, 7, 12, 20, 21), "output_size": (24, 31, 42)})
    yield Call({"x": normal(rng, 3, 40, 4001), "output_size": 6001}, {"mode": "lanczos3"})


# ---------------------------------------------------------------- refusals


def f(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def refusals():
    x = f(1, 2, 4, 5)
    both = "ArgumentError ShapeError"
    for op in ("interpolate", "interpolate_backward"):

        def bad(why, size, options, names, errors="ArgumentError", value=x, op=op):
            args = (value, size) if op == "interpolate" else (value, f(1, 2, 3, 3), size)
            return Bad(why, args, options, errors, names, op)

        yield bad("neither size nor scale", None, {}, "output_size scale_factor")
        yield bad("both size and scale", 3, {"scale_factor": 2.0}, "output_size scale_factor")
        for v in (0, -1, H62, 2**64, 1.5, "2", True, (3,), (3, 3, 3), (3, 0), [2.0, 3.0]):
            yield bad(f"output_size {v!r}", v, {}, "output_size", both)
        for v in (0.0, -1.0, float("nan"), float("inf"), 1e-6, 1e300, "2", True, (2.0,), (2.0, 0.1), (2.0, -1.0), np.ones((2, 2))):
            yield bad(f"scale_factor {v!r}", None, {"scale_factor": v}, "scale_factor", both)
        for v in ("cubic", "linear", 1, None):
            yield bad(f"mode {v!r}", 3, {"mode": v}, "mode")
        for v in ("corner", 1, True):
            yield bad(f"coordinate_transform {v!r}", 3, {"coordinate_transform": v}, "coordinate_transform")
        for v in ("up", 0):
            yield bad(f"nearest_rounding {v!r}", 3, {"nearest_rounding": v}, "nearest_rounding")
        for v in (float("nan"), float("inf"), "a", None, True):
            yield bad(f"cubic_a {v!r}", 3, {"cubic_a": v}, "cubic_a")
        for v in (1, None, "yes"):
            yield bad(f"exclude_outside {v!r}", 3, {"exclude_outside": v}, "exclude_outside")
            yield bad(f"antialias {v!r}", 3, {"antialias": v}, "antialias")
        crop = {"coordinate_transform": "tf_crop_and_resize"}
        yield bad("a crop without roi", 3, crop, "roi")
        for v in (0.5, ((0, 1),), ((0, 1), (0, 1), (0, 1)), (0, 1), ((0, 1), (0,)), ((0, 1), (0, float("nan"))), ((0, 1), "ab")):
            yield bad(f"roi {v!r}", 3, {**crop, "roi": v}, "roi")
        for v in ("0", None, True):
            yield bad(f"extrapolation_value {v!r}", 3, {**crop, "roi": ((0, 1),) * 2, "extrapolation_value": v}, "extrapolation_value")
        yield bad("x of two axes", 3, {}, "x", "ShapeError", f(4, 5))
        yield bad("x of six axes", 3, {}, "x", "ShapeError", f(1, 1, 2, 2, 2, 2))
        yield bad("an empty spatial axis", 3, {}, "x", both, f(1, 2, 0, 5))
    byte = np.zeros((1, 2, 4, 5), np.uint8)
    yield Bad("uint8 operands", (byte, np.zeros((1, 2, 3, 3), np.uint8), 3), {}, "DTypeError", "x", "interpolate_backward")
    yield Bad("an output that fits no memory", (x, 2**31), {}, both, "output_size")


# ---------------------------------------------------------------- rows


def axes(call):
    options = {k: v for k, v in call.options.items() if k != "extrapolation_value"}
    return axes_of(call.args["x"].shape[2:], call.args.get("output_size"), **options)


def to_terms(call, wanted):
    """To the sum of the absolute terms."""
    return [resampled(np.abs(call.args["x"]), axes(call), abs(call.options.get("extrapolation_value", 0)), abs)]


def to_terms_backward(call, wanted):
    """The same, and a trifle of the largest: PyTorch's weights are not quite 0 where they should be."""
    found = transposed(call.args["x"], np.abs(call.args["output_grad"]), axes(call), abs)
    return [found + 0.01 * found.max(initial=0.0)]


def terms(call, output):
    """A multiply-add an output and term along each axis."""
    return 2 * output.size * sum(np.mean([len(cells or {}) for cells in axis]) for axis in axes(call))


ROWS = [
    Row(
        "interpolate",
        calls,
        large,
        (Gradient("interpolate_backward", "x output_grad output_size", ("x",), scale=to_terms_backward),),
        differentiable=("x",),
        defaults={"output_size": None},
        scale=to_terms,
        rtol={"float32": 2e-6, "float64": 1e-13},
        flops=terms,
        bad=refusals,
    )
]
