"""A memory of what options mean: a network has some dozens of calls, and a small one takes less time than its checks."""

from functools import lru_cache, wraps

__all__ = ["remembered"]

KEPT = 256  # answers of one function


def _plain(option):
    """Whether only an option of the same type can be equal to it."""
    return type(option) in (int, float, bool, str, type(None)) or (type(option) is tuple and all(type(o) is int for o in option))


def remembered(function):
    """`function(options, *rest)`, answered from memory where the options, a tuple, are plain; refusals are not kept."""

    @lru_cache(KEPT)
    def kept(kinds, options, *rest):  # True equals 1, but is no number
        return function(options, *rest)

    @wraps(function)
    def call(options, *rest):
        if all(map(_plain, options)):
            return kept(tuple(map(type, options)), options, *rest)
        return function(options, *rest)

    return call
