"""Matrix products, linear layers, embedding."""

import numpy as np

from table.base import CHANNELS, SIZES, Bad, Call, Gradient, Row, normal, relative, terms

H31, H62 = 2**31, 2**62


def f(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def matmul_flops(call, output):
    return 2 * output.size * call.args["lhs"].shape[-1]


def matmul_calls(rng):
    for n in SIZES:
        for m, k, w in ((n, 5, 3), (3, n, 5), (5, 3, n)):
            yield Call({"lhs": normal(rng, m, k), "rhs": normal(rng, k, w)})
    for m, k, n in ((1, 1, 1), (14, 33, 32), (15, 40, 33), (7, 300, 9), (65, 66, 67), (6, 513, 17), (130, 9, 129), (29, 257, 65)):
        yield Call({"lhs": normal(rng, m, k), "rhs": normal(rng, k, n)})
    shapes = [
        ((5,), (5,)), ((1,), (1,)), ((0,), (0,)), ((7,), (7, 3)), ((4, 7), (7,)), ((2, 4, 7), (7,)), ((7,), (2, 7, 3)),
        ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 6)), ((1, 5, 3, 4), (2, 1, 4, 6)), ((2, 3, 1, 4), (2, 3, 4, 1)),
        ((0, 3, 4), (4, 5)), ((0, 3, 4), (0, 4, 5)),
        ((2, 0, 4), (4, 3)), ((2, 3, 0), (2, 0, 4)), ((3, 4), (4, 0)), ((1, 3, 4), (0, 4, 2)), ((3, 1, 1), (3, 1, 1)),
        ((2, 17, 33), (2, 33, 16)), ((65,), (65, 33)),
    ]  # fmt: skip
    for left, right in shapes:
        yield Call({"lhs": normal(rng, *left), "rhs": normal(rng, *right)})


def matmul_large(rng):
    for left, right in (
        ((257, 129), (129, 301)),
        ((5, 40_001), (40_001, 7)),
        ((6001,), (6001, 65)),
        ((20_001, 9), (9, 17)),
        ((9, 65, 66), (9, 66, 67)),
        ((1001, 1003), (1003,)),
    ):
        yield Call({"lhs": normal(rng, *left), "rhs": normal(rng, *right)})


MATMUL = Row(
    "matmul",
    matmul_calls,
    matmul_large,
    (Gradient("matmul_backward", "output_grad lhs rhs", ("lhs", "rhs"), "MatmulGrads", scale=terms("matmul_backward"), work=2),),
    differentiable=("lhs", "rhs"),
    scale=terms("matmul"),
    rtol={"float32": 2e-6, "float64": 1e-13},
    flops=matmul_flops,
    bad=lambda: [
        Bad("inner lengths that differ", (f(2, 3), f(4, 5)), {}, "ShapeError", "lhs rhs"),
        Bad("vectors of unequal length", (f(3), f(4)), {}, "ShapeError", "lhs rhs"),
        Bad("a vector that does not fit", (f(3), f(4, 2)), {}, "ShapeError", "lhs rhs"),
        Bad("batch axes that do not broadcast", (f(2, 3, 4), f(3, 4, 5)), {}, "ShapeError", "lhs rhs"),
        Bad("a left operand without axes", (f(), f(3)), {}, "ShapeError", "lhs"),
        Bad("a right operand without axes", (f(3), f()), {}, "ShapeError", "rhs"),
        Bad(
            "operands of the gradient that do not fit",
            (f(2, 5), f(2, 3), f(4, 5)),
            {},
            "ShapeError",
            "lhs rhs",
            "matmul_backward",
        ),
    ],
)


def linear_calls(rng):
    for d_in in CHANNELS:
        for d_out in (1, 7, 16, 33):
            yield Call({"x": normal(rng, 5, d_in), "weight": normal(rng, d_in, d_out), "bias": normal(rng, d_out)})
    for n in SIZES:
        yield Call({"x": normal(rng, n, 9), "weight": normal(rng, 9, 17), "bias": normal(rng, 17)})
    for lead in ((), (0,), (1,), (2, 3), (2, 0, 3), (2, 3, 4, 5), (130,)):
        yield Call({"x": normal(rng, *lead, 7), "weight": normal(rng, 7, 9), "bias": normal(rng, 9)})
        yield Call({"x": normal(rng, *lead, 7), "weight": normal(rng, 7, 9)})
    yield Call({"x": normal(rng, 3, 0), "weight": normal(rng, 0, 4), "bias": normal(rng, 4)})
    yield Call({"x": normal(rng, 3, 4), "weight": normal(rng, 4, 0), "bias": normal(rng, 0)})


def linear_large(rng):
    yield Call({"x": normal(rng, 20_001, 9), "weight": normal(rng, 9, 17), "bias": normal(rng, 17)})
    yield Call({"x": normal(rng, 3, 100, 201), "weight": normal(rng, 201, 130), "bias": normal(rng, 130)})


def has_bias(call):
    return call.args.get("bias") is not None


LINEAR = Row(
    "linear",
    linear_calls,
    linear_large,
    (
        Gradient("linear_x_backward", "weight output_grad", ("x",), scale=terms("linear_x_backward"), free="first"),
        Gradient("linear_weight_backward", "x output_grad", ("weight",), scale=terms("linear_weight_backward"), free="last"),
        Gradient("linear_bias_backward", "output_grad", ("bias",), when=has_bias, scale=terms("linear_bias_backward"), work=0),
        Gradient(
            "linear_backward",
            "x weight output_grad",
            ("x", "weight", "bias"),
            "LinearGrads",
            scale=terms("linear_backward"),
            work=2,
        ),
    ),
    differentiable=("x", "weight", "bias"),
    optional=("bias",),
    scale=terms("linear"),
    rtol={"float32": 2e-6, "float64": 1e-13},
    flops=lambda call, output: 2 * output.size * call.args["x"].shape[-1],
    bad=lambda: [
        Bad("feature counts that differ", (f(2, 3), f(4, 5)), {}, "ShapeError", "x weight"),
        Bad("weight of one axis", (f(2, 3), f(3)), {}, "ShapeError", "weight"),
        Bad("weight of three axes", (f(2, 3), f(3, 5, 1)), {}, "ShapeError", "weight"),
        Bad("bias of another length", (f(2, 3), f(3, 5), f(4)), {}, "ShapeError", "bias"),
        Bad("bias of two axes", (f(2, 3), f(3, 5), f(1, 5)), {}, "ShapeError", "bias"),
        Bad("x without axes", (f(), f(3, 5)), {}, "ShapeError", "x"),
        Bad("feature counts of the x gradient", (f(3, 5), f(2, 4)), {}, "ShapeError", "output_grad weight", "linear_x_backward"),
        Bad("batches of the weight gradient", (f(2, 3), f(3, 5)), {}, "ShapeError", "output_grad x", "linear_weight_backward"),
        Bad("gradient of another width", (f(2, 3), f(3, 5), f(2, 4)), {}, "ShapeError", "output_grad", "linear_backward"),
        Bad("gradient of another batch", (f(2, 3), f(3, 5), f(4, 5)), {}, "ShapeError", "output_grad", "linear_backward"),
        Bad("feature counts of the joint gradient", (f(2, 4), f(3, 5), f(2, 5)), {}, "ShapeError", "x weight", "linear_backward"),
        Bad("gradient without axes", (f(),), {}, "ShapeError", "output_grad", "linear_bias_backward"),
    ],
)


def embedding_calls(rng):
    for d in (0, *CHANNELS):
        yield Call({"weights": normal(rng, 6, d), "indices": rng.integers(0, 6, 9)})
    for shape in ((), (0,), (1,), (2, 3), (3, 0, 2), (2, 3, 4), (70,)):
        yield Call({"weights": normal(rng, 5, 3), "indices": np.asarray(rng.integers(0, 5, shape))})
    for kind in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split():
        yield Call({"weights": normal(rng, 5, 7), "indices": rng.integers(0, 5, (2, 4)).astype(kind)})
    yield Call({"weights": normal(rng, 0, 3), "indices": np.zeros((2, 0), int)})
    yield Call({"weights": normal(rng, 1, 33), "indices": np.zeros(40, int)})


def embedding_large(rng):
    yield Call({"weights": normal(rng, 5, 33), "indices": rng.integers(0, 5, 30_000)})
    yield Call({"weights": normal(rng, 3001, 129), "indices": rng.integers(0, 3001, (50, 60))})
    yield Call({"weights": normal(rng, 50_001, 9), "indices": rng.integers(0, 50_001, 20_000)})


def embedding_refusals():
    w = f(4, 3)
    for index in (4, -1, H31, 2**32, H62, -H62):
        yield Bad(f"index {index}", (w, np.array([0, index])), {}, "IndexRangeError", "indices")
        yield Bad(f"index {index}", (w, f(2, 3), np.array([0, index])), {}, "IndexRangeError", "indices", "embedding_backward")
    for kind in ("int8", "int32", "uint8"):
        yield Bad(f"index 4 ({kind})", (w, np.array([0, 4], kind)), {}, "IndexRangeError", "indices")
    yield Bad("index 2**64 - 1", (w, np.array([2**64 - 1], np.uint64)), {}, "IndexRangeError", "indices")
    yield Bad("weights of one axis", (f(4), np.array([0])), {}, "ShapeError", "weights")
    yield Bad("weights of three axes", (f(4, 3, 2), np.array([0])), {}, "ShapeError", "weights")
    yield Bad("no rows", (f(0, 3), np.array([0])), {}, "IndexRangeError ShapeError", "indices weights")
    yield Bad(
        "gradient of another width", (w, f(2, 4), np.array([0, 1])), {}, "ShapeError", "output_grad weights", "embedding_backward"
    )
    yield Bad(
        "gradient of another length",
        (w, f(3, 3), np.array([0, 1])),
        {},
        "ShapeError",
        "output_grad indices",
        "embedding_backward",
    )


EMBEDDING = Row(
    "embedding",
    embedding_calls,
    embedding_large,
    (Gradient("embedding_backward", "weights output_grad indices", ("weights",), scale=terms("embedding_backward")),),
    differentiable=("weights",),
    scale=relative,
    rtol={"float32": 1e-6, "float64": 1e-13},
    flops=lambda call, output: 0,
    bad=embedding_refusals,
)

ROWS = [MATMUL, LINEAR, EMBEDDING]
