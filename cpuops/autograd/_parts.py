"""Gradients that are no arrays: a Part is zero but for some elements, Several are those of one operation's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _alloc
from .._types import Array

__all__ = ["Part", "Several", "basic", "by_result"]


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


class Several:
    """Gradients that arrive at the results of one operation: at the first, and {place: gradient} at further ones."""

    __slots__ = ("first", "rest")

    def __init__(self, first: Any, rest: dict[int, Any]):
        self.first = first
        self.rest = rest

    @classmethod
    def joined(cls, have: Any, gradient: Any, add: Callable[[Any, Any], Any]) -> Several:
        """Both, of which either may be a gradient to the first result alone."""
        one, other = (v if isinstance(v, Several) else cls(v, {}) for v in (have, gradient))
        first = one.first if other.first is None else other.first if one.first is None else add(one.first, other.first)
        rest = dict(one.rest)
        for place, value in other.rest.items():
            rest[place] = add(rest[place], value) if place in rest else value
        return cls(first, rest)


def by_result(g: Any, places: tuple[int, ...]) -> tuple[Any, ...]:
    """The gradient at the first result (zeros of the others' shape where none arrives) and at some further ones (or None)."""
    if not isinstance(g, Several):
        return (g, *(None for _ in places))
    first = g.first
    if first is None:
        like = next(iter(g.rest.values()))
        first = like * 0.0
    return (first, *(g.rest.get(place) for place in places))
