"""Calls so small that the way to the kernel is what costs."""

from table.conv import make as convolution

from .base import operation
from .elementwise import one, pair
from .matmul import square
from .reduce import over

WORKLOADS = [
    *operation("small", "relu", "64", one(64), gradients=()),
    *operation("small", "relu", "64", one(64), gradients=(), into=(True,)),
    *operation("small", "add", "64", pair((64,), (64,)), gradients=()),
    *operation("small", "softmax", "64", over((1, 64)), gradients=()),
    *operation("small", "matmul", "4x4", square(4), gradients=()),
    *operation("small", "conv2d", "8x8", lambda rng: convolution(rng, 1, 3, 4, (8, 8), (3, 3), bias=False), gradients=()),
]
