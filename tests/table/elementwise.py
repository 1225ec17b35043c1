"""Elementwise operations and activations."""

import numpy as np
from oracle.elementwise import FROM_OUTPUT, UNARY

from table.base import SIZES, Bad, Call, Gradient, Row, distinct, normal, relative, to_operand

# arithmetic of one element, in multiplications and additions: exponentials cost about fifteen
FLOPS = dict.fromkeys("exp expm1 log log1p sigmoid tanh erf silu softplus log_sigmoid elu selu celu tanhshrink".split(), 15)
FLOPS.update(gelu=25, mish=35, sqrt=4, reciprocal=4, div=4, softsign=4, hard_swish=4, glu=16)
# functions whose float32 error is a few ulp of the exact value everywhere
EXACT = set(
    "neg exp expm1 log log1p sqrt reciprocal abs square erf relu leaky_relu relu6 hardtanh "
    "sigmoid tanh gelu silu softplus".split()
)

# units in the last place, over the whole range
ULP = {name: {"float32": 2, "float64": 4} for name in "exp log expm1 log1p tanh sigmoid erf silu softplus".split()}
# far out, the rounding of x²/2 in the exponent shows
ULP["gelu"] = {"float32": 2, "float64": 2048}

OPTIONS = {
    "leaky_relu": [{"negative_slope": v} for v in (0.2, -0.3, 0.0, 1.5)],
    "elu": [{"alpha": v} for v in (0.3, 2.5)],
    "celu": [{"alpha": v} for v in (0.4, 2.0)],
    "hardtanh": [{"min": -0.3}, {"max": 0.2}, {"min": -2.0, "max": 2.5}, {"min": 0.5, "max": 0.75}],
    "hard_sigmoid": [{"alpha": 1 / 6}, {"beta": 0.25}, {"alpha": 0.7, "beta": 0.1}],
    "gelu": [{"approximate": "tanh"}, {"approximate": "none"}],
    "softplus": [{"beta": v} for v in (0.5, 3.0)],
}
DOMAIN = {
    "log": lambda x: np.abs(x) + 0.01,
    "sqrt": lambda x: np.abs(x) + 0.01,
    "log1p": lambda x: np.abs(x) - 0.9,
    "reciprocal": lambda x: x + np.copysign(0.2, x),
}


def off_grid(x):
    return np.round(x * 50) / 50 + 0.0071


# functions with kinks: their arguments keep away from every multiple of 1/50, so that finite differences tell the gradient
KINKED = set("abs relu leaky_relu elu selu celu relu6 hardtanh hard_sigmoid hard_swish".split())
SPECIAL = (0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 1e-20, -1e-20, 1e-3, -1e-3, 20.0, -20.0, 60.0, -60.0, 1e4, -1e4)
SHAPES = ((), (1, 1), (2, 3, 5), (3, 0, 2), (7, 33), (1025,), (2, 1, 3, 1, 4))


def gradient_scale(call, wanted):
    """To the exact value or the gradient that arrives, whose factor is of order one."""
    g = np.abs(call.args["output_grad"])
    return [np.abs(w) + (g if g.shape == np.shape(w) else g.max(initial=0.0)) for w in wanted]


def unary(name):
    prepare = off_grid if name in KINKED else DOMAIN.get(name, lambda x: x)

    def calls(rng):
        for n in SIZES:
            yield Call({"x": prepare(normal(rng, n, spread=3.0))})
        for shape in SHAPES:
            yield Call({"x": np.asarray(prepare(normal(rng, *shape)))})
        for options in OPTIONS.get(name, []):
            for n in (1, 37, 130):
                yield Call({"x": prepare(normal(rng, n, spread=3.0))}, options)
        if name not in (*DOMAIN, "exp", "expm1", "square"):
            for options in [{}, *OPTIONS.get(name, [])]:
                values = [v for v in SPECIAL if not (name == "hard_sigmoid" and abs(v) == 3)]  # at a kink rounding decides
                yield Call({"x": np.array(values)}, options, smooth=False)

    def large(rng):
        yield Call({"x": prepare(normal(rng, 400_003, spread=2.0))}, OPTIONS.get(name, [{}])[-1])

    takes = "output_grad output" if name in FROM_OUTPUT else "output_grad x"
    gradient = Gradient(name + "_backward", takes, ("x",), scale=gradient_scale, work=1.5)
    return Row(
        name,
        calls,
        large,
        (gradient,),
        differentiable=("x",),
        scale=relative if name in EXACT else to_operand("x"),
        rtol={"float32": 2e-6, "float64": 2e-12},
        ulp=ULP.get(name),
        flops=lambda call, output: output.size * FLOPS.get(name, 1),
        elementwise=True,
        inplace=("x",),
        bad=lambda: REFUSED.get(name, ()),
    )


f32 = np.linspace(-1, 1, 5, dtype=np.float32)
NAN, INF = float("nan"), float("inf")
REFUSED = {
    "gelu": [
        Bad(f"approximate {v!r}", (f32,), {"approximate": v}, "ArgumentError", "approximate") for v in ("fast", "erf", None, 1)
    ]
    + [Bad("approximate of the gradient", (f32, f32), {"approximate": "erf"}, "ArgumentError", "approximate", "gelu_backward")],
    "softplus": [Bad(f"beta {v!r}", (f32,), {"beta": v}, "ArgumentError", "beta") for v in (NAN, INF, 0.0, "1", None, True)]
    + [Bad("beta of the gradient", (f32, f32), {"beta": 0.0}, "ArgumentError", "beta", "softplus_backward")],
    "celu": [Bad(f"alpha {v!r}", (f32,), {"alpha": v}, "ArgumentError", "alpha") for v in (NAN, INF, 0.0, None)]
    + [Bad("alpha of the gradient", (f32, f32), {"alpha": 0.0}, "ArgumentError", "alpha", "celu_backward")],
    "elu": [Bad(f"alpha {v!r}", (f32,), {"alpha": v}, "ArgumentError", "alpha") for v in (NAN, None, "1", [1.0])],
    "leaky_relu": [
        Bad(f"negative_slope {v!r}", (f32,), {"negative_slope": v}, "ArgumentError", "negative_slope")
        for v in (NAN, None, "a", 1j)
    ],
    "hardtanh": [
        Bad("min above max", (f32,), {"min": 2.0, "max": 1.0}, "ArgumentError", "min max"),
        Bad("min NaN", (f32,), {"min": NAN}, "ArgumentError", "min"),
        Bad("max a string", (f32,), {"max": "1"}, "ArgumentError", "max"),
    ],
    "hard_sigmoid": [Bad(f"alpha {v!r}", (f32,), {"alpha": v}, "ArgumentError", "alpha") for v in (NAN, INF, None)],
}


# ---------------------------------------------------------------- pairs

PAIRS = "add sub mul div maximum minimum".split()
BROADCASTS = [
    ((), ()), ((3,), ()), ((), (2, 3)), ((1,), (5,)), ((5, 1), (1, 4)), ((2, 1, 3), (4, 1)), ((2, 3, 4), (4,)),
    ((2, 3, 4), (3, 1)),
    ((33,), (3, 33)), ((3, 1, 17), (1, 5, 1)), ((2, 2, 1, 1, 3), (2, 1, 5, 4, 1)), ((0, 3), (3,)), ((1, 3), (0, 1)), ((0,), (1,)),
    ((7, 5), (7, 1)), ((1, 1, 1), (2,)), ((4, 9, 16), (9, 16)), ((1, 65), (3, 65)), ((65, 1), (65, 3)),
    ((2, 3, 1, 5), (1, 3, 4, 1)),
    ((19, 1, 7), (1, 23, 1)), ((6, 1), (6, 300)), ((5, 521), (521,)), ((2, 3, 67), (3, 67)),
]  # fmt: skip


def second(name, y):
    """The right operand: no division by something small."""
    return y + np.copysign(0.3, y) if name == "div" else y


def pair_gradient_scale(call, wanted):
    """To a bound of one term (the factors are 1, an operand, or 1/b and a/b² with |b| > 0.3), times √(number of terms)."""
    g, a, b = (np.abs(call.args[k]).max(initial=0.0) for k in ("output_grad", "lhs", "rhs"))
    count = call.args["output_grad"].size
    return [np.abs(w) + g * (1 + a) * (1 + b) * (count / max(np.size(w), 1)) ** 0.5 for w in wanted]


def pair(name):
    def calls(rng):
        for n in SIZES:
            values = distinct(rng, 2 * n)
            yield Call({"lhs": values[:n], "rhs": second(name, values[n:])})
        for left, right in BROADCASTS:
            n = int(np.prod(left))
            values = distinct(rng, n + int(np.prod(right)))
            lhs, rhs = values[:n].reshape(left), values[n:].reshape(right)
            yield Call({"lhs": lhs, "rhs": second(name, rhs)})
            yield Call({"lhs": np.array(rhs), "rhs": second(name, np.array(lhs))})
        equal = np.array([1.0, 2.0, 2.0, -1.0, 0.5])
        yield Call({"lhs": equal, "rhs": np.array([1.0, 1.0, 2.0, -1.0, 2.0])}, smooth=False)

    def large(rng):
        yield Call({"lhs": normal(rng, 401, 1003), "rhs": second(name, normal(rng, 401, 1003))})
        yield Call({"lhs": normal(rng, 401, 1003), "rhs": second(name, normal(rng, 1003))})
        yield Call({"lhs": normal(rng, 1003), "rhs": second(name, normal(rng, 401, 1003))})
        yield Call({"lhs": normal(rng, 301, 1), "rhs": second(name, normal(rng, 150, 1, 7))})

    gradient = Gradient(name + "_backward", "output_grad lhs rhs", ("lhs", "rhs"), "PairGrads", scale=pair_gradient_scale, work=2)
    return Row(
        name,
        calls,
        large,
        (gradient,),
        differentiable=("lhs", "rhs"),
        scale=relative,
        rtol={"float32": 1e-6, "float64": 2e-14},
        flops=lambda call, output: output.size * FLOPS.get(name, 1),
        elementwise=True,
        inplace=("lhs", "rhs"),
        bad=lambda: [
            Bad("operands that do not broadcast", (f32, np.ones(4, np.float32)), {}, "ShapeError", "lhs rhs"),
            Bad(
                "operands that do not broadcast, two axes",
                (np.ones((2, 3), np.float32), np.ones((2, 1, 2), np.float32)),
                {},
                "ShapeError",
                "lhs rhs",
            ),
            Bad("two scalars", (1.0, 2.0), {}, "DTypeError", "lhs rhs"),
            Bad("a scalar string", (f32, "1"), {}, "DTypeError", "rhs"),
            Bad("a complex scalar", (f32, 1j), {}, "DTypeError ArgumentError", "rhs"),
        ],
    )


# ---------------------------------------------------------------- prelu, glu


def prelu_calls(rng):
    for n in SIZES:
        yield Call({"x": off_grid(normal(rng, n)), "weight": normal(rng, 1)})
    for shape in ((), (1, 1), (5, 7), (2, 3, 5), (2, 3, 4, 5), (0, 3), (2, 0, 3), (3, 33, 17), (2, 17, 1, 2, 1)):
        yield Call({"x": np.asarray(off_grid(normal(rng, *shape))), "weight": normal(rng, 1)})
        if len(shape) > 1:
            yield Call({"x": off_grid(normal(rng, *shape)), "weight": normal(rng, shape[1])})


def prelu_large(rng):
    yield Call({"x": normal(rng, 30, 3, 4001), "weight": normal(rng, 3)})
    yield Call({"x": normal(rng, 30, 12001), "weight": normal(rng, 1)})


def prelu_scale(call, wanted):
    g, x = np.abs(call.args["output_grad"]), np.abs(call.args["x"])
    terms = (g * x).sum() if np.size(wanted[1]) == 1 else (g * x).sum(tuple(a for a in range(x.ndim) if a != 1))
    return [np.abs(wanted[0]) + g, np.abs(wanted[1]) + terms]


PRELU = Row(
    "prelu",
    prelu_calls,
    prelu_large,
    (Gradient("prelu_backward", "output_grad x weight", ("x", "weight"), "PreluGrads", scale=prelu_scale, work=3),),
    differentiable=("x", "weight"),
    scale=relative,
    rtol={"float32": 1e-6, "float64": 1e-13},
    inplace=("x",),
    bad=lambda: [
        Bad("another channel count", (np.ones((2, 3, 4), np.float32), np.ones(4, np.float32)), {}, "ShapeError", "weight"),
        Bad("weight of two axes", (np.ones((2, 3), np.float32), np.ones((1, 3), np.float32)), {}, "ShapeError", "weight"),
        Bad("weight for the elements of one axis", (np.ones(5, np.float32), np.ones(5, np.float32)), {}, "ShapeError", "weight"),
        Bad("weight of no channel", (np.ones((2, 3), np.float32), np.ones(0, np.float32)), {}, "ShapeError", "weight"),
        Bad(
            "weight of another channel count in the gradient",
            (np.ones((2, 3), np.float32), np.ones((2, 3), np.float32), np.ones(2, np.float32)),
            {}, "ShapeError", "weight", "prelu_backward",
        ),
    ],
)  # fmt: skip


def glu_calls(rng):
    for n in SIZES:
        yield Call({"x": normal(rng, 2 * n)})
    for shape, axis in (
        ((2, 4), 0),
        ((3, 5, 6), -1),
        ((4, 5, 3), 0),
        ((3, 8, 5), 1),
        ((3, 0, 4), 2),
        ((0, 2), -1),
        ((2, 6, 1, 3), -3),
    ):
        yield Call({"x": normal(rng, *shape)}, {"axis": axis})


def glu_large(rng):
    yield Call({"x": normal(rng, 301, 2002)})
    yield Call({"x": normal(rng, 20, 30, 1003)}, {"axis": 1})


def glu_scale(call, wanted):
    """To the arriving gradient times the first half at its largest."""
    g, x = (np.abs(call.args[k]).max(initial=0.0) for k in ("output_grad", "x"))
    return [np.abs(w) + g * (1 + x) for w in wanted]


GLU = Row(
    "glu",
    glu_calls,
    glu_large,
    (Gradient("glu_backward", "output_grad x", ("x",), scale=glu_scale, work=2),),
    differentiable=("x",),
    scale=relative,
    rtol={"float32": 2e-6, "float64": 2e-12},
    flops=lambda call, output: output.size * FLOPS["glu"],
    bad=lambda: [
        Bad("odd axis", (np.ones((2, 3), np.float32),), {"axis": 1}, "ShapeError ArgumentError", "x axis"),
        Bad("axis out of range", (np.ones((2, 4), np.float32),), {"axis": 2}, "ArgumentError", "axis"),
        Bad("no axis", (np.ones((), np.float32),), {}, "ArgumentError ShapeError", "axis x"),
        Bad("axis a float", (np.ones((2, 4), np.float32),), {"axis": 1.0}, "ArgumentError", "axis"),
        Bad(
            "axis of the gradient",
            (np.ones((2, 2), np.float32), np.ones((2, 4), np.float32)),
            {"axis": -3},
            "ArgumentError",
            "axis",
            "glu_backward",
        ),
    ],
)

ROWS = [*(unary(name) for name in UNARY), *(pair(name) for name in PAIRS), PRELU, GLU]
