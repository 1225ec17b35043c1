"""Part: a gradient that is zero but for some elements, so that many parts of one array add up in one array."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _alloc
from .._types import Array

__all__ = ["Part", "basic"]


def basic(key: Any) -> bool:
    """Whether an index names every element at most once: only slices, integers, None and Ellipsis."""
    keys = key if isinstance(key, tuple) else (key,)
    return all(k is None or k is Ellipsis or (isinstance(k, int | np.integer | slice) and not isinstance(k, bool)) for k in keys)


class Part:
    """Values at a NumPy index of an array of zeros."""

    __slots__ = ("key", "shape", "values")

    def __init__(self, shape: tuple[int, ...], key: Any, values: Array):
        self.shape = shape
        self.key = key
        self.values = values

    def add_to(self, out: Array) -> None:
        """Add the values; repeated indices add up."""
        if basic(self.key):
            out[self.key] += self.values
        else:
            np.add.at(out, self.key, self.values)

    def dense(self) -> Array:
        """The whole array."""
        out = _alloc.zeros(self.shape, self.values.dtype)
        self.add_to(out)
        return out
