"""A linear layer and the activation of its result."""

import numpy as np
import oracle

from table.base import SIZES, Bad, Call, Gradient, Row, normal
from table.matmul import f

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")
# (rows, d_in, d_out): vectors times matrices, few terms, few rows, tiles, tiles of the transposed product, sums in several parts
SHAPES = [(1, 9, 1), (5, 130, 1), (33, 7, 17), (130, 64, 33), (3, 200, 70), (15, 100, 33), (40, 70, 65), (64, 100, 17), (17, 800, 40)]


def operands(rng, lead, d_in, d_out, activation, bias=True):
    """Sums of the size of 1; those of relu keep away from its kink."""
    x, weight, shift = normal(rng, *lead, d_in), normal(rng, d_in, d_out, spread=(d_in or 1) ** -0.5), normal(rng, d_out)
    if activation == "relu":
        weight, shift = weight / 8, np.where(shift < 0, -1.0, 1.0)
    return Call({"x": x, "weight": weight, "bias": shift if bias else None}, {"activation": activation}, smooth=activation != "relu" or bias)


def calls(rng):
    for i, n in enumerate(SIZES):
        yield operands(rng, (n,), 9, 17, ACTIVATIONS[i % 4])
    for rows, d_in, d_out in SHAPES:
        for activation in ACTIVATIONS:
            yield operands(rng, (rows,), d_in, d_out, activation, bias=activation != "silu")
    for i, lead in enumerate(((), (0,), (1,), (2, 3), (2, 0, 3), (2, 3, 4, 5))):
        yield operands(rng, lead, 7, 9, ACTIVATIONS[i % 4])
        yield operands(rng, lead, 7, 9, ACTIVATIONS[(i + 1) % 4], bias=False)
    yield operands(rng, (3,), 0, 4, "gelu")
    yield operands(rng, (3,), 4, 0, "gelu")


def large(rng):
    for i, (rows, d_in, d_out) in enumerate(((20_001, 9, 17), (300, 201, 130), (20, 40_001, 20), (5, 2001, 700), (3001, 900, 1))):
        yield operands(rng, (rows,), d_in, d_out, ACTIVATIONS[(i + 1) % 4])


def sums_of(call):
    """What the backward takes, where the operation does not return it."""
    a = call.args
    return np.asarray(oracle.linear(a["x"], a["weight"], a["bias"]), a["x"].dtype)


def forward_scale(call, wanted):
    """To the sum of the absolute terms; an activation's slope is at most 1.13."""
    a = {k: None if v is None else np.abs(v).astype(np.float64) for k, v in call.args.items()}
    terms = 1.13 * oracle.linear(a["x"], a["weight"], a["bias"])
    return [terms, terms][: len(wanted)]


def backward_scale(call, wanted):
    a = {k: np.abs(call.args[k]).astype(np.float64) for k in ("x", "weight", "output_grad")}
    terms = oracle.linear_backward(a["x"], a["weight"], 1.13 * a["output_grad"])
    return [None if w is None else t for w, t in zip(wanted, terms, strict=True)]


def gradients(**more):
    return (
        Gradient(
            "linear_activation_backward", "x weight bias sum output_grad", ("x", "weight", "bias"), "LinearActivationGrads",
            scale=backward_scale, work=2, **more,
        ),
    )  # fmt: skip


def refusals(op):
    x, weight, bias = f(2, 3), f(3, 5), f(5)
    yield Bad("an activation that is none", (x, weight, bias), {"activation": "gelo"}, "ArgumentError", "activation", op)
    yield Bad("an activation of another type", (x, weight, bias), {"activation": None}, "ArgumentError", "activation", op)
    for why, args, names in (
        ("feature counts that differ", (f(2, 4), weight, bias), "x weight"),
        ("weight of one axis", (x, f(3), None), "weight"),
        ("bias of another length", (x, weight, f(4)), "bias"),
        ("bias of two axes", (x, weight, f(1, 5)), "bias"),
        ("x without axes", (f(), weight, bias), "x"),
    ):
        yield Bad(why, args, {"activation": "relu"}, "ShapeError", names, op)


def gradient_refusals():
    op, x, weight, bias, y = "linear_activation_backward", f(2, 3), f(3, 5), f(5), f(2, 5)
    yield Bad("an activation that is none", (x, weight, bias, y, y), {"activation": "tanh"}, "ArgumentError", "activation", op)
    yield Bad("a flag that is none", (x, weight, bias, y, y), {"activation": "relu", "x_grad": 1}, "ArgumentError", "x_grad", op)
    for why, args, names in (
        ("sums of another shape", (x, weight, bias, f(5), y), "sum"),
        ("a gradient of another shape", (x, weight, bias, y, f(2, 1)), "output_grad"),
        ("bias of another length", (x, weight, f(4), y, y), "bias"),
        ("feature counts that differ", (f(2, 4), weight, bias, y, y), "x weight"),
    ):
        yield Bad(why, args, {"activation": "relu"}, "ShapeError", names, op)


COMMON = {
    "differentiable": ("x", "weight", "bias"),
    "optional": ("bias",),
    "scale": forward_scale,
    "rtol": {"float32": 2e-6, "float64": 1e-13},
    "flops": lambda call, output: 2 * output.size * call.args["x"].shape[-1],
}

ROWS = [
    Row(
        "linear_activation", calls, large, gradients(given={"sum": sums_of}),
        bad=lambda: (*refusals("linear_activation"), *gradient_refusals()), **COMMON,
    ),
    Row(
        "linear_activation_with_sum", calls, large, gradients(), results=("output", "sum"), result="LinearActivationWithSum",
        bad=lambda: refusals("linear_activation_with_sum"), **COMMON,
    ),
]  # fmt: skip
