"""Reductions, softmax and losses."""

from ..operations import Call
from .base import normal, operation


def over(shape, **options):
    return lambda rng: Call({"x": normal(rng, *shape, spread=2.0)}, options)


def logits(rows, classes):
    def make(rng):
        return Call({"logits": normal(rng, rows, classes, spread=2.0), "targets": rng.integers(0, classes, rows)})

    return make


def targets(n):
    return lambda rng: Call({"input": normal(rng, n), "target": normal(rng, n)})


REDUCE = [
    *operation("reduce", "reduce_sum", "all-1e7", over((10_000_000,))),
    *operation("reduce", "reduce_sum", "rows-1000x1000", over((1000, 1000), axis=1), gradients=()),
    *operation("reduce", "reduce_sum", "columns-1000x1000", over((1000, 1000), axis=0), gradients=()),
    *operation("reduce", "reduce_mean", "planes-32x256x14x14", over((32, 256, 14, 14), axis=(2, 3))),
    *operation("reduce", "reduce_max", "rows-1000x1000", over((1000, 1000), axis=1)),
    *operation("reduce", "argmax", "rows-1000x1000", over((1000, 1000), axis=1)),
    *operation("reduce", "logsumexp", "rows-1000x1000", over((1000, 1000), axis=1)),
]

SOFTMAX = [
    *operation("softmax", "softmax", "attention-96x128x128", over((96, 128, 128))),
    *operation("softmax", "softmax", "classes-512x1000", over((512, 1000))),
    *operation("softmax", "softmax", "vocabulary-64x32000", over((64, 32000)), gradients=()),
    *operation("softmax", "softmax", "channels-8x64x56x56", over((8, 64, 56, 56), axis=1), gradients=()),
    *operation("softmax", "log_softmax", "classes-512x1000", over((512, 1000))),
    *operation("softmax", "softmax", "classes-512x1000", over((512, 1000)), gradients=(), dtype="float64"),
]

LOSS = [
    *operation("loss", "cross_entropy", "classes-512x1000", logits(512, 1000)),
    *operation("loss", "cross_entropy", "digits-4096x10", logits(4096, 10)),
    *operation("loss", "mse_loss", "1e5", targets(100_000)),
]

WORKLOADS = [*REDUCE, *SOFTMAX, *LOSS]
