"""Matrix products, linear layers, embedding."""

from ..operations import Call
from .base import normal, operation


def product(left, right):
    return lambda rng: Call({"lhs": normal(rng, *left), "rhs": normal(rng, *right)})


def square(n):
    return product((n, n), (n, n))


def dense(rows, d_in, d_out):
    return lambda rng: Call({"x": normal(rng, rows, d_in), "weight": normal(rng, d_in, d_out), "bias": normal(rng, d_out)})


def activated(rows, d_in, d_out, activation):
    """Sums of the size of 1: where they are large, gelu's gradient has no normal numbers, with which products take 30 times as long."""

    def make(rng):
        args = dense(rows, d_in, d_out)(rng).args
        return Call({**args, "weight": args["weight"] / d_in**0.5}, {"activation": activation})

    return make


def lookup(words, width, count):
    return lambda rng: Call({"weights": normal(rng, words, width), "indices": rng.integers(0, words, count)})


SEPARATE = ("linear_x_backward", "linear_weight_backward", "linear_bias_backward")

WORKLOADS = [
    *(w for n in (8, 16, 32, 64, 256, 512, 1024, 2048) for w in operation("matmul", "matmul", f"{n}", square(n), gradients=())),
    *operation("matmul", "matmul", "512", square(512), dtype="float64", gradients=()),
    *operation("matmul", "matmul", "512", square(512), forward=False),
    *operation("matmul", "matmul", "batch256-32", product((256, 32, 32), (256, 32, 32))),
    *operation("matmul", "matmul", "tall-16384x64x64", product((16384, 64), (64, 64)), gradients=()),
    *operation("matmul", "matmul", "deep-64x16384x64", product((64, 16384), (16384, 64)), gradients=()),
    *operation("matmul", "matmul", "skinny-1024x1024x8", product((1024, 1024), (1024, 8)), gradients=()),
    *operation("matmul", "matmul", "vector-2048x2048", product((2048, 2048), (2048,)), gradients=()),
    *operation("matmul", "linear", "transformer-512x768x3072", dense(512, 768, 3072), gradients=SEPARATE),
    *operation("matmul", "linear", "mlp-32x784x512", dense(32, 784, 512), gradients=("linear_backward",)),
    *operation("linear_activation", "linear_activation", "transformer-512x768x3072-gelu", activated(512, 768, 3072, "gelu")),
    *operation("linear_activation", "linear_activation", "wide-4096x128x512-relu", activated(4096, 128, 512, "relu")),
    *operation("embedding", "embedding", "tokens-4096of32000x256", lookup(32000, 256, 4096)),
]

MORE = [
    *(w for n in (32, 64, 128, 256, 1024) for w in operation("matmul", "matmul", f"{n}", square(n), dtype="float64", gradients=())),
    *operation("matmul", "matmul", "96", square(96), gradients=()),
    *operation("matmul", "matmul", "128", square(128), gradients=()),
    *operation("matmul", "matmul", "batch64-64", product((64, 64, 64), (64, 64, 64)), gradients=()),
    *operation("matmul", "matmul", "flat-32x1024x1024", product((32, 1024), (1024, 1024)), gradients=()),
]
