"""Pooling."""

from ..operations import Call
from .base import normal, operation


def window(shape, size, second="kernel_size", **options):
    return lambda rng: Call({"x": normal(rng, *shape), second: size}, options)


STEM = (4, 64, 112, 112)

WORKLOADS = [
    *operation("pool", "max_pool2d", "resnet-stem-3x3s2", window(STEM, 3, stride=2, padding=1)),
    *operation("pool", "max_pool2d_with_indices", "resnet-stem-3x3s2", window(STEM, 3, stride=2, padding=1)),
    *operation("pool", "max_pool2d_with_indices", "vgg-2x2", window((1, 128, 112, 112), 2)),
    *operation("pool", "max_pool2d", "spp-5x5s1", window((1, 256, 28, 28), 5, stride=1, padding=2), gradients=()),
    *operation("pool", "avg_pool2d", "densenet-2x2", window((4, 128, 56, 56), 2)),
    *operation("pool", "avg_pool2d", "inception-3x3s1", window((4, 192, 28, 28), 3, stride=1, padding=1)),
    *operation("pool", "adaptive_avg_pool2d", "resnet-head", window((32, 2048, 7, 7), 1, "output_size")),
    *operation("pool", "adaptive_avg_pool2d", "pyramid-6x6", window((4, 256, 56, 56), 6, "output_size"), gradients=()),
    *operation("pool", "max_pool1d", "audio-4", window((4, 128, 16000), 4), gradients=()),
    *operation("pool", "max_pool3d", "video-2", window((1, 64, 16, 56, 56), 2), gradients=()),
    *operation("pool", "avg_pool3d", "video-2", window((1, 64, 16, 56, 56), 2), gradients=()),
]
