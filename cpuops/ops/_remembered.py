"""A memory of recent geometries: a network has some dozens of them, and a small operation takes less time than its checks."""

import functools

__all__ = ["remembered"]

MOST = 256  # geometries of one function


def _plain(value):
    """Whether a cache may hold an argument: it would take True and 1.0 for 1."""
    kind = type(value)
    return kind is int or kind is str or (kind is tuple and all(map(_plain, value)))


def remembered(function):
    """`function` of positional arguments, answered from memory where all of them are plain; refusals are not kept."""
    cached = functools.lru_cache(maxsize=MOST)(function)

    @functools.wraps(function)
    def call(*args):
        return cached(*args) if all(map(_plain, args)) else function(*args)

    return call
