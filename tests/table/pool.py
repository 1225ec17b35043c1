"""Pooling over one, two and three axes."""

import numpy as np

from table.base import CHANNELS, TAILS, Bad, Call, Gradient, Row, distinct, normal, relative, terms, ties

H31, H62 = 2**31, 2**62


def f(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


# (length, kernel, options) by number of axes
OPTIONS = {
    1: [
        ((9,), 3, {}), ((9,), (2,), {"stride": 1}), ((1,), 1, {}), ((10,), 3, {"stride": 2, "padding": 1}),
        ((10,), 4, {"stride": (3,), "padding": ((1, 2),)}),
        ((11,), 3, {"dilation": 2}), ((11,), 3, {"dilation": (2,), "stride": 3, "padding": 1}),
        ((10,), 3, {"ceil_mode": True, "stride": 2}),
        ((7,), 3, {"ceil_mode": True, "stride": 3, "padding": 1}), ((8,), 2, {"ceil_mode": True, "stride": 5}),
        ((5,), 2, {"stride": 4}),
        ((6,), 5, {"padding": 2, "stride": 1}), ((9,), 2, {"ceil_mode": True, "stride": 4, "padding": (1,), "dilation": 3}),
        ((5,), 5, {}), ((100,), 12, {"stride": 9}), ((200,), 40, {}), ((90,), 9, {"stride": 11, "padding": 4}),
    ],
    2: [
        ((7, 9), 3, {}), ((7, 9), (2, 3), {"stride": (1, 2)}), ((1, 1), 1, {}),
        ((8, 11), (3, 2), {"stride": (2, 3), "padding": (1, 0)}),
        ((8, 11), (3, 4), {"stride": (2, 1), "padding": ((0, 1), (2, 1))}), ((9, 12), (2, 3), {"dilation": (3, 2), "padding": 1}),
        ((9, 10), 3, {"ceil_mode": True, "stride": 2}),
        ((10, 9), (3, 2), {"ceil_mode": True, "stride": (4, 3), "padding": (1, 1)}),
        ((6, 7), (2, 3), {"ceil_mode": True, "stride": (3, 2), "padding": [1, 1], "dilation": (1, 2)}),
        ((2, 12), (2, 5), {"stride": (1, 7)}),
        ((5, 6), (1, 4), {"stride": (2, 1), "padding": (0, 2)}), ((6, 5), (4, 1), {"padding": (2, 0)}),
        ((4, 70), 3, {"stride": (1, 2), "padding": 1}),
        ((4, 5), (4, 5), {}), ((9, 40), (3, 3), {"stride": 1, "padding": 1}), ((5, 35), (2, 2), {"stride": 2, "ceil_mode": True}),
        ((5, 70), (2, 12), {"stride": (2, 9)}), ((9, 68), (3, 33), {"stride": (2, 34)}),
    ],
    3: [
        ((5, 6, 7), 2, {}), ((4, 5, 6), (2, 3, 1), {"stride": (1, 2, 3)}), ((1, 1, 1), 1, {}),
        ((5, 6, 7), (3, 2, 3), {"stride": (2, 3, 1), "padding": (1, 0, 1)}),
        ((6, 5, 7), (2, 3, 2), {"dilation": (2, 1, 3), "padding": ((0, 1), (1, 1), (1, 0))}),
        ((5, 4, 6), 2, {"ceil_mode": True, "stride": (2, 3, 4), "padding": (0, 1, 1)}),
        ((5, 6, 7), (3, 2, 3), {"ceil_mode": True, "stride": (3, 2, 2), "padding": 1, "dilation": (1, 2, 1)}),
        ((2, 2, 19), (2, 1, 3), {"stride": 1}),
    ],
}  # fmt: skip
SMALL = {1: ((11,), 3), 2: ((4, 7), (2, 3)), 3: ((2, 3, 5), (2, 2, 3))}
ADAPTIVE = {
    1: [((7,), 3), ((5,), (3,)), ((4,), 8), ((9,), 1), ((9,), 9), ((1,), 4), ((130,), 7), ((530,), 3)],
    2: [
        ((7, 9), 3),
        ((7, 9), (2, 5)),
        ((4, 5), (8, 3)),
        ((6, 7), 1),
        ((5, 6), (5, 6)),
        ((1, 8), (3, 2)),
        ((8, 12), (4, 3)),
        ((3, 70), (2, 33)),
        ((3, 300), (2, 3)),
    ],
    3: [((5, 6, 7), 2), ((4, 5, 6), (2, 3, 5)), ((2, 3, 4), (4, 1, 6)), ((3, 4, 5), [3, 4, 5]), ((4, 4, 4), 1)],
}
AVERAGE = [{}, {"count_include_pad": False}, {"divisor_override": 3}, {"divisor_override": 7, "count_include_pad": False}]


def turned(x):
    """[B,C,H,W] as [B,H,W,C]."""
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def over_layouts(n, x, kernel, options, smooth=True, second="kernel_size"):
    yield Call({"x": x, second: kernel}, options, smooth)
    if n == 2:
        yield Call({"x": turned(x), second: kernel}, {**options, "layout": "NHWC"}, smooth)


def sliding_calls(n, kind):
    data = normal if kind == "avg" else distinct

    def calls(rng):
        for i, (length, kernel, options) in enumerate(OPTIONS[n]):
            more = AVERAGE if kind == "avg" else [{}]
            for extra in more:
                yield from over_layouts(n, data(rng, 2, 3, *length), kernel, {**options, **extra})
            channels = CHANNELS[i % len(CHANNELS)]
            yield from over_layouts(n, data(rng, 1, channels, *length), kernel, options)
            if kind != "avg":
                yield from over_layouts(n, ties(rng, 2, 3, *length), kernel, options, False)
        length, kernel = SMALL[n]
        for channels in CHANNELS:
            yield from over_layouts(n, data(rng, 1, channels, *length), kernel, {"stride": 1, "padding": 1})
        for width in TAILS[2:]:
            yield from over_layouts(n, data(rng, 1, 2, *length[:-1], width), kernel, {"stride": 1, "padding": 1})
            if width % 3 == 0:
                yield from over_layouts(n, data(rng, 1, 2, *length[:-1], width), kernel, {"stride": 2, "padding": 1})
                yield from over_layouts(n, data(rng, 1, 2, *length[:-1], width), 2, {"stride": 2, "padding": 1})
        yield from over_layouts(n, data(rng, 0, 3, *length), kernel, {})
        yield from over_layouts(n, data(rng, 2, 0, *length), kernel, {})
        if kind == "indices":
            for dtype in (np.int32, np.dtype("int64"), "int32"):
                yield from over_layouts(n, data(rng, 2, 3, *length), kernel, {"indices_dtype": dtype})

    return calls


def adaptive_calls(n, kind):
    data = normal if kind == "avg" else distinct

    def calls(rng):
        for length, size in ADAPTIVE[n]:
            yield from over_layouts(n, data(rng, 2, 3, *length), size, {}, second="output_size")
            if kind != "avg":
                yield from over_layouts(n, ties(rng, 2, 3, *length), size, {}, False, "output_size")
        length, size = ADAPTIVE[n][1]
        for channels in CHANNELS:
            yield from over_layouts(n, data(rng, 1, channels, *length), size, {}, second="output_size")
        yield from over_layouts(n, data(rng, 0, 3, *length), size, {}, second="output_size")
        yield from over_layouts(n, data(rng, 2, 0, *length), size, {}, second="output_size")
        if kind == "indices":
            yield from over_layouts(n, data(rng, 2, 3, *length), size, {"indices_dtype": np.int32}, second="output_size")

    return calls


LARGE = {
    1: [((40_003,), 3, {"stride": 2, "padding": 1})],
    2: [
        ((130, 131), 3, {"stride": 2, "padding": 1}),
        ((130, 131), (2, 2), {}),
        ((97, 101), (3, 5), {"stride": 1, "padding": (1, 2), "ceil_mode": True}),
    ],
    3: [((24, 32, 33), 3, {"stride": 2, "padding": 1})],
}


def sliding_large(n):
    def large(rng):
        for length, kernel, options in LARGE[n]:
            yield from over_layouts(n, normal(rng, 3, 17, *length), kernel, options)

    return large


def adaptive_large(n):
    size = {1: 4001, 2: (31, 30), 3: (7, 8, 9)}[n]

    def large(rng):
        yield from over_layouts(n, normal(rng, 3, 17, *LARGE[n][0][0]), size, {}, second="output_size")

    return large


# ---------------------------------------------------------------- refusals


def sliding_refusals(n, kind):
    op = {"max": f"max_pool{n}d", "indices": f"max_pool{n}d_with_indices", "avg": f"avg_pool{n}d"}[kind]
    length = (7, 6, 5)[:n]
    x = f(2, 3, *length)
    y = f(2, 3, *(v // 2 for v in length))
    both = "ArgumentError ShapeError"

    def at(why, options, names, errors="ArgumentError", kernel=3, value=x):
        return Bad(why, (value, kernel), options, errors, names)

    yield at("x of another rank", {}, "x", "ShapeError", 2, f(2, 3, *length, 2))
    yield at("x of one axis less", {}, "x", "ShapeError", 2, f(2, *length))
    wrong = [0, -1, 1.5, "2", None, True, (1,) * (n + 1), (), [2.0] * n, (0,) + (1,) * (n - 1)]
    for v in wrong:
        yield at(f"kernel_size {v!r}", {}, "kernel_size", "ArgumentError", v)
        if v is not None:
            yield at(f"stride {v!r}", {"stride": v}, "stride")
        yield at(f"dilation {v!r}", {"dilation": v}, "dilation")
    for v in (9, H31, 2**32, H62, 2**64):
        yield at(f"kernel_size {v}", {}, "kernel_size x kernel", both, v)
        yield at(f"dilation {v}", {"dilation": v}, "dilation kernel_size kernel x", both)
        yield at(f"padding {v}", {"padding": v}, "padding", both)
    for v in (-1, 2, ((0, -1),) * n, 1.0, "valid1", None, True, (1,) * (n + 1), ((2, 1),) + ((0, 0),) * (n - 1)):
        yield at(f"padding {v!r}", {"padding": v}, "padding", both)
    yield at("padding above half the undilated kernel", {"padding": 2, "dilation": 2}, "padding", both)
    yield at("ceil_mode a number", {"ceil_mode": 1}, "ceil_mode")
    tiny = f(1, 1, *([1] * n))
    yield at(
        "windows that touch no cell", {"dilation": 2, "padding": 1}, "padding kernel_size kernel x dilation window", both, 2, tiny
    )
    if n == 2:
        yield at("unknown layout", {"layout": "HWNC"}, "layout", "ArgumentError", 2)
    if kind == "avg":
        for v in (0, 1.5, "3", True):
            yield at(f"divisor_override {v!r}", {"divisor_override": v}, "divisor_override")
        yield at("count_include_pad a number", {"count_include_pad": 1}, "count_include_pad")
        yield Bad("stride 0", (x, y, 2), {"stride": 0}, "ArgumentError", "stride", op + "_backward")
        yield Bad("divisor_override 0", (x, y, 2), {"divisor_override": 0}, "ArgumentError", "divisor_override", op + "_backward")
    elif kind == "max":
        yield Bad("stride 0", (x, y, 2), {"stride": 0}, "ArgumentError", "stride", op + "_backward")
        yield Bad("kernel_size 0", (x, y, 0), {}, "ArgumentError", "kernel_size", op + "_backward")
    else:
        for v in (np.float32, np.uint8, np.bool_, "float64", object, "nonsense"):
            yield at(f"indices_dtype {v!r}", {"indices_dtype": v}, "indices_dtype", "ArgumentError DTypeError")
        zeros = np.zeros(y.shape, np.int64)
        for v in (int(np.prod(length)), -1, H31, 2**32, H62, -H62):
            last = zeros.copy()
            last.reshape(-1)[-1] = v
            yield Bad(f"index {v}", (x, 2, y, last), {}, "IndexRangeError", "indices", op + "_backward")
        yield Bad("indices of another batch", (x, 2, y, zeros[:1]), {}, "ShapeError", "indices output_grad", op + "_backward")
        yield Bad("stride 0", (x, 2, y, zeros), {"stride": 0}, "ArgumentError", "stride", op + "_backward")


def adaptive_refusals(n, kind):
    op = {"max": f"adaptive_max_pool{n}d", "indices": f"adaptive_max_pool{n}d_with_indices", "avg": f"adaptive_avg_pool{n}d"}[
        kind
    ]
    length = (7, 6, 5)[:n]
    x, y = f(2, 3, *length), f(2, 3, *([2] * n))
    for v in (0, -1, H62, 2**64, 1.5, "2", None, True, (1,) * (n + 1), (0,) + (1,) * (n - 1)):
        yield Bad(f"output_size {v!r}", (x, v), {}, "ArgumentError ShapeError", "output_size")
    yield Bad("x of another rank", (f(2, 3, *length, 2), 2), {}, "ShapeError", "x")
    yield Bad("an empty spatial axis", (np.zeros((2, 3, *([0] * n)), np.float32), 2), {}, "ArgumentError ShapeError", "x")
    if n == 2:
        yield Bad("unknown layout", (x, 2), {"layout": "NWHC"}, "ArgumentError", "layout")
    if kind != "indices":
        yield Bad(
            "gradient of another channel count", (x, f(2, 4, *([2] * n))), {}, "ShapeError", "output_grad", op + "_backward"
        )
        return
    zeros = np.zeros(y.shape, np.int64)
    for v in (int(np.prod(length)), -1, H31, H62):
        last = zeros.copy()
        last.reshape(-1)[-1] = v
        yield Bad(f"index {v}", (x, y, last), {}, "IndexRangeError", "indices", op + "_backward")
    yield Bad("indices of another batch", (x, y, zeros[:1]), {}, "ShapeError", "indices output_grad", op + "_backward")


# ---------------------------------------------------------------- rows


def taps(call, output):
    """Cells seen by the windows: comparisons or additions."""
    kernel, x = call.args.get("kernel_size"), call.args["x"]
    if kernel is None:
        return 2 * x.size
    n = x.ndim - 2
    return output.size * int(np.prod(kernel if isinstance(kernel, (tuple, list)) else (kernel,) * n))


def adds_up(call, wanted):
    """To the largest sum of gradients in one cell."""
    return [np.abs(w) + np.abs(call.args["output_grad"]).max(initial=0.0) for w in wanted]


EXACT = {"float32": 1e-6, "float64": 1e-14}


def row(name, calls, large, gradient, **rest):
    rest = {"rtol": EXACT, "scale": relative, "flops": taps, "differentiable": ("x",), **rest}
    return Row(name, calls, large, (gradient,), **rest)


def rows(n):
    top, mean = f"max_pool{n}d", f"avg_pool{n}d"
    pair = ("output", "indices")
    yield row(
        top,
        sliding_calls(n, "max"),
        sliding_large(n),
        Gradient(top + "_backward", "x output_grad kernel_size", ("x",), scale=adds_up),
        bad=lambda: sliding_refusals(n, "max"),
    )
    yield row(
        top + "_with_indices",
        sliding_calls(n, "indices"),
        sliding_large(n),
        Gradient(
            top + "_with_indices_backward", "x kernel_size output_grad indices", ("x",), without=("indices_dtype",), scale=adds_up
        ),
        results=pair,
        result=f"MaxPool{n}dWithIndices",
        exact=(1,),
        bad=lambda: sliding_refusals(n, "indices"),
    )
    yield row(
        mean,
        sliding_calls(n, "avg"),
        sliding_large(n),
        Gradient(mean + "_backward", "x output_grad kernel_size", ("x",), scale=adds_up),
        bad=lambda: sliding_refusals(n, "avg"),
        scale=terms(mean),
    )
    top, mean = "adaptive_" + top, "adaptive_" + mean
    yield row(
        top,
        adaptive_calls(n, "max"),
        adaptive_large(n),
        Gradient(top + "_backward", "x output_grad", ("x",), scale=adds_up, free="last"),
        bad=lambda: adaptive_refusals(n, "max"),
    )
    yield row(
        top + "_with_indices",
        adaptive_calls(n, "indices"),
        adaptive_large(n),
        Gradient(top + "_with_indices_backward", "x output_grad indices", ("x",), without=("indices_dtype",), scale=adds_up),
        results=pair,
        result=f"AdaptiveMaxPool{n}dWithIndices",
        exact=(1,),
        bad=lambda: adaptive_refusals(n, "indices"),
    )
    yield row(
        mean, adaptive_calls(n, "avg"), adaptive_large(n),
        Gradient(mean + "_backward", "x output_grad", ("x",), scale=adds_up, free="last"),
        bad=lambda: adaptive_refusals(n, "avg"), scale=terms(mean),
    )  # fmt: skip


ROWS = [r for n in (1, 2, 3) for r in rows(n)]
