"""Initialisers, by the names of their papers' first authors. Each returns a new array.

`fan_in` and `fan_out` are the numbers of products summed into one output, and of outputs that one input goes to; layers give them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._alloc import aligned
from .._types import Array
from ..errors import ArgumentError, message

__all__ = [
    "GAINS", "fans", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "lecun_normal", "lecun_uniform", "normal", "orthogonal",
    "truncated_normal", "uniform",
]  # fmt: skip

# what an activation's second moment has to be multiplied by to stay what it was (He et al. 2015)
GAINS = {"linear": 1.0, "relu": math.sqrt(2.0), "tanh": 5 / 3, "sigmoid": 1.0, "selu": 0.75}


def fans(shape: Sequence[int], kind: str = "linear", groups: int = 1) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight: "linear" [d_in, d_out], "conv" [Cout, Cin/G, k…] or "conv_transpose" [Cin, Cout/G, k…]."""
    if kind == "linear" and len(shape) == 2:
        return shape[0], shape[1]
    if kind in ("conv", "conv_transpose") and len(shape) > 2:
        taps = math.prod(shape[2:])
        first, second = shape[0] // groups * taps, shape[1] * taps
        return (second, first) if kind == "conv" else (first, second)
    raise ArgumentError(message("fans", "kind", repr(kind), '"linear", "conv" or "conv_transpose", and a shape of that kind'))


def uniform(generator: np.random.Generator, shape: Sequence[int], dtype: Any, bound: float) -> Array:
    """Uniform on (−bound, bound)."""
    return aligned(generator.uniform(-bound, bound, tuple(shape)), dtype)


def normal(generator: np.random.Generator, shape: Sequence[int], dtype: Any, std: float = 1.0) -> Array:
    """Normal with mean 0."""
    return aligned(generator.normal(0.0, std, tuple(shape)), dtype)


def truncated_normal(generator: np.random.Generator, shape: Sequence[int], dtype: Any, std: float = 1.0, limit: float = 2.0) -> Array:
    """Normal with mean 0, drawn again where it exceeds `limit` standard deviations."""
    a = generator.normal(0.0, 1.0, tuple(shape))
    while (beyond := np.abs(a) > limit).any():
        a[beyond] = generator.normal(0.0, 1.0, int(beyond.sum()))
    return aligned(a * std, dtype)


def glorot_uniform(generator: np.random.Generator, shape: Sequence[int], dtype: Any, fan_in: int, fan_out: int, gain: float = 1.0) -> Array:
    """Glorot and Bengio 2010: uniform with variance gain² · 2/(fan_in + fan_out)."""
    return uniform(generator, shape, dtype, gain * math.sqrt(6.0 / max(fan_in + fan_out, 1)))


def glorot_normal(generator: np.random.Generator, shape: Sequence[int], dtype: Any, fan_in: int, fan_out: int, gain: float = 1.0) -> Array:
    """Glorot and Bengio 2010: normal with variance gain² · 2/(fan_in + fan_out)."""
    return normal(generator, shape, dtype, gain * math.sqrt(2.0 / max(fan_in + fan_out, 1)))


def he_uniform(generator: np.random.Generator, shape: Sequence[int], dtype: Any, fan_in: int, gain: float = GAINS["relu"]) -> Array:
    """He et al. 2015: uniform with variance gain²/fan_in."""
    return uniform(generator, shape, dtype, gain * math.sqrt(3.0 / max(fan_in, 1)))


def he_normal(generator: np.random.Generator, shape: Sequence[int], dtype: Any, fan_in: int, gain: float = GAINS["relu"]) -> Array:
    """He et al. 2015: normal with variance gain²/fan_in."""
    return normal(generator, shape, dtype, gain / math.sqrt(max(fan_in, 1)))


def lecun_uniform(generator: np.random.Generator, shape: Sequence[int], dtype: Any, fan_in: int) -> Array:
    """LeCun et al. 1998: uniform with variance 1/fan_in."""
    return uniform(generator, shape, dtype, math.sqrt(3.0 / max(fan_in, 1)))


def lecun_normal(generator: np.random.Generator, shape: Sequence[int], dtype: Any, fan_in: int) -> Array:
    """LeCun et al. 1998: normal with variance 1/fan_in; for selu (Klambauer et al. 2017)."""
    return normal(generator, shape, dtype, 1.0 / math.sqrt(max(fan_in, 1)))


def orthogonal(generator: np.random.Generator, shape: Sequence[int], dtype: Any, gain: float = 1.0) -> Array:
    """Saxe et al. 2014: rows (or columns) of length `gain`, at right angles; further axes count as columns."""
    if len(shape) < 2:
        raise ArgumentError(message("orthogonal", "shape", f"{tuple(shape)}", "at least two axes"))
    rows, columns = shape[0], math.prod(shape[1:])
    q, r = np.linalg.qr(generator.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))  # uniform over all such matrices
    return aligned((gain * (q if rows >= columns else q.T)).reshape(tuple(shape)), dtype)
