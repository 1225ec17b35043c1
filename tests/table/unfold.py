"""Windows of images as columns, and back."""

import math

import numpy as np
from oracle.conv import Taps, per_axis

from table.base import TAILS, Bad, Call, Gradient, Row, normal, terms
from table.conv import H31, H62, f

# (planes, size, kernel, options): every option off its default, and unlike on each axis
OPTIONS = [
    ((2, 3), (7, 9), (3, 2), {}),
    ((1, 1), (1, 1), 1, {}),
    ((0, 3), (7, 6), 3, {}),
    ((2, 0), (7, 6), 3, {}),
    ((2, 3), (9, 12), 3, {"stride": (2, 3), "padding": (1, 2)}),
    ((2, 3), (9, 12), (2, 3), {"stride": (3, 1), "padding": ((0, 2), (1, 0))}),
    ((2, 3), (9, 12), [3, 2], {"dilation": (2, 3), "padding": [2, 1], "stride": (1, 2)}),
    ((2, 3), (9, 40), (2, 5), {"dilation": (3, 2), "padding": ((1, 0), (0, 5)), "stride": (2, 4)}),
    ((2, 3), (9, 40), (2, 5), {"dilation": (1, 6), "stride": (2, 4)}),
    ((1, 2), (12, 16), 4, {"stride": 4}),
    ((1, 2), (12, 33), 2, {"stride": 2}),
    ((1, 2), (12, 17), 2, {"stride": (3, 5), "padding": 1}),
    ((1, 2), (5, 6), 3, {"padding": (9, 8), "stride": (5, 7)}),
    ((1, 2), (5, 6), 3, {"padding": (9, 8)}),
    ((1, 2), (2, 9), (5, 2), {"padding": (2, 0)}),
    ((1, 3), (1, 12), (1, 5), {"padding": (0, 2)}),
    ((1, 3), (12, 1), (5, 1), {"padding": (2, 0), "stride": (2, 1)}),
    ((1, 3), (12, 21), (3, 1), {"padding": (1, 0)}),
    ((1, 2), (6, 70), 3, {"padding": 1}),
    ((1, 2), (8, 9), 7, {"padding": 3}),
    ((1, 1), (3, 1100), (1, 3), {"padding": (0, 1)}),
    ((1, 1), (3, 1100), (1, 3), {"padding": (0, 1), "stride": (1, 2)}),
    ((1, 2), (7, 8), (np.int64(2), np.int32(3)), {"stride": np.int64(2), "dilation": (1, np.int32(2))}),
]  # fmt: skip
LARGE = [
    ((4, 9), (60, 61), 3, {"padding": 1}),
    ((2, 16), (112, 111), 2, {"stride": 2}),
    ((1, 3), (224, 225), (7, 5), {"stride": 2, "padding": (3, 1), "dilation": (1, 2)}),
]


def settings(rows):
    yield from rows
    if rows is OPTIONS:
        for width in TAILS:
            yield (1, 2), (3, width), (2, 3), {"padding": (0, 1)}
            yield (1, 2), (3, width), (2, 2), {"stride": (1, 2), "padding": (0, 1)}
        for size in range(1, 8):
            yield (2, 1), (7, 13), (size, 8 - size), {"stride": (1, 1 + size % 3), "padding": size // 2}


def geometry(size, kernel, options):
    """(cells of the kernel, windows)"""
    taps = Taps(size, per_axis(kernel, 2), options.get("stride", 1), options.get("padding", 0), options.get("dilation", 1))
    return math.prod(taps.kernel), math.prod(taps.out)


def unfold_calls(rows):
    def calls(rng):
        for planes, size, kernel, options in settings(rows):
            yield Call({"x": normal(rng, *planes, *size), "kernel_size": kernel}, options)

    return calls


def fold_calls(rows):
    def calls(rng):
        for (batch, channels), size, kernel, options in settings(rows):
            cells, windows = geometry(size, kernel, options)
            size = size[0] if len(set(size)) == 1 else size
            x = normal(rng, batch, channels * cells, windows)
            yield Call({"x": x, "output_size": size, "kernel_size": kernel}, options)

    return calls


def option_refusals(args, op):
    both = "ArgumentError ShapeError"
    for v in (0, -1, -H62, 1.5, "2", None, True, (1, 1, 1), (), (0, 1), [1.0, 1.0], H62, 2**63):
        for option in ("stride", "dilation"):
            yield Bad(f"{option} {v!r}", args, {option: v}, "ArgumentError", option, op)
    for v in (H31, H62 - 1):
        yield Bad(f"dilation {v}", args, {"dilation": v}, both, "dilation kernel_size x", op)
        yield Bad(f"padding {v * 2**31}", args, {"padding": v * 2**31}, both, "padding", op)
    for v in (-1, ((0, -1), (0, 0)), ((1, 2, 3),) * 2, 1.0, "same", "valid", None, True, (1, 1, 1), ((0, 1.0),) * 2):
        yield Bad(f"padding {v!r}", args, {"padding": v}, "ArgumentError", "padding", op)


def kernel_refusals(make, names, op):
    for v in (0, -1, -H62, 1.5, "2", None, True, (1, 1, 1), (), (2, 0)):
        yield Bad(f"kernel_size {v!r}", make(v), {}, "ArgumentError", "kernel_size", op)
    for v in (9, (2, 7), H31, H62 - 1, H62):
        yield Bad(f"kernel_size {v!r}", make(v), {}, "ArgumentError ShapeError", names, op)


def unfold_refusals():
    x, g = f(2, 3, 5, 6), f(2, 12, 20)
    back = "unfold4d_backward"
    yield Bad("x of three axes", (f(3, 5, 6), 2), {}, "ShapeError", "x")
    yield from option_refusals((x, 2), "unfold4d")
    yield from option_refusals((g, (5, 6), 2), back)
    yield from kernel_refusals(lambda v: (x, v), "kernel_size x", "unfold4d")
    yield from kernel_refusals(lambda v: (g, (5, 6), v), "kernel_size input_size output_grad", back)
    pads, stride = {"padding": (H62 // 4, 0)}, {"padding": (H62 // 4, 0), "stride": (1, 1)}
    yield Bad("columns that fit no array", (x, (H62 // 8, 1)), pads, "ArgumentError ShapeError", "kernel_size padding")
    yield Bad("columns that fit no array", (x, (3, 3)), stride, "ArgumentError ShapeError", "kernel_size padding")
    yield from sizes(lambda v: (g, v, 2), "input_size", "output_grad", back)
    yield Bad("gradient of another length", (f(2, 12, 21), (5, 6), 2), {}, "ShapeError", "output_grad input_size", back)
    yield Bad("gradient of another channel count", (f(2, 13, 20), (5, 6), 2), {}, "ShapeError", "output_grad kernel_size", back)


def fold_refusals():
    x, g = f(2, 12, 20), f(2, 3, 5, 6)
    back = "fold4d_backward"
    yield Bad("x of four axes", (f(2, 12, 4, 5), (5, 6), 2), {}, "ShapeError", "x")
    yield from option_refusals((x, (5, 6), 2), "fold4d")
    yield from option_refusals((g, 2), back)
    yield from kernel_refusals(lambda v: (x, (5, 6), v), "kernel_size output_size x", "fold4d")
    yield from kernel_refusals(lambda v: (g, v), "kernel_size output_grad", back)
    yield from sizes(lambda v: (x, v, 2), "output_size", "x", "fold4d")
    yield Bad("channels that are no multiple", (f(2, 7, 20), (5, 6), 2), {}, "ShapeError", "x kernel_size")
    yield Bad("another number of windows", (f(2, 12, 21), (5, 6), 2), {}, "ShapeError", "x output_size")
    yield Bad("windows of negative number", (f(1, 12, 12), (4, 5), 2), {"dilation": 8}, "ShapeError", "kernel_size output_size")
    many = {"stride": H62 - 1}
    yield Bad("an image that fits no array", (f(2, 12, 1), (H62 - 1, H62 - 1), 2), many, "ShapeError ArgumentError", "output_size")


def sizes(make, name, other, op):
    for v in (0, -1, (0, 6), (5, -6), 1.5, "5", None, True, (5,), (5, 6, 7), (5.0, 6), H62):
        yield Bad(f"{name} {v!r}", make(v), {}, "ArgumentError ShapeError", name, op)
    for v in (H62 - 1, (H31, H31), (6, 6)):
        yield Bad(f"{name} {v!r}", make(v), {}, "ArgumentError ShapeError", f"{name} {other}", op)


def size_of(call):
    return call.args["x"].shape[2:]


ROWS = [
    Row(
        "unfold4d",
        unfold_calls(OPTIONS),
        unfold_calls(LARGE),
        (
            Gradient(
                "unfold4d_backward", "output_grad input_size kernel_size", ("x",), given={"input_size": size_of},
                scale=terms("unfold4d_backward"), free="first",
            ),
        ),
        differentiable=("x",),
        scale=terms("unfold4d"),
        rtol={"float32": 1e-6, "float64": 1e-14},
        bad=unfold_refusals,
    ),
    Row(
        "fold4d",
        fold_calls(OPTIONS),
        fold_calls(LARGE),
        (Gradient("fold4d_backward", "output_grad kernel_size", ("x",), scale=terms("fold4d_backward"), free="longer"),),
        differentiable=("x",),
        scale=terms("fold4d"),
        rtol={"float32": 1e-6, "float64": 1e-14},
        flops=lambda call, output: call.args["x"].size,
        bad=fold_refusals,
    ),
]  # fmt: skip
