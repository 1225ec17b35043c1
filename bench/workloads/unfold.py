"""Windows as columns and back, forward and backward."""

from table import ROWS  # after operations, which makes it importable
from table.base import Call, normal

from .base import operation


def image(batch, channels, size, kernel, **options):
    return lambda rng: Call({"x": normal(rng, batch, channels, size, size), "kernel_size": kernel}, options)


def columns(batch, channels, size, kernel, **options):
    def make(rng):
        call = image(batch, channels, size, kernel, **options)(rng)
        shape = ROWS["unfold4d"].wanted(call)[0].shape
        return Call({"x": normal(rng, *shape), "output_size": (size, size), "kernel_size": kernel}, options)

    return make


def both(label, *shape, **options):
    yield from operation("unfold", "unfold4d", label, image(*shape, **options), gradients=("unfold4d_backward",))
    yield from operation("unfold", "fold4d", label, columns(*shape, **options), gradients=("fold4d_backward",))


WORKLOADS = [
    *both("3x3-64@56", 4, 64, 56, 3, padding=1),
    *both("3x3s2-64@56", 4, 64, 56, 3, padding=1, stride=2),
    *both("patches-16x16-3@224", 4, 3, 224, 16, stride=16),
    *both("k2s2-64@56", 4, 64, 56, 2, stride=2),
]
