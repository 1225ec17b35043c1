"""Deformable convolutions: layers of detection networks, with masks (the second version) where nothing is said."""

from table.deform import make  # after operations, which makes it importable

from .base import operation


def deform(label, *shape, **options):
    return operation("deform", "deform_conv2d", label, lambda rng: make(rng, *shape, bias=False, **options))


WORKLOADS = [
    *deform("3x3-64@56", 8, 64, 64, (56, 56), (3, 3), padding=1),
    *deform("3x3-64@56-unmasked", 2, 64, 64, (56, 56), (3, 3), padding=1, mask=False),
    *deform("resnet50-3x3s2-256@28", 2, 256, 256, (28, 28), (3, 3), padding=1, stride=2),
    *deform("resnet50-3x3-512@7", 2, 512, 512, (7, 7), (3, 3), padding=1),
    *deform("head-3x3-128@100x152-4groups", 1, 128, 128, (100, 152), (3, 3), padding=1, offset_groups=4),
    *deform("resnext-3x3-128g32@28", 2, 128, 128, (28, 28), (3, 3), padding=1, weight_groups=32),
    *deform("dlka-5x5-96g96@28", 2, 96, 96, (28, 28), (5, 5), padding=2, weight_groups=96, mask=False),
]
