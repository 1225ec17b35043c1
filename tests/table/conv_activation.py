"""A convolution and the activation of its result."""

from dataclasses import replace

import numpy as np
import oracle

from table.base import Bad, Gradient, Row, terms
from table.conv import LARGE, OPTIONS, f, flops, make
from table.linear_activation import ACTIVATIONS


def activated(call, i):
    """The i-th call with an activation, and sums of the size of 1; of relu, some are at its kink."""
    activation, weight = ACTIVATIONS[i % 4], call.args["weight"]
    cells = weight.size // max(1, weight.shape[-1 if call.options.get("layout") == "NHWC" else 0])
    args = {**call.args, "weight": weight * max(1, cells) ** -0.5}
    args.setdefault("bias", None)
    return replace(call, args=args, options={**call.options, "activation": activation}, smooth=activation != "relu")


def drawn(rng, n, sizes):
    for batch, cin, cout, length, kernel, options in sizes:
        options = dict(options)
        shape = batch, cin, cout, length, kernel, options.pop("bias", True), options.pop("groups", 1)
        yield make(rng, *shape, **options)
        if n == 2:
            yield make(rng, *shape, layout="NHWC", **options)


def calls_of(n):
    def calls(rng):
        for i, call in enumerate((*drawn(rng, n, OPTIONS[n]), make(rng, 2, 0, 3, (4,) * n, (3,) * n, padding=1))):
            yield activated(call, i)

    return calls


def large_of(n):
    return lambda rng: (activated(call, i + 1) for i, call in enumerate(drawn(rng, n, LARGE[n])))


def operation(n, call):
    """(the convolution, its operands, its options) of a call."""
    return f"conv{n}d", {k: call.args[k] for k in ("x", "weight", "bias")}, {k: v for k, v in call.options.items() if k != "activation"}


def family(n):
    op = f"conv{n}d_activation"

    def sums_of(call):
        """What the backward takes, where the operation does not return it."""
        plain, args, options = operation(n, call)
        return np.asarray(getattr(oracle, plain)(**args, **options), args["x"].dtype)

    def forward_scale(call, wanted):
        """To the sum of the absolute terms; an activation's slope is at most 1.13."""
        plain, args, options = operation(n, call)
        scale = 1.13 * terms(plain)(replace(call, args=args, options=options), wanted)[0]
        return [scale] * len(wanted)

    def backward_scale(call, wanted):
        plain, args, options = operation(n, call)
        bias = args.pop("bias") is not None
        args["output_grad"] = 1.13 * call.args["output_grad"]
        found = terms(f"{plain}_backward")(replace(call, args=args, options={**options, "bias": bias}), wanted)
        return [None if w is None else s for w, s in zip(wanted, found, strict=True)]

    def gradients(**more):
        return (
            Gradient(
                f"{op}_backward", "x weight bias sum output_grad", ("x", "weight", "bias"), f"Conv{n}dActivationGrads",
                scale=backward_scale, work=2, **more,
            ),
        )  # fmt: skip

    common = {
        "differentiable": ("x", "weight", "bias"),
        "optional": ("bias",),
        "scale": forward_scale,
        "rtol": {"float32": 5e-6, "float64": 1e-13},
        "flops": flops,
    }
    return [
        Row(
            op, calls_of(n), large_of(n), gradients(given={"sum": sums_of}),
            bad=lambda: (*refusals(n, op), *gradient_refusals(n, f"{op}_backward")), **common,
        ),
        Row(
            f"{op}_with_sum", calls_of(n), large_of(n), gradients(), results=("output", "sum"), result=f"Conv{n}dActivationWithSum",
            bad=lambda: refusals(n, f"{op}_with_sum"), **common,
        ),
    ]  # fmt: skip


def arrays(n):
    length, kernel = (6, 5, 4)[:n], (3, 2, 3)[:n]
    out = tuple(a - k + 1 for a, k in zip(length, kernel, strict=True))
    return length, kernel, f(2, 4, *length), f(4, 2, *kernel), f(4), f(2, 4, *out)


def refusals(n, op):
    length, kernel, x, w, b, _ = arrays(n)
    for v in ("gelo", "", None, 1):
        yield Bad(f"activation {v!r}", (x, w, b), {"activation": v, "groups": 2}, "ArgumentError", "activation", op)
    for why, args, errors, names in (
        ("x of another rank", (f(4, *length), w, b), "ShapeError", "x"),
        ("weight of another rank", (x, f(4, 2), b), "ShapeError", "weight"),
        ("channel counts that differ", (x, f(4, 3, *kernel), b), "ArgumentError ShapeError", "x weight groups"),
        ("bias of another length", (x, w, f(3)), "ShapeError", "bias"),
        ("bias of two axes", (x, w, f(1, 4)), "ShapeError", "bias"),
    ):
        yield Bad(why, args, {"groups": 2}, errors, names, op)
    for option in ("stride", "dilation", "groups", "padding"):
        for v in (-1, 1.5, "2", None, True):
            yield Bad(f"{option} {v!r}", (x, w, b), {"groups": 2, option: v}, "ArgumentError", option, op)
    if n == 2:
        yield Bad("layout 'CHWN'", (x, w, b), {"groups": 2, "layout": "CHWN"}, "ArgumentError", "layout", op)


def gradient_refusals(n, op):
    _, _, x, w, b, y = arrays(n)
    yield Bad("an activation that is none", (x, w, b, y, y), {"activation": "tanh", "groups": 2}, "ArgumentError", "activation", op)
    yield Bad("a flag that is none", (x, w, b, y, y), {"x_grad": 1, "groups": 2}, "ArgumentError", "x_grad", op)
    for why, args, names in (
        ("sums of another shape", (x, w, b, y[:, :, 1:], y), "sum"),
        ("sums of another rank", (x, w, b, f(4), y), "sum"),
        ("a gradient of another shape", (x, w, b, y, y[:1]), "output_grad"),
        ("bias of another length", (x, w, f(3), y, y), "bias"),
    ):
        yield Bad(why, args, {"groups": 2}, "ShapeError", names, op)
    for option in ("stride", "dilation", "groups", "padding"):
        yield Bad(f"{option} '2'", (x, w, b, y, y), {"groups": 2, option: "2"}, "ArgumentError", option, op)


ROWS = [row for n in (1, 2, 3) for row in family(n)]
