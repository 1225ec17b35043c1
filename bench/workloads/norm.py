"""Normalisation."""

import numpy as np

from ..operations import Call
from .base import normal, operation


def rows(shape, beta=True, residual=False):
    def make(rng):
        args = {"x": normal(rng, *shape)}
        if residual:
            args["residual"] = normal(rng, *shape)
        args |= {"gamma": normal(rng, shape[-1]) + 1.5}
        return Call({**args, "beta": normal(rng, shape[-1]), "epsilon": 1e-5} if beta else {**args, "epsilon": 1e-5})

    return make


def channels(shape, *, given=False, groups=None):
    """Batch norm with the batch's statistics or given ones; group norm with `groups`."""

    def make(rng):
        c = shape[1]
        args = {"x": normal(rng, *shape) + 0.5}
        if groups:
            args["num_groups"] = groups
        args |= {"gamma": normal(rng, c) + 1.5, "beta": normal(rng, c)}
        if given:
            args |= {"mean": normal(rng, c), "variance": np.abs(normal(rng, c)) + 0.3}
        return Call({**args, "epsilon": 1e-5})

    return make


STAGE = (8, 64, 56, 56)

WORKLOADS = [
    *operation("norm", "layer_norm", "transformer-512x768", rows((512, 768))),
    *operation("norm", "layer_norm", "small-65536x32", rows((65536, 32)), gradients=()),
    *operation("norm", "rms_norm", "transformer-512x768", rows((512, 768), beta=False)),
    *operation("add_norm", "add_layer_norm", "transformer-512x768", rows((512, 768), residual=True)),
    *operation("add_norm", "add_layer_norm", "long-4096x768", rows((4096, 768), residual=True)),
    *operation("add_norm", "add_rms_norm", "long-4096x768", rows((4096, 768), beta=False, residual=True)),
    *operation("norm", "batch_norm", "resnet-8x64x56x56", channels(STAGE, given=True), gradients=()),
    *operation("norm", "batch_norm_train", "resnet-8x64x56x56", channels(STAGE)),
    *operation("norm", "batch_norm_train", "resnet-4x512x7x7", channels((4, 512, 7, 7))),
    *operation("norm", "group_norm", "unet-2x128x64x64g32", channels((2, 128, 64, 64), groups=32)),
    *operation("norm", "instance_norm", "style-1x64x128x128", channels((1, 64, 128, 128))),
]
