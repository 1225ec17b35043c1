"""Deformable convolution."""

import numpy as np
import oracle
from oracle.conv import Taps

from table.base import CHANNELS, TAILS, Bad, Call, Gradient, Row, normal, parts

H31, H62 = 2**31, 2**62


def f(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def make(rng, batch, cin, cout, length, kernel, mask=True, bias=True, spread=1.5, **options):
    """A call with these sizes. Offsets of about `spread` cells keep away from whole cells, where the gradient jumps."""
    wg, og = options.get("weight_groups", 1), options.get("offset_groups", 1)
    out = Taps(length, kernel, options.get("stride", 1), options.get("padding", 0), options.get("dilation", 1)).out
    taps = kernel[0] * kernel[1]
    shape = (batch, 2 * og * taps, *out)
    args = {
        "x": normal(rng, batch, cin, *length),
        "offset": np.floor(normal(rng, *shape, spread=spread)) + rng.uniform(0.06, 0.94, shape),
        "weight": normal(rng, cout, cin // wg, *kernel),
        "mask": rng.uniform(0, 1.5, (batch, og * taps, *out)) if mask else None,
        "bias": normal(rng, cout) if bias else None,
    }
    return Call(args, options)


# (batch, Cin, Cout, length, kernel, options): every option off its default, and unlike on each axis
OPTIONS = [
    (2, 3, 4, (7, 9), (3, 2), {}),
    (2, 3, 4, (7, 9), (3, 2), {"mask": False}),
    (2, 3, 4, (7, 9), (3, 2), {"bias": False}),
    (2, 3, 4, (7, 9), (3, 2), {"mask": False, "bias": False}),
    (1, 1, 1, (1, 1), (1, 1), {}),
    (1, 1, 1, (1, 1), (1, 1), {"spread": 0.4}),
    (0, 3, 4, (7, 6), (3, 3), {}),
    (2, 3, 5, (9, 12), (3, 3), {"stride": (2, 3), "padding": (1, 2)}),
    (2, 3, 5, (9, 12), (2, 3), {"stride": (3, 1), "padding": ((0, 2), (1, 0)), "mask": False}),
    (2, 3, 5, (9, 12), (3, 2), {"dilation": (2, 3), "padding": [2, 1], "stride": (1, 2)}),
    (2, 3, 5, (8, 7), (4, 2), {"padding": "same"}),
    (2, 3, 5, (8, 7), (2, 3), {"padding": "valid", "stride": 2}),
    (2, 6, 4, (6, 7), (3, 3), {"weight_groups": 2, "stride": 2, "padding": 1}),
    (2, 6, 4, (6, 7), (3, 3), {"offset_groups": 3, "padding": 1, "dilation": 2}),
    (2, 12, 6, (6, 7), (3, 2), {"weight_groups": 2, "offset_groups": 3, "padding": ((1, 0), (2, 1))}),
    (2, 12, 9, (6, 7), (2, 3), {"weight_groups": 3, "offset_groups": 2, "dilation": (1, 2), "stride": (2, 1), "bias": False}),
    (1, 17, 17, (6, 5), (3, 3), {"weight_groups": 17, "padding": 1}),
    (2, 17, 34, (6, 5), (3, 3), {"weight_groups": 17, "padding": (2, 1), "stride": (1, 2)}),
    (1, 70, 70, (5, 6), (5, 3), {"weight_groups": 70, "offset_groups": 2, "padding": 1, "mask": False}),
    (1, 3, 27, (6, 5), (3, 3), {"weight_groups": 3, "padding": 1}),
    (1, 17, 4, (6, 5), (3, 3), {"offset_groups": 17, "padding": 1, "mask": False}),
    (1, 70, 33, (5, 6), (3, 3), {"padding": 1}),
    (1, 140, 3, (4, 5), (3, 3), {"padding": 1, "offset_groups": 2}),
    (1, 3, 270, (4, 5), (2, 2), {}),
    (1, 2, 3, (12, 13), (11, 11), {"padding": 5}),
    (1, 40, 3, (9, 11), (7, 9), {"padding": (3, 4)}),
    (1, 3, 4, (5, 6), (3, 3), {"padding": (9, 8), "stride": (5, 7)}),
    (1, 3, 4, (1, 12), (1, 5), {"padding": (0, 2)}),
    (1, 3, 4, (12, 1), (5, 1), {"padding": (2, 0), "stride": (2, 1)}),
    (1, 3, 4, (6, 5), (3, 3), {"padding": 1, "spread": 20.0}),
    (1, 2, 3, (0, 4), (2, 2), {"padding": 2}),
]  # fmt: skip


def calls(rng):
    for batch, cin, cout, length, kernel, options in OPTIONS:
        yield make(rng, batch, cin, cout, length, kernel, **options)
    for channels in CHANNELS:
        yield make(rng, 1, channels, 5, (4, 5), (3, 3), padding=1)
        yield make(rng, 1, 5, channels, (4, 5), (3, 3), padding=1)
    for width in TAILS:
        yield make(rng, 1, 3, 4, (3, width), (2, 3), padding=1)
    yield make(rng, 2, 0, 3, (4, 5), (3, 3))
    yield make(rng, 1, 3, 0, (4, 5), (3, 3))
    for options in ({}, {"stride": (2, 1), "padding": 2, "dilation": (1, 2)}):
        call = make(rng, 2, 4, 5, (7, 8), (3, 3), **options)
        yield Call({**call.args, "offset": np.zeros_like(call.args["offset"])}, call.options, smooth=False)
    for place in (-1.0, 1e30, np.inf):
        call = make(rng, 1, 3, 4, (5, 6), (3, 3), padding=1)
        offset = np.where(rng.uniform(size=call.args["offset"].shape) < 0.2, place, call.args["offset"])
        yield Call({**call.args, "offset": offset}, call.options, smooth=False)


def large(rng):
    yield make(rng, 5, 8, 16, (40, 41), (3, 3), padding=1)
    yield make(rng, 1, 33, 65, (29, 31), (3, 3), padding=1, offset_groups=3)
    yield make(rng, 1, 160, 40, (20, 21), (3, 3), padding=1, stride=(1, 2), weight_groups=2)
    yield make(rng, 3, 33, 33, (30, 41), (5, 5), padding=2, weight_groups=33)
    # offsets that reach over more of the image than scratch holds
    yield make(rng, 1, 16, 8, (60, 700), (3, 3), padding=1, stride=(3, 5), spread=20.0)


def flops(call, output):
    w = call.args["weight"]
    return 2 * output.size * (w.size // w.shape[0] if w.size else 0)


def absolute(call):
    """The call with every term positive."""
    return call.map(lambda name, v: v.astype(np.float64) if name == "offset" else np.abs(v).astype(np.float64))


def output_scale(call, wanted):
    call = absolute(call)
    return parts(oracle.deform_conv2d(*call.args.values(), **call.options))


def gradient_scale(call, wanted):
    """To the sum of the absolute terms; for offset_grad those of the four cells, each at the largest that x holds."""
    call = absolute(call)
    scales = [0.0 if s is None else s for s in oracle.deform_conv2d_backward(*call.args.values(), **call.options)]
    args = dict(call.args)
    shape, biggest = args["offset"].shape, args["x"].max(initial=0.0)
    high = 1.0 if args["mask"] is None else args["mask"].max(initial=0.0)
    args["x"] = np.full(args["x"].shape, biggest)
    args["mask"] = np.ones((shape[0], shape[1] // 2, *shape[2:]))
    sizes = oracle.deform_conv2d_backward(*args.values(), **call.options)[3]
    scales[1] = 4 * high * np.repeat(sizes.max(axis=(2, 3), keepdims=True, initial=0.0), 2, axis=1) * np.ones(shape)
    return scales


def refusals():
    x, w, off, b = f(1, 4, 5, 6), f(2, 4, 3, 3), f(1, 18, 3, 4), f(2)
    m, g = f(1, 9, 3, 4), f(1, 2, 3, 4)
    back = "deform_conv2d_backward"
    both = "ArgumentError ShapeError"

    def bad(why, args, options, errors, names, method=""):
        return Bad(why, args, options, errors, names, method)

    yield bad("x of another rank", (x[0], off, w), {}, "ShapeError", "x")
    yield bad("offset of another rank", (x, off[0], w), {}, "ShapeError", "offset")
    yield bad("weight of another rank", (x, off, w[0]), {}, "ShapeError", "weight")
    yield bad("mask of another rank", (x, off, w, m[0]), {}, "ShapeError", "mask")
    yield bad("bias of two axes", (x, off, w, m, b[None]), {}, "ShapeError", "bias")
    yield bad("channel counts that differ", (x, off, f(2, 3, 3, 3)), {}, both, "x weight weight_groups")
    yield bad("offset for half the taps", (x, f(1, 9, 3, 4), w), {}, "ShapeError", "offset")
    yield bad("offset for another batch", (x, f(2, 18, 3, 4), w), {}, "ShapeError", "offset")
    yield bad("offset of another size", (x, f(1, 18, 4, 3), w), {}, "ShapeError", "offset")
    yield bad("offset of fewer groups", (x, off, w), {"offset_groups": 2}, "ShapeError", "offset")
    yield bad("mask with two values a tap", (x, off, w, f(1, 18, 3, 4)), {}, "ShapeError", "mask")
    yield bad("bias of another length", (x, off, w, m, f(3)), {}, "ShapeError", "bias")
    yield bad("weight_groups that do not divide the outputs", (x, off, f(3, 2, 3, 3)), {"weight_groups": 2}, both, "weight")
    yield bad("offset_groups that do not divide x", (x, f(1, 54, 3, 4), w), {"offset_groups": 3}, both, "offset_groups x")
    yield bad("kernel larger than the input", (x, off, f(2, 4, 9, 3)), {}, both, "x weight kernel padding")
    yield bad("a kernel without cells", (x, off, f(2, 4, 0, 3)), {}, both, "weight")
    yield bad("an axis too long", (x, off, w), {"padding": 2**24}, both, "x padding")
    for v in (0, -1, H31, H62, -H62, 1.0, "2", None, True):
        yield bad(f"weight_groups {v!r}", (x, off, w), {"weight_groups": v}, both, "weight_groups weight")
        yield bad(f"offset_groups {v!r}", (x, off, w), {"offset_groups": v}, both, "offset_groups x")
        yield bad(f"offset_groups {v!r}", (x, off, w, m, b, g), {"offset_groups": v}, both, "offset_groups x", back)
    for v in [0, -1, -H62, 1.5, "2", None, True, (1, 1, 1), (), (0, 1), [1.0, 1.0]]:
        yield bad(f"stride {v!r}", (x, off, w), {"stride": v}, "ArgumentError", "stride")
        yield bad(f"dilation {v!r}", (x, off, w), {"dilation": v}, "ArgumentError", "dilation")
        yield bad(f"stride {v!r}", (x, off, w, None, None, g), {"stride": v}, "ArgumentError", "stride", back)
    for v in (H31, H62, 2**64):
        yield bad(f"dilation {v}", (x, off, w), {"dilation": v}, both, "dilation weight x kernel")
        yield bad(f"padding {v * 2**31}", (x, off, w), {"padding": v * 2**31}, both, "padding")
    for v in (-1, ((0, -1), (0, 0)), ((1, 2, 3), (1, 2, 3)), 1.0, "full", None, True, (1, 1, 1)):
        yield bad(f"padding {v!r}", (x, off, w), {"padding": v}, "ArgumentError", "padding")
        yield bad(f"padding {v!r}", (x, off, w, m, b, g), {"padding": v}, "ArgumentError", "padding", back)


ROWS = [
    Row(
        "deform_conv2d",
        calls,
        large,
        (
            Gradient(
                "deform_conv2d_backward", "x offset weight mask bias output_grad", ("x", "offset", "weight", "mask", "bias"),
                "DeformConv2dGrads", scale=gradient_scale, work=2,
            ),
        ),
        differentiable=("x", "offset", "weight", "mask", "bias"),
        optional=("mask", "bias"),
        scale=output_scale,
        rtol={"float32": 5e-6, "float64": 1e-13},
        flops=flops,
        bad=refusals,
    )
]  # fmt: skip
