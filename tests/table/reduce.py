"""Reductions, softmax and losses."""

import numpy as np

from table.base import SIZES, Bad, Call, Gradient, Row, distinct, largest, normal, terms, ties

AXES = [
    ((5,), {}), ((5,), {"axis": 0, "keepdims": True}), ((), {}), ((3, 4), {"axis": 0}), ((3, 4), {"axis": -1}),
    ((3, 4), {"axis": ()}),
    ((3, 4), {"axis": (0, 1), "keepdims": True}), ((2, 3, 5), {"axis": 1}), ((2, 3, 5), {"axis": (0, 2)}),
    ((2, 3, 5), {"axis": (-1, 0), "keepdims": True}),
    ((4, 5, 3, 7), {"axis": (1, 2)}), ((4, 5, 3, 7), {"axis": (0, 3), "keepdims": True}), ((2, 3, 4, 5), {"axis": (1, 3)}),
    ((1, 1, 7), {"axis": 2}), ((7, 1, 1), {"axis": 0}), ((17, 33), {"axis": 1}), ((17, 33), {"axis": 0}),
    ((3, 130), {"axis": 1}), ((130, 3), {"axis": 0}),
    ((3, 65, 9), {"axis": 1}), ((5, 1000), {"axis": 1}), ((1000, 5), {"axis": 0}), ((2, 3, 4), {"axis": [0, 1]}),
    ((6, 2, 5), {"axis": (np.int64(2),)}),
]  # fmt: skip
EMPTY = [((0,), {}), ((0, 3), {"axis": 0}), ((3, 0), {"axis": 1}), ((2, 0, 3), {"axis": (0, 1), "keepdims": True})]
KEPT_EMPTY = [((0, 3), {"axis": 1}), ((3, 0), {"axis": 0, "keepdims": True}), ((0, 4, 2), {"axis": (1, 2)})]


def data_calls(rng, make, empty, smooth=True):
    for n in SIZES:
        if n or empty:
            yield Call({"x": make(rng, n)}, smooth=smooth)
            yield Call({"x": make(rng, 3, n)}, {"axis": 1}, smooth)
            yield Call({"x": make(rng, n, 3)}, {"axis": 0}, smooth)
    for shape, options in AXES + (EMPTY if empty else []) + KEPT_EMPTY:
        yield Call(
            {"x": np.asarray(make(rng, *shape))}, {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}, smooth
        )


def reduction_large(rng):
    yield Call({"x": normal(rng, 700_003)})
    yield Call({"x": normal(rng, 200_001, 3)}, {"axis": 0})
    yield Call({"x": normal(rng, 3, 200_001)}, {"axis": 1})
    yield Call({"x": normal(rng, 7, 20_001, 5)}, {"axis": 1, "keepdims": True})
    yield Call({"x": normal(rng, 500, 1001)}, {"axis": 1})
    yield Call({"x": normal(rng, 30, 5, 40, 101)}, {"axis": (0, 2)})


x23 = np.arange(6, dtype=np.float32).reshape(2, 3)
H31, H62 = 2**31, 2**62


def axis_refusals(op=""):
    for axis in (2, -3, H31, 2**32, H62, (0, 2)):
        yield Bad(f"axis {axis}", (x23,), {"axis": axis}, "ArgumentError", "axis", op)
    for axis in ((1, -1), (0, 0), 1.0, "a", True, (0.0,)):
        yield Bad(f"axis {axis!r}", (x23,), {"axis": axis}, "ArgumentError", "axis", op)
    yield Bad("keepdims a number", (x23,), {"axis": 0, "keepdims": 2}, "ArgumentError", "keepdims", op)


def gradient_of_shape_refusals(name):
    one = np.ones(3, np.float32)
    yield Bad("negative length", (one, (2, -3)), {"axis": 0}, "ArgumentError ShapeError", "original_shape", name)
    yield Bad("a shape of floats", (one, (2.0, 3)), {"axis": 0}, "ArgumentError", "original_shape", name)
    yield Bad("no shape", (one, "23"), {"axis": 0}, "ArgumentError", "original_shape", name)
    yield Bad("axis out of range", (one, (2, 3)), {"axis": 5}, "ArgumentError", "axis", name)
    yield Bad("another shape", (one, (2, 4)), {"axis": 0}, "ShapeError", "output_grad original_shape", name)
    yield Bad("keepdims of another shape", (one, (2, 3)), {"axis": 0, "keepdims": True}, "ShapeError", "output_grad", name)


def reduction(name, make=normal, empty=False, from_shape=False, scale=None):
    picks = name in ("reduce_max", "reduce_min")

    def calls(rng):
        yield from data_calls(rng, distinct if picks else make, empty)
        if picks:
            yield from data_calls(rng, ties, empty, smooth=False)

    given = {"original_shape": lambda call: call.args["x"].shape} if from_shape else {}
    gradient = Gradient(
        name + "_backward",
        "output_grad original_shape" if from_shape else "output_grad x",
        ("x",),
        given=given,
        scale=lambda call, wanted: [
            np.abs(w) + np.abs(call.args["output_grad"]).max(initial=0.0) * (not from_shape) for w in wanted
        ],
    )
    refusals = list(axis_refusals())
    if from_shape:
        refusals += gradient_of_shape_refusals(name + "_backward")
    if picks:
        refusals += [
            Bad("no element", (np.zeros((2, 0), np.float32),), {"axis": 1}, "ArgumentError", "x axis"),
            Bad("no element at all", (np.zeros((0,), np.float32),), {}, "ArgumentError", "x axis"),
        ]
    return Row(
        name,
        calls,
        reduction_large,
        (gradient,),
        differentiable=("x",),
        scale=scale or terms(name),
        rtol={"float32": 1e-6, "float64": 1e-13},
        flops=lambda call, output: call.args["x"].size,
        bad=lambda: refusals,
    )


def argmax_calls(rng):
    yield from data_calls(rng, distinct, False)
    yield from data_calls(rng, ties, False)


ARGMAX = Row(
    "argmax",
    argmax_calls,
    reduction_large,
    exact=(0,),
    scale=largest,
    flops=lambda call, output: call.args["x"].size,
    bad=lambda: [
        *axis_refusals(),
        Bad("empty axis", (np.zeros((2, 0), np.float32),), {"axis": 1}, "ArgumentError", "x axis"),
        Bad("no element", (np.zeros((0,), np.float32),), {}, "ArgumentError", "x axis"),
    ],
)


# ---------------------------------------------------------------- softmax


def softmax_calls(rng):
    for n in SIZES:
        yield Call({"x": normal(rng, 3, n, spread=3.0)})
        yield Call({"x": normal(rng, n, 5, spread=3.0)}, {"axis": 0})
    for shape, axis in (
        ((7,), 0),
        ((2, 3, 5), 1),
        ((2, 3, 5), -3),
        ((3, 4, 17), 1),
        ((4, 1, 3), 1),
        ((0, 3), 1),
        ((2, 3, 0), 1),
        ((3, 33, 2, 5), -3),
        ((5, 1000), -1),
        ((1000, 3), 0),
    ):
        yield Call({"x": normal(rng, *shape, spread=3.0)}, {"axis": axis})
        scale = (0.125, -1.7, 3.0, 0.0)[len(shape) % 4 + axis % 2 - 1]
        yield Call({"x": normal(rng, *shape, spread=2.0)}, {"axis": axis, "scale": scale})
    for n in (2, 3, 9, 17, 33, 130):
        yield Call({"x": normal(rng, 3, n, spread=3.0)}, {"scale": 0.3})
        yield Call({"x": normal(rng, n, 5, spread=3.0)}, {"axis": 0, "scale": -0.7})
    yield Call({"x": np.array([[1e4, 1e4 - 1, 0.0], [-1e4, -1e4 - 2, -1e4], [88.0, -88.0, 0.0]])})


def softmax_large(rng):
    yield Call({"x": normal(rng, 1, 300_001, spread=3.0)})
    yield Call({"x": normal(rng, 501, 1003, spread=3.0)})
    yield Call({"x": normal(rng, 1003, 501, spread=3.0)}, {"axis": 0})
    yield Call({"x": normal(rng, 20, 200, 103, spread=3.0)}, {"axis": 1})
    yield Call({"x": normal(rng, 1, 300_001, spread=3.0)}, {"scale": 0.5})
    yield Call({"x": normal(rng, 501, 1003, spread=3.0)}, {"scale": -0.5})
    yield Call({"x": normal(rng, 3003, 101, spread=3.0)}, {"axis": 0, "scale": 0.5})
    yield Call({"x": normal(rng, 20_001, 3, spread=3.0)}, {"scale": 0.5})


def softmax_gradient_scale(call, wanted):
    g = np.abs(call.args["output_grad"]).max(initial=0.0)
    n = wanted[0].shape[call.options["axis"]]
    return [np.abs(w) + g * (n**0.5 if call.args["output"].min(initial=0.0) < 0 else 1) for w in wanted]


def softmax_like(name):
    gradient = Gradient(
        name + "_backward",
        "output_grad output",
        ("x",),
        more=lambda call: {"axis": call.options.get("axis", -1)},
        scale=softmax_gradient_scale,
        work=0.3,
    )
    one = np.ones((2, 3), np.float32)
    return Row(
        name,
        softmax_calls,
        softmax_large,
        (gradient,),
        differentiable=("x",),
        scale=(lambda call, wanted: [np.abs(w) * (1 + np.abs(call.args["x"]).max(initial=0.0)) for w in wanted])
        if name == "softmax"
        else (lambda call, wanted: [np.abs(w) + np.abs(call.args["x"]) + 1 for w in wanted]),
        rtol={"float32": 1e-6, "float64": 2e-13},
        flops=lambda call, output: 20 * output.size,
        bad=lambda: [
            *(Bad(f"axis {a!r}", (x23,), {"axis": a}, "ArgumentError", "axis") for a in (2, -3, H62, 1.0, "a", None, (0,))),
            *(Bad(f"axis {a!r}", (one, one), {"axis": a}, "ArgumentError", "axis", name + "_backward") for a in (7, H62, None)),
            Bad("no axis", (np.ones((), np.float32),), {}, "ArgumentError ShapeError", "axis x"),
        ],
    )


# ---------------------------------------------------------------- losses


def cross_entropy_calls(rng):
    for n in (1, 2, 5, 17):
        for c in (1, 2, 7, 8, 9, 16, 17, 33, 130):
            for reduction in ("mean", "sum", "none"):
                yield Call({"logits": normal(rng, n, c, spread=2.0), "targets": rng.integers(0, c, n)}, {"reduction": reduction})
    for kind in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split():
        yield Call({"logits": normal(rng, 6, 5), "targets": rng.integers(0, 5, 6).astype(kind)})
    for reduction in ("mean", "sum", "none"):
        for ignore in (None, 0, 4, -100, 255):
            for smoothing in (0.0, 0.1, 0.35, 1.0):
                targets = rng.integers(0, 5, 9)
                if ignore is not None:
                    targets[[1, 4]] = ignore
                    targets[0] = 2
                options = {"reduction": reduction, "ignore_index": ignore, "label_smoothing": smoothing}
                yield Call({"logits": normal(rng, 9, 5, spread=2.0), "targets": targets}, options)
    for reduction in ("sum", "none"):
        yield Call({"logits": normal(rng, 0, 5), "targets": rng.integers(0, 5, 0)}, {"reduction": reduction})
        yield Call({"logits": normal(rng, 3, 5), "targets": np.full(3, 7)}, {"reduction": reduction, "ignore_index": 7})
    yield Call({"logits": np.array([[1e4, 0.0, -1e4], [3.0, 3.0, 3.0]]), "targets": np.array([1, 2])})


def cross_entropy_large(rng):
    targets = rng.integers(0, 11, 40_001)
    targets[::7] = 3
    yield Call({"logits": normal(rng, 40_001, 11), "targets": targets}, {"ignore_index": 3, "label_smoothing": 0.1})
    yield Call({"logits": normal(rng, 701, 1003), "targets": rng.integers(0, 1003, 701)}, {"reduction": "none"})


def cross_entropy_scale(call, wanted):
    logits = call.args["logits"]
    span = 1 + 2 * np.abs(logits).max(initial=0.0)
    return [np.abs(w) + span * (logits.shape[0] if call.options.get("reduction") == "sum" else 1) for w in wanted]


logits34 = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


def cross_entropy_refusals():
    scalar = np.ones((), np.float32)
    for label in (4, -1, H31, 2**32, H62, -H62):
        targets = np.array([0, label, 1])
        yield Bad(f"label {label}", (logits34, targets), {}, "IndexRangeError", "targets")
        yield Bad(f"label {label}", (scalar, logits34, targets), {}, "IndexRangeError", "targets", "cross_entropy_backward")
        yield Bad(f"label {label}, another one ignored", (logits34, targets), {"ignore_index": 9}, "IndexRangeError", "targets")
    yield Bad("label 2**63", (logits34, np.array([0, 2**63, 1], np.uint64)), {}, "IndexRangeError", "targets")
    yield Bad("too few labels", (logits34, np.array([0, 1])), {}, "ShapeError", "targets")
    yield Bad("labels of two axes", (logits34, np.zeros((3, 1), int)), {}, "ShapeError", "targets")
    yield Bad("logits of one axis", (logits34[0], np.zeros(4, int)), {}, "ShapeError", "logits targets")
    yield Bad("logits of three axes", (logits34[None], np.zeros(1, int)), {}, "ShapeError", "logits targets")
    for reduction in ("max", None, 1):
        yield Bad(
            f"reduction {reduction!r}", (logits34, np.zeros(3, int)), {"reduction": reduction}, "ArgumentError", "reduction"
        )
    for smoothing in (float("nan"), float("inf"), -0.1, 1.5, "0.1", None):
        yield Bad(
            f"label_smoothing {smoothing!r}",
            (logits34, np.zeros(3, int)),
            {"label_smoothing": smoothing},
            "ArgumentError",
            "label_smoothing",
        )
    for ignore in (1.0, "0", True):
        yield Bad(
            f"ignore_index {ignore!r}", (logits34, np.zeros(3, int)), {"ignore_index": ignore}, "ArgumentError", "ignore_index"
        )
    one = np.ones(3, np.float32)
    yield Bad("a vector for a mean", (one, logits34, np.zeros(3, int)), {}, "ShapeError", "output_grad", "cross_entropy_backward")
    yield Bad(
        "a scalar for none",
        (scalar, logits34, np.zeros(3, int)),
        {"reduction": "none"},
        "ShapeError",
        "output_grad",
        "cross_entropy_backward",
    )


CROSS_ENTROPY = Row(
    "cross_entropy",
    cross_entropy_calls,
    cross_entropy_large,
    (
        Gradient(
            "cross_entropy_backward",
            "output_grad logits targets",
            ("logits",),
            scale=lambda call, wanted: [np.abs(w) + np.abs(call.args["output_grad"]).max(initial=0.0) for w in wanted],
        ),
    ),
    differentiable=("logits",),
    scale=cross_entropy_scale,
    rtol={"float32": 1e-6, "float64": 2e-13},
    flops=lambda call, output: 20 * call.args["logits"].size,
    bad=cross_entropy_refusals,
)


def mse_calls(rng):
    for n in SIZES:
        for reduction in ("mean", "sum", "none"):
            if n or reduction != "mean":
                yield Call({"input": normal(rng, n), "target": normal(rng, n)}, {"reduction": reduction})
    for shape in ((), (2, 3), (4, 5, 3), (1, 1), (2, 300)):
        for options in ({}, {"reduction": "sum"}, {"reduction": "none"}):
            yield Call({"input": np.asarray(normal(rng, *shape)), "target": np.asarray(normal(rng, *shape))}, options)
    yield Call({"input": normal(rng, 0, 3), "target": normal(rng, 0, 3)}, {"reduction": "none"})


def mse_large(rng):
    for reduction in ("mean", "none"):
        yield Call({"input": normal(rng, 501, 1003), "target": normal(rng, 501, 1003)}, {"reduction": reduction})


def mse_scale(call, wanted):
    a, b = np.abs(call.args["input"]), np.abs(call.args["target"])
    size = (a + b) ** 2
    return [
        np.abs(w)
        + (
            size
            if np.shape(w) == size.shape
            else size.sum() / (1 if call.options.get("reduction") == "sum" else max(size.size, 1))
        )
        for w in wanted
    ]


def mse_gradient_scale(call, wanted):
    size = np.abs(call.args["input"]) + np.abs(call.args["target"])
    g = np.abs(call.args["output_grad"]) / (max(size.size, 1) if call.options.get("reduction", "mean") == "mean" else 1)
    return [2 * g * size for _ in wanted]


MSE = Row(
    "mse_loss",
    mse_calls,
    mse_large,
    (Gradient("mse_loss_backward", "output_grad input target", ("input", "target"), "MseLossGrads", scale=mse_gradient_scale),),
    differentiable=("input", "target"),
    scale=mse_scale,
    rtol={"float32": 1e-6, "float64": 1e-13},
    flops=lambda call, output: 3 * call.args["input"].size,
    bad=lambda: [
        Bad("shapes that differ", (x23, x23.T.copy()), {}, "ShapeError", "input target"),
        Bad("shapes that would broadcast", (x23, x23[0]), {}, "ShapeError", "input target"),
        *(Bad(f"reduction {v!r}", (x23, x23), {"reduction": v}, "ArgumentError", "reduction") for v in ("avg", None)),
        Bad("a vector for a mean", (np.ones(2, np.float32), x23, x23), {}, "ShapeError", "output_grad", "mse_loss_backward"),
    ],
)

ROWS = [
    reduction("reduce_sum", empty=True, from_shape=True),
    reduction("reduce_mean", empty=True, from_shape=True),
    reduction("reduce_max"),
    reduction("reduce_min"),
    reduction(
        "logsumexp",
        empty=True,
        scale=lambda call, wanted: [np.abs(w) + 1 + np.abs(call.args["x"]).max(initial=0.0) for w in wanted],
    ),
    ARGMAX,
    softmax_like("softmax"),
    softmax_like("log_softmax"),
    CROSS_ENTROPY,
    MSE,
]
