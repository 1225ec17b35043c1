"""Element-wise pairs, functions and activations: memory at 1e7 elements, a level-2 cache at 1e5, call overhead at 1e3."""

import numpy as np

from ..operations import Call
from .base import normal, operation

SIZES = {"1e3": 1000, "1e5": 100_000, "1e7": 10_000_000}


def one(n, prepare=lambda x: x, **options):
    return lambda rng: Call({"x": prepare(normal(rng, n, spread=2.0))}, options)


def pair(left, right, apart=0.0):
    def make(rng):
        rhs = normal(rng, *right)
        return Call({"lhs": normal(rng, *left), "rhs": rhs + np.copysign(apart, rhs)})

    return make


def at_each_size(family, op, sizes, into=(False,), **options):
    return [w for size in sizes for w in operation(family, op, size, one(SIZES[size], **options), into=into)]


def plain(family, op, size="1e5", **options):
    """One size, forward and gradient."""
    return operation(family, op, size, one(SIZES[size], **options))


BOTH = (False, True)  # a new result, and one in memory that exists

ELEMENTWISE = [
    *operation("elementwise", "add", "1e5", pair((100_000,), (100_000,)), gradients=()),
    *operation("elementwise", "add", "1e7", pair((10_000_000,), (10_000_000,)), gradients=(), into=BOTH),
    *operation("elementwise", "mul", "rows-1000x1000", pair((1000, 1000), (1000,))),
    *operation("elementwise", "div", "1e5", pair((100_000,), (100_000,), apart=0.3)),
    *operation("elementwise", "exp", "1e3", one(1000)),
    *at_each_size("elementwise", "exp", ("1e5", "1e7"), into=BOTH),
    *plain("elementwise", "log", prepare=lambda x: np.abs(x) + 0.01),
    *plain("elementwise", "erf"),
    *operation("elementwise", "exp", "1e5", one(100_000), dtype="float64", gradients=()),
]

ACTIVATION = [
    *operation("activation", "relu", "1e3", one(1000)),
    *(w for op in ("relu", "tanh", "sigmoid", "gelu") for w in at_each_size("activation", op, ("1e5", "1e7"), into=BOTH)),
    *operation("activation", "gelu", "tanh-1e5", one(100_000, approximate="tanh")),
    *plain("activation", "silu"),
    *plain("activation", "elu"),
]

WORKLOADS = [*ELEMENTWISE, *ACTIVATION]
