"""Convolutions of one, two and three axes."""

import numpy as np
from oracle.conv import Taps

from table.base import CHANNELS, TAILS, Bad, Call, Gradient, Row, normal, terms

H31, H62 = 2**31, 2**62


def f(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def make(rng, batch, cin, cout, length, kernel, bias=True, groups=1, **options):
    """A call with these sizes; layout="NHWC" turns the operands."""
    x, w = normal(rng, batch, cin, *length), normal(rng, cout, cin // groups, *kernel)
    if options.get("layout") == "NHWC":
        x, w = x.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy()
    return with_bias(rng, x, w, cout, bias, groups, options)


def with_bias(rng, x, w, cout, bias, groups, options):
    """The call on these operands; a bias and groups only where they are wanted."""
    args = {"x": x, "weight": w} | ({"bias": normal(rng, cout)} if bias else {})
    return Call(args, options | ({"groups": groups} if groups != 1 else {}))


# (batch, Cin, Cout, length, kernel, options) by number of axes: every option off its default, and unlike on each axis
OPTIONS = {
    1: [
        (2, 3, 4, (11,), (3,), {}),
        (1, 1, 1, (1,), (1,), {}),
        (0, 3, 4, (7,), (3,), {}),
        (2, 3, 4, (11,), (4,), {"stride": 4}),
        (2, 3, 5, (12,), (3,), {"stride": 2, "padding": 1}),
        (2, 3, 5, (12,), (3,), {"padding": ((0, 3),)}),
        (2, 3, 5, (12,), (3,), {"padding": ((2, 0),), "dilation": 2, "stride": 3}),
        (2, 3, 5, (12,), (4,), {"padding": "same"}),
        (2, 3, 5, (12,), (4,), {"padding": "same", "dilation": 3}),
        (2, 3, 5, (12,), (4,), {"padding": "valid", "stride": (2,)}),
        (2, 6, 4, (9,), (3,), {"groups": 2, "padding": [1]}),
        (2, 6, 6, (9,), (3,), {"groups": 6, "stride": 2}),
        (2, 5, 10, (9,), (5,), {"groups": 5, "padding": 4, "dilation": 2}),
        (1, 2, 3, (2,), (5,), {"padding": 3}),
        (2, 3, 4, (20,), (1,), {"stride": 3}),
        (3, 16, 33, (40,), (3,), {"padding": 1, "bias": False}),
        (1, 4, 4, (5,), (3,), {"padding": 7, "stride": 5}),
        (2, 3, 4, (9,), (3,), {"stride": np.int64(2), "dilation": (np.int32(2),)}),
    ],
    2: [
        (2, 3, 4, (7, 9), (3, 2), {}),
        (1, 1, 1, (1, 1), (1, 1), {}),
        (0, 3, 4, (7, 6), (3, 3), {}),
        (2, 3, 5, (9, 12), (3, 3), {"stride": (2, 3), "padding": (1, 2)}),
        (2, 3, 5, (9, 12), (2, 3), {"stride": (3, 1), "padding": ((0, 2), (1, 0))}),
        (2, 3, 5, (9, 12), (3, 2), {"dilation": (2, 3), "padding": [2, 1], "stride": (1, 2)}),
        (2, 3, 5, (8, 7), (4, 2), {"padding": "same"}),
        (2, 3, 5, (8, 7), (2, 3), {"padding": "same", "dilation": (3, 2)}),
        (2, 3, 5, (8, 7), (2, 3), {"padding": "valid", "stride": 2}),
        (2, 6, 4, (6, 7), (3, 3), {"groups": 2, "stride": 2, "padding": 1}),
        (2, 6, 9, (6, 7), (2, 3), {"groups": 3, "dilation": 2, "padding": (2, 3)}),
        (2, 17, 17, (9, 8), (3, 3), {"groups": 17, "padding": 1}),
        (2, 8, 16, (9, 10), (3, 5), {"groups": 8, "stride": (2, 1), "padding": (1, 2)}),
        (2, 7, 7, (8, 9), (3, 3), {"groups": 7, "dilation": (1, 2), "padding": 2, "bias": False}),
        (2, 5, 5, (9, 70), (5, 3), {"groups": 5, "stride": (1, 2), "padding": (2, 1), "dilation": (1, 2)}),
        (2, 33, 33, (7, 40), (5, 5), {"groups": 33, "stride": 2, "padding": 2}),
        (1, 50, 50, (6, 21), (5, 5), {"groups": 50, "padding": 2}),
        (2, 3, 3, (17, 40), (3, 3), {"groups": 3, "padding": ((0, 1), (1, 2))}),
        (2, 3, 3, (13, 70), (3, 3), {"groups": 3, "padding": ((1, 0), (3, 0)), "stride": 2}),
        (2, 2, 2, (16, 67), (3, 3), {"groups": 2, "padding": (0, 2), "stride": 2, "bias": False}),
        (2, 3, 3, (15, 45), (5, 5), {"groups": 3, "padding": 1, "stride": 2}),
        (2, 3, 3, (11, 37), (5, 5), {"groups": 3, "padding": ((2, 1), (3, 0))}),
        (1, 6, 6, (5, 19), (2, 7), {"groups": 6, "padding": (1, 3), "stride": (3, 2)}),
        (2, 16, 24, (5, 6), (1, 1), {}),
        (2, 16, 24, (5, 6), (1, 1), {"stride": 2, "padding": 1}),
        (1, 3, 8, (30, 41), (7, 7), {"stride": 2, "padding": 3}),
        (1, 16, 17, (13, 14), (3, 3), {"padding": 1}),
        (2, 33, 16, (8, 10), (3, 3), {"padding": 1}),
        (1, 8, 9, (20, 33), (3, 3), {}),
        (1, 2, 3, (2, 9), (5, 2), {"padding": (2, 0)}),
        (1, 3, 4, (1, 12), (1, 5), {"padding": (0, 2)}),
        (1, 3, 4, (12, 1), (5, 1), {"padding": (2, 0), "stride": (2, 1)}),
        (1, 3, 4, (5, 6), (3, 3), {"padding": (9, 8), "stride": (5, 7)}),
        (2, 3, 4, (6, 70), (3, 3), {"padding": 1}),
        (1, 24, 25, (9, 9), (5, 5), {"padding": 2}),
        (1, 64, 5, (7, 9), (3, 3), {"padding": 1, "stride": 2}),
        (1, 5, 64, (7, 9), (3, 3), {"padding": ((1, 0), (0, 1))}),
    ],
    3: [
        (2, 3, 4, (4, 5, 6), (2, 3, 2), {}),
        (1, 1, 1, (1, 1, 1), (1, 1, 1), {}),
        (0, 3, 4, (4, 5, 6), (3, 3, 3), {}),
        (2, 3, 4, (4, 5, 7), (3, 2, 3), {"stride": (1, 2, 3), "padding": (1, 0, 2)}),
        (1, 3, 4, (5, 6, 7), (2, 3, 2), {"dilation": (2, 1, 3), "padding": ((0, 1), (2, 1), (1, 2)), "stride": (2, 1, 1)}),
        (1, 3, 4, (4, 5, 6), (3, 2, 4), {"padding": "same"}),
        (1, 3, 4, (4, 5, 6), (2, 2, 2), {"padding": "same", "dilation": (1, 3, 2)}),
        (1, 3, 4, (4, 5, 6), (2, 2, 2), {"padding": "valid", "stride": [2, 1, 3]}),
        (2, 4, 6, (4, 5, 6), (3, 3, 3), {"groups": 2, "padding": 1, "stride": 2}),
        (1, 9, 9, (4, 5, 6), (3, 3, 3), {"groups": 9, "padding": 1}),
        (1, 5, 10, (4, 5, 6), (2, 3, 1), {"groups": 5, "dilation": (1, 2, 1), "bias": False}),
        (1, 16, 17, (3, 4, 5), (1, 1, 1), {}),
        (1, 8, 9, (5, 6, 17), (3, 3, 3), {"padding": 1}),
        (1, 2, 2, (1, 1, 9), (1, 1, 3), {"padding": (0, 0, 1)}),
        (1, 2, 2, (2, 2, 2), (3, 1, 5), {"padding": (1, 0, 2)}),
        (1, 3, 33, (4, 4, 4), (3, 3, 3), {"padding": 2, "stride": 3, "dilation": 2}),
    ],
}  # fmt: skip


def calls_of(n):
    def calls(rng):
        for batch, cin, cout, length, kernel, options in OPTIONS[n]:
            options = dict(options)
            groups, bias = options.pop("groups", 1), options.pop("bias", True)
            yield make(rng, batch, cin, cout, length, kernel, bias, groups, **options)
            if n == 2:
                yield make(rng, batch, cin, cout, length, kernel, bias, groups, layout="NHWC", **options)
        small, kernel = {1: ((9,), (3,)), 2: ((4, 5), (3, 3)), 3: ((3, 3, 4), (2, 2, 3))}[n]
        layouts = ({}, {"layout": "NHWC"}) if n == 2 else ({},)
        for layout in layouts:
            for cin in CHANNELS:
                yield make(rng, 1, cin, 5, small, kernel, padding=1, **layout)
                yield make(rng, 1, 5, cin, small, kernel, padding=1, **layout)
                yield make(rng, 1, cin, cin, small, kernel, groups=cin, padding=1, **layout)
            for width in TAILS:
                length = (*small[:-1], width)
                yield make(rng, 1, 3, 4, length, kernel, padding=1, **layout)
                if width % 3 == 0:
                    yield make(rng, 1, 4, 4, length, kernel, groups=4, padding=1, **layout)
                    yield make(rng, 1, 4, 6, length, kernel, stride=2, padding=1, **layout)
        yield make(rng, 2, 0, 3, small, kernel)

    return calls


LARGE = {
    1: [
        (1, 1, 1, (200_001,), (5,), {}),
        (4, 8, 16, (4001,), (3,), {"padding": 1}),
        (2, 33, 33, (9001,), (5,), {"groups": 33, "stride": 2}),
    ],
    2: [
        (5, 3, 8, (70, 61), (3, 3), {"padding": 1}),
        (2, 32, 33, (29, 31), (3, 3), {"padding": 1}),
        (2, 64, 48, (28, 29), (1, 1), {}),
        (2, 33, 33, (60, 61), (3, 3), {"groups": 33, "padding": 1}),
        (2, 33, 33, (60, 61), (3, 3), {"groups": 33, "stride": 2, "padding": 1}),
        (2, 24, 32, (41, 40), (3, 5), {"stride": 2, "padding": (1, 2), "groups": 2}),
        (1, 130, 65, (9, 8), (3, 3), {"padding": 1}),
        (3, 3, 16, (64, 65), (7, 7), {"stride": 2, "padding": 3}),
    ],
    3: [
        (2, 4, 16, (16, 24, 33), (3, 3, 3), {"padding": 1}),
        (1, 16, 16, (9, 16, 17), (3, 3, 3), {"groups": 16, "stride": (1, 2, 2)}),
    ],
}


def large_of(n):
    def large(rng):
        for batch, cin, cout, length, kernel, options in LARGE[n]:
            options = dict(options)
            groups = options.pop("groups", 1)
            yield make(rng, batch, cin, cout, length, kernel, True, groups, **options)
            if n == 2:
                yield make(rng, batch, cin, cout, length, kernel, True, groups, layout="NHWC", **options)

    return large


def flops(call, output):
    """Two for each product of a cell inside x and a tap; what padding skips is counted, being small."""
    w = call.args["weight"]
    per_output = w.size // (w.shape[-1] if call.options.get("layout") == "NHWC" else w.shape[0]) if w.size else 0
    return 2 * output.size * per_output


def refusals(n):
    op = f"conv{n}d"
    length, kernel = (6, 5, 4)[:n], (3, 2, 3)[:n]
    x, w, b = f(2, 4, *length), f(4, 2, *kernel), f(4)
    g2 = {"groups": 2}
    out = tuple(a - k + 1 for a, k in zip(length, kernel, strict=True))
    g = f(2, 4, *out)

    def bad(why, args, options, errors, names, method=""):
        return Bad(why, args, options, errors, names, method)

    both = "ArgumentError ShapeError"
    yield bad("x of another rank", (f(4, *length), w, b), g2, "ShapeError", "x")
    yield bad("weight of another rank", (x, f(4, 2), b), g2, "ShapeError", "weight")
    yield bad("channel counts that differ", (x, f(4, 3, *kernel), b), g2, both, "x weight groups")
    yield bad("bias of another length", (x, w, f(3)), g2, "ShapeError", "bias")
    yield bad("bias of two axes", (x, w, f(1, 4)), g2, "ShapeError", "bias")
    yield bad("groups that do not divide the outputs", (x, f(3, 2, *kernel)), g2, both, "groups weight")
    yield bad("groups that do not divide the inputs", (f(2, 5, *length), w), g2, both, "groups weight x")
    yield bad("a kernel without cells", (x, f(4, 2, *kernel[:-1], 0)), g2, both, "weight")
    for v in (0, -1, H31, H62, -H62, 1.0, "2", None, True):
        yield bad(f"groups {v!r}", (x, w), {"groups": v}, both, "groups weight")
    wrong = [0, -1, -H62, 1.5, "2", None, True, (1,) * (n + 1), (), (0,) + (1,) * (n - 1), [1.0] * n]
    for v in wrong:
        yield bad(f"stride {v!r}", (x, w), {**g2, "stride": v}, "ArgumentError", "stride")
        yield bad(f"dilation {v!r}", (x, w), {**g2, "dilation": v}, "ArgumentError", "dilation")
        yield bad(f"stride {v!r}", (x, w, g), {**g2, "stride": v}, "ArgumentError", "stride", op + "_x_backward")
        yield bad(f"dilation {v!r}", (x, w, g), {**g2, "dilation": v}, "ArgumentError", "dilation", op + "_weight_backward")
        yield bad(f"stride {v!r}", (x, w, g), {**g2, "stride": v}, "ArgumentError", "stride", op + "_backward")
    for v in (H31, 2**32, H62, 2**63, 2**64):
        yield bad(f"dilation {v}", (x, w), {**g2, "dilation": v}, both, "dilation weight x kernel")
        yield bad(f"padding {v * 2**31}", (x, w), {**g2, "padding": v * 2**31}, both, "padding")
    for v in (-1, ((0, -1),) * n, ((1, 2, 3),) * n, 1.0, "full", "SAME", None, True, (1,) * (n + 1), ((0, 1.0),) * n):
        yield bad(f"padding {v!r}", (x, w), {**g2, "padding": v}, "ArgumentError", "padding")
        yield bad(f"padding {v!r}", (x, w, g), {**g2, "padding": v}, "ArgumentError", "padding", op + "_backward")
    yield bad("same with a stride", (x, w), {**g2, "padding": "same", "stride": 2}, "ArgumentError", "padding stride")
    big = f(4, 2, *([3] * n))
    yield bad("kernel larger than the input", (f(2, 4, *([2] * n)), big), g2, both, "x weight kernel padding")
    yield bad(
        "dilated kernel larger than the input",
        (f(2, 4, *([4] * n)), big),
        {**g2, "dilation": 2},
        both,
        "x weight kernel padding dilation",
    )
    for part in ("x", "weight"):
        yield bad("groups 3", (x, w, g), {"groups": 3}, both, "groups x weight", f"{op}_{part}_backward")
        yield bad("groups 0", (x, w, g), {"groups": 0}, both, "groups", f"{op}_{part}_backward")
    yield bad("bias a number", (x, w, g), {**g2, "bias": 1}, "ArgumentError", "bias", op + "_backward")
    yield bad(
        "gradient of another channel count", (x, b, f(2, 5, *out)), {}, "ShapeError", "output_grad bias", op + "_bias_backward"
    )
    yield bad("gradient of another batch", (x, b, f(3, 4, *out)), {}, "ShapeError", "output_grad x", op + "_bias_backward")
    if n == 2:
        for v in ("CHWN", "nhwc", None, 1):
            yield bad(f"layout {v!r}", (x, w), {**g2, "layout": v}, "ArgumentError", "layout")
        xl, wl = f(2, 5, 6, 4), f(3, 3, 4, 2)
        yield bad("NHWC channel counts", (xl, f(3, 3, 5, 2)), {"layout": "NHWC"}, both, "x weight")
        yield bad("NHWC kernel larger than the input", (f(2, 2, 2, 4), wl), {"layout": "NHWC"}, both, "x weight kernel padding")
        yield bad("NHWC bias", (xl, wl, f(4)), {"layout": "NHWC"}, "ShapeError", "bias")


def has_bias(call):
    return call.args.get("bias") is not None


def conv(n):
    op = f"conv{n}d"
    shared = "x weight output_grad"
    gradients = (
        Gradient(op + "_x_backward", shared, ("x",), scale=terms(op + "_x_backward")),
        Gradient(op + "_weight_backward", shared, ("weight",), scale=terms(op + "_weight_backward")),
        Gradient(
            op + "_bias_backward", "x bias output_grad", ("bias",), when=has_bias,
            without=("stride", "padding", "dilation", "groups"),
            scale=terms(op + "_bias_backward"), work=0, free="last",
        ),
        Gradient(
            op + "_backward", shared, ("x", "weight", "bias"), f"Conv{n}dGrads",
            more=lambda call: {} if has_bias(call) else {"bias": False},
            scale=lambda call, wanted: [0.0 if s is None else s for s in terms(op + "_backward")(call, wanted)], work=2,
        ),
    )  # fmt: skip
    return Row(
        op,
        calls_of(n),
        large_of(n),
        gradients,
        differentiable=("x", "weight", "bias"),
        optional=("bias",),
        scale=terms(op),
        rtol={"float32": 5e-6, "float64": 1e-13},
        flops=flops,
        bad=lambda: refusals(n),
    )


def input_backward_calls(rng):
    for batch, length, kernel, cin, cout, stride in (
        (2, (7, 9), (3, 2), 3, 4, (1, 1)), (1, (8, 11), (3, 5), 7, 8, (2, 3)), (0, (5, 6), (3, 3), 2, 3, (1, 2)),
        (2, (6, 5), (1, 1), 17, 9, (1, 1)),
        (1, (9, 9), (2, 2), 1, 1, (3, 3)), (1, (10, 7), (3, 3), 33, 16, (2, 1)), (1, (5, 30), (2, 3), 3, 15, (1, 4)),
    ):  # fmt: skip
        out = Taps(length, kernel, stride, 0, 1).out
        args = {
            "output_grad": normal(rng, batch, *out, cout),
            "kernel": normal(rng, *kernel, cin, cout),
            "input_shape": (batch, *length, cin),
        }
        yield Call({**args, "stride_h": stride[0], "stride_w": stride[1]})


def input_backward_large(rng):
    args = {"output_grad": normal(rng, 2, 30, 31, 33), "kernel": normal(rng, 3, 3, 24, 33), "input_shape": (2, 32, 33, 24)}
    yield Call({**args, "stride_h": 1, "stride_w": 1})


def input_backward_refusals():
    g, k, shape = f(2, 3, 4, 2), f(3, 3, 4, 2), (2, 5, 6, 4)
    for v in (0, -1, 1.0, None, H62 * 4):
        yield Bad(f"stride_h {v!r}", (g, k, shape, v, 1), {}, "ArgumentError ShapeError", "stride_h")
        yield Bad(f"stride_w {v!r}", (g, k, shape, 1, v), {}, "ArgumentError ShapeError", "stride_w")
    yield Bad("input_shape too short", (g, k, (2, 5, 6), 1, 1), {}, "ArgumentError ShapeError", "input_shape")
    yield Bad("input_shape negative", (g, k, (2, -5, 6, 4), 1, 1), {}, "ArgumentError ShapeError", "input_shape")
    yield Bad("input_shape a number", (g, k, 7, 1, 1), {}, "ArgumentError", "input_shape")
    yield Bad("input_shape 2**62", (g, k, (2, H62, 6, 4), 1, 1), {}, "ArgumentError ShapeError", "input_shape output_grad")
    yield Bad("gradient of another height", (f(2, 9, 4, 2), k, shape, 1, 1), {}, "ShapeError", "output_grad input_shape")
    yield Bad("kernel of another channel count", (g, f(3, 3, 5, 2), shape, 1, 1), {}, "ShapeError", "kernel input_shape")
    yield Bad("kernel of three axes", (g, f(3, 3, 4), shape, 1, 1), {}, "ShapeError", "kernel")
    yield Bad("gradient of three axes", (g[0], k, shape, 1, 1), {}, "ShapeError", "output_grad")


INPUT_BACKWARD = Row(
    "conv2d_input_backward",
    input_backward_calls,
    input_backward_large,
    scale=terms("conv2d_input_backward"),
    rtol={"float32": 5e-6, "float64": 1e-13},
    flops=lambda call, output: 2 * call.args["output_grad"].size * int(np.prod(call.args["kernel"].shape[:3])),
    bad=input_backward_refusals,
)

ROWS = [conv(1), conv(2), conv(3), INPUT_BACKWARD]
