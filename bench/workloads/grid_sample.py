"""Sampling at the places of a grid: a rotation by 17 degrees."""

import numpy as np

from ..operations import Call
from .base import normal, operation

ANGLE = 0.3


def rotation(n, oh, ow):
    y, x = np.meshgrid(np.linspace(-1, 1, oh), np.linspace(-1, 1, ow), indexing="ij")
    turned = [x * np.cos(ANGLE) - y * np.sin(ANGLE), x * np.sin(ANGLE) + y * np.cos(ANGLE)]
    return np.repeat(np.stack(turned, -1)[None], n, 0)


def turn(n, c, size, places, **options):
    return lambda rng: Call({"x": normal(rng, n, c, *size), "grid": rotation(n, *places)}, options)


WORKLOADS = [
    *operation("grid_sample", "grid_sample_2d", "features-28x28", turn(4, 64, (28, 28), (28, 28))),
    *operation("grid_sample", "grid_sample_2d", "features-64x64", turn(2, 32, (64, 64), (64, 64), padding_mode="border")),
    *operation("grid_sample", "grid_sample_2d", "photograph-224", turn(1, 3, (224, 224), (224, 224), align_corners=True)),
    *operation("grid_sample", "grid_sample_2d", "nearest-64x64", turn(2, 32, (64, 64), (64, 64), mode="nearest")),
    *operation("grid_sample", "grid_sample_2d", "bicubic-28x28", turn(4, 64, (28, 28), (28, 28), mode="bicubic")),
    *operation("grid_sample", "grid_sample_2d", "reflected-32x32", turn(1, 256, (32, 32), (64, 64), padding_mode="reflection")),
]
