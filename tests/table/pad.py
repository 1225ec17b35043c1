"""Padding of any number of axes."""

import numpy as np

from table.base import TAILS, Bad, Call, Gradient, Row, normal, relative, terms

MODES = ("constant", "reflect", "edge")

# (shape, pads): every axis its own
SHAPES = [
    ((), ()),
    ((1,), ((0, 0),)),
    ((1,), ((2, 3),)),
    ((5,), ((4, 0),)),
    ((5,), ((0, 3),)),
    ((2,), ((5, 6),)),
    ((3,), ((7, 9),)),
    ((4, 5), ((1, 2), (3, 0))),
    ((4, 5), ((0, 0), (2, 1))),
    ((4, 5), ((2, 1), (0, 0))),
    ((3, 1), ((2, 2), (3, 1))),
    ((2, 3, 4), ((0, 1), (0, 0), (2, 0))),
    ((3, 2, 4), ((1, 0), (0, 0), (0, 0))),
    ((2, 3, 5, 7), ((0, 0), (0, 0), (2, 1), (1, 3))),
    ((2, 5, 4, 3), ((0, 0), (1, 2), (2, 1), (0, 0))),
    ((3, 2, 3, 2), ((2, 1), (1, 1), (0, 2), (1, 0))),
    ((2, 1, 3, 2, 2), ((1, 1), (0, 2), (1, 0), (0, 0), (1, 1))),
    ((2, 2, 1, 2, 1, 3), ((0, 1), (1, 0), (0, 1), (0, 0), (1, 1), (2, 0))),
]


def calls(rng):
    for shape, pads in SHAPES:
        for mode in MODES:
            yield Call({"x": normal(rng, *shape), "pads": pads}, {"mode": mode})
        yield Call({"x": normal(rng, *shape), "pads": [list(p) for p in pads]}, {"value": -1.5})
    for n in TAILS:
        for mode in MODES:
            yield Call({"x": normal(rng, 2, n), "pads": ((1, 1), (1, 2))}, {"mode": mode})
    for n in (3, 8, 17, 33):  # cells that move together
        for mode in MODES[1:]:
            yield Call({"x": normal(rng, 2, 3, n), "pads": ((0, 0), (2, 1), (0, 0))}, {"mode": mode})
    yield Call({"x": normal(rng, 3, 700), "pads": ((1, 0), (600, 651))}, {"mode": "reflect"})
    yield Call({"x": normal(rng, 2, 3), "pads": np.array([[1, 2], [0, 1]])}, {"value": np.float32(2)})
    yield Call({"x": normal(rng, 2, 3), "pads": ((0, 0), (1, 1))}, {"value": np.inf}, False)
    for mode in MODES:
        yield Call({"x": normal(rng, 0, 3), "pads": ((0, 0), (1, 1))}, {"mode": mode})
        yield Call({"x": normal(rng, 0, 3, 4), "pads": ((0, 0), (0, 0), (0, 2))}, {"mode": mode})
    yield Call({"x": normal(rng, 2, 0), "pads": ((1, 0), (1, 1))}, {"value": 3.0})


def large(rng):
    for mode in MODES:
        yield Call({"x": normal(rng, 3, 17, 130, 131), "pads": ((0, 0), (0, 0), (2, 1), (3, 5))}, {"mode": mode})
        yield Call({"x": normal(rng, 3, 130, 131, 17), "pads": ((0, 0), (2, 1), (3, 5), (0, 0))}, {"mode": mode})
    yield Call({"x": normal(rng, 900_003), "pads": ((70_001, 5),)}, {"mode": "reflect"})


def f(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def refusals():
    x = f(2, 3)
    good = ((0, 0), (1, 1))
    for pads in (
        ((1, 1),), (), ((1, 1),) * 3, ((0, 0), (-1, 1)), ((0, 0), (0, 2**62)), ((0, 0), (0, 2**70)), ((0, 0), (0, 2**61)), "same",
        1, (1, 1), None, ((0, 0), (1, 1.0)), ((0, 0), (1,)), ((0, 0), (1, 1, 1)), ((0, 0), "11"), ((0, 0), (True, 0)),
        np.ones((2, 2)), {1: (0, 0), 2: (0, 0)}, ((0, 0), None),
    ):  # fmt: skip
        yield Bad(f"pads {pads!r}", (x, pads), {}, "ArgumentError ShapeError", "pads")
        yield Bad(f"pads {pads!r}", (x, pads), {}, "ArgumentError ShapeError", "pads output_grad", "pad_backward")
    for mode in ("wrap", "symmetric", "Constant", None, 1):
        yield Bad(f"mode {mode!r}", (x, good), {"mode": mode}, "ArgumentError", "mode")
        yield Bad(f"mode {mode!r}", (x, good), {"mode": mode}, "ArgumentError", "mode", "pad_backward")
    for value in ("0", None, True, 1j, [0.0]):
        yield Bad(f"value {value!r}", (x, good), {"value": value}, "ArgumentError", "value")
    for mode in MODES[1:]:
        yield Bad("an axis of no cells", (f(2, 0), good), {"mode": mode}, "ShapeError", "pads x")
        yield Bad("a gradient of padding only", (f(2, 2), good), {"mode": mode}, "ShapeError", "output_grad pads", "pad_backward")
    yield Bad("a gradient shorter than the padding", (f(2, 1), good), {}, "ShapeError", "output_grad pads", "pad_backward")


def added(call, wanted):
    """To the sum of what is added to each cell."""
    return terms("pad_backward")(call, wanted)


EXACT = {"float32": 1e-6, "float64": 1e-14}

ROWS = [
    Row(
        "pad", calls, large,
        (Gradient("pad_backward", "output_grad pads", ("x",), without=("value",), scale=added, free="every"),),
        differentiable=("x",), scale=relative, rtol=EXACT, bad=refusals,
    ),
]  # fmt: skip
