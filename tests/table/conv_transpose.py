"""Transposed convolutions of one, two and three axes."""

import numpy as np

from table.base import CHANNELS, TAILS, Bad, Gradient, Row, normal, terms
from table.conv import H31, H62, f, has_bias, with_bias


def make(rng, batch, cin, cout, length, kernel, bias=True, groups=1, **options):
    x, w = normal(rng, batch, cin, *length), normal(rng, cin, cout // groups, *kernel)
    return with_bias(rng, x, w, cout, bias, groups, options)


# (batch, Cin, Cout, length, kernel, options) by number of axes: every option off its default, and unlike on each axis
OPTIONS = {
    1: [
        (2, 3, 4, (11,), (3,), {}),
        (1, 1, 1, (1,), (1,), {}),
        (0, 3, 4, (7,), (3,), {}),
        (2, 3, 4, (5,), (4,), {"stride": 4}),
        (2, 3, 5, (12,), (3,), {"stride": 2, "padding": 1, "output_padding": 1}),
        (2, 3, 5, (12,), (3,), {"stride": 5}),
        (2, 3, 5, (6,), (2,), {"stride": 3, "output_padding": 7, "dilation": 2}),
        (2, 3, 5, (12,), (3,), {"padding": ((0, 3),), "output_padding": 2}),
        (2, 3, 5, (12,), (3,), {"padding": ((4, 0),), "dilation": 2, "stride": 3}),
        (1, 3, 4, (2,), (2,), {"padding": ((0, 5),), "output_padding": 9}),
        (1, 3, 4, (2,), (2,), {"padding": ((5, 0),), "output_padding": 9}),
        (1, 2, 3, (1,), (3,), {"stride": 7, "dilation": 5}),
        (2, 6, 4, (9,), (3,), {"groups": 2, "padding": [1]}),
        (2, 6, 6, (9,), (3,), {"groups": 6, "stride": 2}),
        (2, 5, 10, (9,), (5,), {"groups": 5, "padding": 4, "dilation": 2}),
        (2, 10, 5, (9,), (5,), {"groups": 5, "stride": 4, "dilation": 6}),
        (3, 33, 16, (40,), (3,), {"padding": 1, "bias": False}),
        (2, 3, 4, (9,), (3,), {"stride": np.int64(2), "dilation": (np.int32(2),), "output_padding": (np.int64(1),)}),
        (1, 3, 4, (6,), (7,), {"stride": 2, "padding": 3}),
    ],
    2: [
        (2, 3, 4, (7, 9), (3, 2), {}),
        (1, 1, 1, (1, 1), (1, 1), {}),
        (0, 3, 4, (7, 6), (3, 3), {}),
        (2, 3, 5, (5, 6), (3, 3), {"stride": (2, 3), "padding": (1, 2), "output_padding": (1, 0)}),
        (2, 3, 5, (5, 6), (2, 3), {"stride": (3, 1), "padding": ((0, 2), (1, 0)), "output_padding": (5, 2)}),
        (2, 3, 5, (5, 6), (3, 2), {"dilation": (2, 3), "padding": [2, 1], "stride": (4, 2), "output_padding": [0, 3]}),
        (2, 6, 4, (6, 7), (3, 3), {"groups": 2, "stride": 2, "padding": 1, "output_padding": 1}),
        (2, 6, 9, (6, 7), (2, 3), {"groups": 3, "dilation": 2, "padding": (2, 3)}),
        (2, 17, 17, (9, 8), (3, 3), {"groups": 17, "padding": 1}),
        (2, 8, 16, (9, 10), (3, 5), {"groups": 8, "stride": (2, 1), "padding": (1, 2)}),
        (2, 14, 7, (5, 6), (3, 3), {"groups": 7, "dilation": (1, 2), "padding": 2, "bias": False}),
        (2, 16, 24, (5, 6), (1, 1), {}),
        (2, 16, 24, (5, 6), (1, 1), {"stride": 2, "output_padding": (1, 4)}),
        (2, 16, 24, (5, 6), (2, 2), {"stride": 2}),
        (2, 24, 16, (5, 18), (4, 4), {"stride": 2, "padding": 1}),
        (1, 8, 3, (9, 10), (7, 7), {"stride": 2, "padding": 3}),
        (1, 17, 16, (13, 14), (3, 3), {"padding": 1}),
        (1, 9, 8, (20, 33), (3, 3), {}),
        (1, 3, 4, (1, 12), (1, 5), {"padding": (0, 2)}),
        (1, 3, 4, (12, 1), (5, 1), {"padding": (2, 0), "stride": (2, 6)}),
        (2, 4, 3, (6, 70), (3, 3), {"padding": 1, "stride": (1, 2)}),
        (1, 25, 24, (9, 9), (5, 5), {"padding": 2}),
        (1, 5, 64, (4, 5), (3, 3), {"padding": 1, "stride": 2}),
        (1, 64, 5, (7, 9), (3, 3), {"padding": ((1, 0), (0, 1))}),
        (1, 130, 70, (3, 4), (2, 2), {"stride": 2}),
    ],
    3: [
        (2, 3, 4, (4, 5, 6), (2, 3, 2), {}),
        (1, 1, 1, (1, 1, 1), (1, 1, 1), {}),
        (0, 3, 4, (4, 5, 6), (3, 3, 3), {}),
        (2, 3, 4, (3, 4, 5), (3, 2, 3), {"stride": (1, 2, 3), "padding": (1, 0, 2), "output_padding": (0, 1, 3)}),
        (1, 3, 4, (3, 2, 4), (2, 3, 2), {"dilation": (2, 1, 3), "padding": ((0, 1), (2, 1), (1, 2)), "stride": (2, 1, 1)}),
        (2, 4, 6, (3, 3, 4), (3, 3, 3), {"groups": 2, "padding": 1, "stride": 2, "output_padding": 1}),
        (1, 9, 9, (4, 5, 6), (3, 3, 3), {"groups": 9, "padding": 1}),
        (1, 10, 5, (4, 5, 6), (2, 3, 1), {"groups": 5, "dilation": (1, 2, 1), "bias": False}),
        (1, 17, 16, (3, 4, 5), (1, 1, 1), {"stride": (2, 3, 1), "output_padding": (0, 4, 1)}),
        (1, 9, 8, (5, 6, 17), (3, 3, 3), {"padding": 1}),
        (1, 2, 2, (1, 1, 9), (1, 1, 3), {"padding": (0, 0, 1)}),
        (1, 33, 3, (2, 3, 3), (2, 2, 2), {"stride": 2}),
        (1, 3, 33, (2, 2, 3), (3, 3, 3), {"padding": 2, "stride": 3, "dilation": 2}),
    ],
}  # fmt: skip


def unpack(rng, rows):
    for batch, cin, cout, length, kernel, options in rows:
        options = dict(options)
        groups, bias = options.pop("groups", 1), options.pop("bias", True)
        yield make(rng, batch, cin, cout, length, kernel, bias, groups, **options)


def calls_of(n):
    def calls(rng):
        yield from unpack(rng, OPTIONS[n])
        small, kernel = {1: ((7,), (3,)), 2: ((3, 4), (3, 2)), 3: ((2, 2, 3), (2, 2, 3))}[n]
        for channels in CHANNELS:
            yield make(rng, 1, channels, 5, small, kernel, padding=1)
            yield make(rng, 1, 5, channels, small, kernel, stride=2, padding=1)
            yield make(rng, 1, channels, channels, small, kernel, groups=channels, stride=2, output_padding=1)
        for width in TAILS:
            length = (*small[:-1], width)
            yield make(rng, 1, 4, 3, length, kernel, stride=2)
            if width % 3 == 0:
                yield make(rng, 1, 4, 3, length, kernel, padding=1)
        for size in range(1, 8):
            yield make(rng, 1, 3, 2, small, (*kernel[:-1], size), stride=(size + 1) // 2)
        yield make(rng, 2, 0, 3, small, kernel, stride=2)
        yield make(rng, 2, 3, 0, small, kernel, stride=2, bias=False)

    return calls


LARGE = {
    1: [
        (1, 1, 1, (200_001,), (5,), {"stride": 2}),
        (4, 16, 8, (4001,), (3,), {"padding": 1}),
        (2, 33, 33, (9001,), (5,), {"groups": 33, "stride": 2}),
    ],
    2: [
        (5, 8, 3, (70, 61), (3, 3), {"padding": 1}),
        (2, 33, 32, (29, 31), (2, 2), {"stride": 2}),
        (2, 64, 48, (28, 29), (4, 4), {"stride": 2, "padding": 1}),
        (2, 33, 33, (60, 61), (3, 3), {"groups": 33, "stride": 2, "padding": 1, "output_padding": 1}),
        (2, 24, 32, (41, 40), (3, 5), {"stride": 2, "padding": (1, 2), "groups": 2}),
        (3, 16, 3, (32, 33), (7, 7), {"stride": 2, "padding": 3}),
        (2, 32, 16, (60, 61), (1, 1), {"stride": 3}),
    ],
    3: [
        (2, 8, 16, (8, 12, 17), (3, 3, 3), {"padding": 1, "stride": 2}),
        (1, 16, 16, (9, 8, 9), (3, 3, 3), {"groups": 16, "stride": (1, 2, 2)}),
    ],
}


def flops(call, output):
    """Two for each product of a cell of x and a tap, those that padding cuts off included; what is only bias is free."""
    x, w = call.args["x"], call.args["weight"]
    return 2 * x.size * (w.size // w.shape[0] if w.size else 0) + output.size


def refusals(n):
    op = f"conv_transpose{n}d"
    length, kernel = (6, 5, 4)[:n], (3, 2, 3)[:n]
    x, w, b = f(2, 4, *length), f(4, 3, *kernel), f(6)
    g2 = {"groups": 2}
    out = tuple(a + k - 1 for a, k in zip(length, kernel, strict=True))
    g = f(2, 6, *out)

    def bad(why, args, options, errors, names, method=""):
        return Bad(why, args, options, errors, names, method)

    both = "ArgumentError ShapeError"
    yield bad("x of another rank", (f(4, *length), w, b), g2, "ShapeError", "x")
    yield bad("weight of another rank", (x, f(4, 3), b), g2, "ShapeError", "weight")
    yield bad("channel counts that differ", (x, f(5, 3, *kernel)), {}, both, "x weight")
    yield bad("bias of another length", (x, w, f(3)), g2, "ShapeError", "bias")
    yield bad("bias of two axes", (x, w, f(1, 6)), g2, "ShapeError", "bias")
    yield bad("groups that do not divide the inputs", (x, w), {"groups": 3}, both, "groups weight x")
    yield bad("a kernel without cells", (x, f(4, 3, *kernel[:-1], 0)), g2, both, "weight")
    for v in (0, -1, H31, H62, -H62, 1.0, "2", None, True):
        yield bad(f"groups {v!r}", (x, w), {"groups": v}, both, "groups weight")
    wrong = [0, -1, -H62, 1.5, "2", None, True, (1,) * (n + 1), (), (0,) + (1,) * (n - 1), [1.0] * n, H62]
    for v in wrong:
        for option in ("stride", "dilation", "output_padding"):
            if option == "output_padding" and (v == 0 or v == (0,) + (1,) * (n - 1)) and v is not None:
                continue
            yield bad(f"{option} {v!r}", (x, w), {**g2, option: v}, "ArgumentError", option)
            yield bad(f"{option} {v!r}", (w, g), {**g2, option: v}, "ArgumentError", option, op + "_x_backward")
            yield bad(f"{option} {v!r}", (x, w, g), {**g2, option: v}, "ArgumentError", option, op + "_weight_backward")
            yield bad(f"{option} {v!r}", (x, w, g), {**g2, option: v}, "ArgumentError", option, op + "_backward")
    for option in ("stride", "dilation", "output_padding"):
        for v in (H62 // 4, H62 - 1, 2**63):
            yield bad(f"{option} {v}", (x, w), {**g2, option: v}, both, option)
        yield bad(f"{option} {H62 // 4}", (x, w, g), {**g2, option: H62 // 4}, both, option, op + "_weight_backward")
        yield bad(f"{option} {H62 // 4}", (w, g), {**g2, option: H62 // 4}, both, option + " output_grad", op + "_x_backward")
    for v in (-1, ((0, -1),) * n, ((1, 2, 3),) * n, 1.0, "full", "same", "valid", None, True, (1,) * (n + 1), ((0, 1.0),) * n, H62):
        yield bad(f"padding {v!r}", (x, w), {**g2, "padding": v}, "ArgumentError", "padding")
        yield bad(f"padding {v!r}", (w, g), {**g2, "padding": v}, "ArgumentError", "padding", op + "_x_backward")
        yield bad(f"padding {v!r}", (x, w, g), {**g2, "padding": v}, "ArgumentError", "padding", op + "_backward")
    for v in (50, ((H62 // 2, 0),) * n, H62 - 1):
        yield bad(f"padding {v!r} that leaves nothing", (x, w), {**g2, "padding": v}, both, "padding")
    yield bad("x without cells", (f(2, 4, *length[:-1], 0), f(4, 3, *([1] * n))), {**g2, "stride": 2}, both, "x padding")
    yield bad("groups 3", (x, w, g), {"groups": 3}, both, "groups x weight", op + "_weight_backward")
    yield bad("groups 4", (w, g), {"groups": 4}, both, "groups output_grad weight", op + "_x_backward")
    yield bad("gradient of another channel count", (w, f(2, 5, *out)), g2, "ShapeError", "output_grad", op + "_x_backward")
    g = f(2, 6, *[k + 1 for k in kernel])
    yield bad("gradient that no x gives", (w, g), {**g2, "stride": 3}, "ShapeError", "output_grad", op + "_x_backward")
    yield bad("gradient shorter than the kernel", (w, f(2, 6, *([1] * n))), g2, "ShapeError", "output_grad", op + "_x_backward")
    yield bad("bias a number", (x, w, f(2, 6, *out)), {**g2, "bias": 1}, "ArgumentError", "bias", op + "_backward")
    yield bad("gradient of another channel count", (x, b, f(2, 5, *out)), {}, "ShapeError", "output_grad bias", op + "_bias_backward")
    yield bad("gradient of another batch", (x, b, f(3, 6, *out)), {}, "ShapeError", "output_grad x", op + "_bias_backward")


def conv_transpose(n):
    op = f"conv_transpose{n}d"
    shared = "x weight output_grad"
    gradients = (
        Gradient(op + "_x_backward", "weight output_grad", ("x",), scale=terms(op + "_x_backward"), free="longer"),
        Gradient(op + "_weight_backward", shared, ("weight",), scale=terms(op + "_weight_backward")),
        Gradient(
            op + "_bias_backward", "x bias output_grad", ("bias",), when=has_bias,
            without=("stride", "padding", "output_padding", "dilation", "groups"),
            scale=terms(op + "_bias_backward"), work=0, free="last",
        ),
        Gradient(
            op + "_backward", shared, ("x", "weight", "bias"), f"ConvTranspose{n}dGrads",
            more=lambda call: {} if has_bias(call) else {"bias": False},
            scale=lambda call, wanted: [0.0 if s is None else s for s in terms(op + "_backward")(call, wanted)], work=2,
        ),
    )  # fmt: skip
    return Row(
        op,
        calls_of(n),
        lambda rng: unpack(rng, LARGE[n]),
        gradients,
        differentiable=("x", "weight", "bias"),
        optional=("bias",),
        scale=terms(op),
        rtol={"float32": 5e-6, "float64": 1e-13},
        flops=flops,
        bad=lambda: refusals(n),
    )


ROWS = [conv_transpose(1), conv_transpose(2), conv_transpose(3)]
