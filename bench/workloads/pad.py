"""Padding."""

from ..operations import Call
from .base import normal, operation


def amid(shape, pads, **options):
    return lambda rng: Call({"x": normal(rng, *shape), "pads": pads}, options)


PLANES, PIXELS = ((0, 0), (0, 0), (1, 1), (1, 1)), ((0, 0), (1, 1), (1, 1), (0, 0))

WORKLOADS = [
    *operation("pad", "pad", "planes-56x56", amid((8, 64, 56, 56), PLANES)),
    *operation("pad", "pad", "small-planes-14x14", amid((16, 64, 14, 14), PLANES)),
    *operation("pad", "pad", "pixels-56x56", amid((4, 56, 56, 64), PIXELS)),
    *operation("pad", "pad", "reflect-planes-56x56", amid((8, 64, 56, 56), PLANES, mode="reflect")),
    *operation("pad", "pad", "edge-audio", amid((1, 64, 4096), ((0, 0), (0, 0), (2, 2)), mode="edge")),
]
