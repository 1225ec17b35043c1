"""The memory that outputs and scratch come from: how much is kept for the next call, and how to bound it.

The memory of an array that died is kept for a later result, because fresh memory costs page faults (docs/memory.md).
``CPUOPS_MEMORY_LIMIT`` (bytes, or with a suffix as in ``256M``) bounds what is kept; it is read at import.
"""

import operator
import os
import warnings

from . import _memory
from .errors import ArgumentError, message, shown

__all__ = ["info", "limit", "set_limit", "trim"]

_LARGEST = 1 << 62  # bytes
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def info():
    """Return what the pool holds.

    Returns
    -------
    dict
        ``held`` (bytes in free blocks that are kept), ``in_use`` (bytes in blocks of live arrays and of scratch),
        ``limit`` (the most that `held` may be, in bytes), ``blocks`` (free blocks), ``hits`` and ``misses`` (requests since
        the import that a free block served, and that the system had to serve).
    """
    return dict(zip(("held", "in_use", "limit", "blocks", "hits", "misses"), _memory.counts(), strict=True))


def limit():
    """Return the most bytes that the pool keeps.

    Returns
    -------
    int
    """
    return info()["limit"]


def set_limit(nbytes):
    """Bound the bytes that the pool keeps; what is above goes back to the system at once.

    Parameters
    ----------
    nbytes : int
        Bytes, at least 0; 0 keeps nothing. Live arrays do not count.

    Raises
    ------
    ArgumentError
        When `nbytes` is no integer from 0 to 2**62.
    """
    _memory.set_limit(_bytes("set_limit", nbytes))


def trim(keep=0):
    """Give free blocks back to the system, the oldest first, until the pool holds at most `keep` bytes.

    Parameters
    ----------
    keep : int
        Bytes, at least 0.

    Returns
    -------
    int
        The bytes given back.

    Raises
    ------
    ArgumentError
        When `keep` is no integer from 0 to 2**62.
    """
    keep = _bytes("trim", keep, "keep")
    before = info()["held"]
    _memory.trim(keep)
    return before - info()["held"]


def _bytes(op, value, name="nbytes"):
    if not isinstance(value, bool):
        try:
            number = operator.index(value)
        except TypeError:
            number = -1
        if 0 <= number <= _LARGEST:
            return number
    raise ArgumentError(message(f"memory.{op}", name, shown(value), "an integer number of bytes from 0 to 2**62"))


def _parsed(text):
    """Bytes of "268435456", "64K", "256M", "256MB", "1.5GiB"; ValueError for anything else."""
    word = text.strip().upper().removesuffix("B").removesuffix("I")
    unit = _UNITS.get(word[-1:], 1)
    number = word[:-1].rstrip() if unit > 1 else word
    if not number.isascii() or not number.replace(".", "", 1).isdigit():
        raise ValueError(text)
    value = int(number) * unit if number.isdigit() else int(float(number) * unit)
    if value > _LARGEST:
        raise ValueError(text)
    return value


def _set_first_limit(text):
    if not text.strip():
        return
    try:
        _memory.set_limit(_parsed(text))
    except (ValueError, OverflowError):
        warnings.warn(
            f"CPUOPS_MEMORY_LIMIT is {shown(text)}, expected bytes such as 268435456 or 256M; the limit stays 256M",
            RuntimeWarning,
            stacklevel=2,
        )


_set_first_limit(os.environ.get("CPUOPS_MEMORY_LIMIT", ""))
