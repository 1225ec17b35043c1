"""Normalisation layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _check
from .. import autograd as F
from .._types import Operand
from ..autograd import Var
from ._module import Buffer, Module, fraction, ones, zeros

__all__ = ["BatchNorm", "GroupNorm", "InstanceNorm", "LayerNorm", "RMSNorm"]


class BatchNorm(Module):
    """Normalise each channel of [B, C, …]: by the batch's statistics in training, by running ones in use.

    Parameters
    ----------
    channels : int
        C.
    epsilon : float
        Added to the variance.
    momentum : float or None
        Weight of the newest batch in the running statistics; None makes them the plain average of all batches.
    dtype : dtype
        float32 or float64.

    Notes
    -----
    The running variance is the unbiased one (Bessel's n/(n − 1)), the normalisation uses the biased one, as Ioffe and Szegedy 2015.
    """

    def __init__(self, channels: int, *, epsilon: float = 1e-5, momentum: float | None = 0.1, dtype: Any = np.float32):
        c = _check.integer("BatchNorm", "channels", channels, 1)
        self.epsilon = _check.epsilon("BatchNorm", epsilon)
        self.momentum = None if momentum is None else fraction("BatchNorm", "momentum", momentum)
        self.gamma, self.beta = ones(c, dtype), zeros(c, dtype)
        self.running_mean, self.running_variance = Buffer(np.zeros(c, dtype)), Buffer(np.ones(c, dtype))
        self.batches = Buffer(np.zeros((), np.int64))

    def describe(self) -> str:
        return f"{self.gamma.size}, epsilon={self.epsilon}, momentum={self.momentum}"

    def forward(self, x: Var | Operand) -> Var:
        if not self.training:
            return F.batch_norm(x, self.gamma, self.beta, self.running_mean.array, self.running_variance.array, self.epsilon)
        output, mean, variance = F.batch_norm_train(x, self.gamma, self.beta, self.epsilon)
        count = output.size // max(mean.size, 1)
        if count and not F.repeating():
            # new arrays: the old ones may be saved on a tape
            self.batches.array = self.batches.array + 1
            weight = 1.0 / int(self.batches.array) if self.momentum is None else self.momentum
            for running, new in ((self.running_mean, mean), (self.running_variance, variance * (count / (count - 1)))):
                running.array = running.array + (weight * (new - running.array)).astype(running.array.dtype)
        return output  # type: ignore[return-value]


class LayerNorm(Module):
    """Normalise over the last axis, with a factor and an offset for each of its `features` (Ba et al. 2016)."""

    def __init__(self, features: int, *, epsilon: float = 1e-5, bias: bool = True, dtype: Any = np.float32):
        d = _check.integer("LayerNorm", "features", features, 1)
        self.epsilon = _check.epsilon("LayerNorm", epsilon)
        self.gamma = ones(d, dtype)
        self.beta = zeros(d, dtype) if _check.flag("LayerNorm", "bias", bias) else None

    def describe(self) -> str:
        return f"{self.gamma.size}, epsilon={self.epsilon}"

    def forward(self, x: Var | Operand) -> Var:
        return F.layer_norm(x, self.gamma, self.beta, self.epsilon)


class RMSNorm(Module):
    """Divide by the root mean square of the last axis, with a factor for each of its `features` (Zhang and Sennrich 2019)."""

    def __init__(self, features: int, *, epsilon: float = 1e-5, dtype: Any = np.float32):
        self.epsilon = _check.epsilon("RMSNorm", epsilon)
        self.gamma = ones(_check.integer("RMSNorm", "features", features, 1), dtype)

    def describe(self) -> str:
        return f"{self.gamma.size}, epsilon={self.epsilon}"

    def forward(self, x: Var | Operand) -> Var:
        return F.rms_norm(x, self.gamma, self.epsilon)


class GroupNorm(Module):
    """Normalise groups of channels of each sample, with a factor and an offset a channel (Wu and He 2018)."""

    def __init__(self, num_groups: int, channels: int, *, epsilon: float = 1e-5, affine: bool = True, dtype: Any = np.float32):
        self.num_groups = _check.integer("GroupNorm", "num_groups", num_groups, 1)
        self.channels = _check.integer("GroupNorm", "channels", channels, 1)
        self.epsilon = _check.epsilon("GroupNorm", epsilon)
        scaled = _check.flag("GroupNorm", "affine", affine)
        self.gamma = ones(channels, dtype) if scaled else None
        self.beta = zeros(channels, dtype) if scaled else None

    def describe(self) -> str:
        return f"{self.num_groups}, {self.channels}, epsilon={self.epsilon}"

    def forward(self, x: Var | Operand) -> Var:
        return F.group_norm(x, self.num_groups, self.gamma, self.beta, self.epsilon)


class InstanceNorm(Module):
    """Normalise each channel of each sample (Ulyanov et al. 2016); with `affine`, a factor and an offset a channel."""

    def __init__(self, channels: int, *, epsilon: float = 1e-5, affine: bool = False, dtype: Any = np.float32):
        self.channels = _check.integer("InstanceNorm", "channels", channels, 1)
        self.epsilon = _check.epsilon("InstanceNorm", epsilon)
        scaled = _check.flag("InstanceNorm", "affine", affine)
        self.gamma = ones(channels, dtype) if scaled else None
        self.beta = zeros(channels, dtype) if scaled else None

    def describe(self) -> str:
        return f"{self.channels}, epsilon={self.epsilon}"

    def forward(self, x: Var | Operand) -> Var:
        return F.instance_norm(x, self.gamma, self.beta, self.epsilon)
