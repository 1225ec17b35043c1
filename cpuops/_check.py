"""Argument checks: the first lines of every method.

A kernel cannot fail, so everything that could make it fail is found here, before anything is allocated. `op` is the
method's public name and `name` the argument's: both stand in every message.
"""

import math
import operator

import numpy as np

from . import _memory, _operand
from ._operand import floating, ready_alike
from .errors import ArgumentError, DTypeError, IndexRangeError, ShapeError, message, shown

__all__ = [
    "axes", "axis", "broadcast", "choice", "dims", "epsilon", "flag", "floating", "floatings", "index_range", "integer",
    "integers", "mask", "number", "padding", "per_axis", "rank", "same_shape", "shape", "strided",
]  # fmt: skip

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
# sizes and options beyond this cannot be meant and could overflow a product of two
BOUND = 2**62
_ARRAY_PROTOCOLS = ("__array__", "__array_interface__", "__array_struct__", "__dlpack__")


# ---------------------------------------------------------------- arrays


def array(op, name, value):
    """`value` as a plain ndarray without copying; lists, scalars and strangers are refused."""
    if isinstance(value, np.ndarray | np.generic):  # a NumPy scalar is a 0-d array in all but name
        return np.asarray(value)
    refusal = DTypeError(
        message(op, name, f"a {type(value).__name__}", "a NumPy array (or a buffer, __array__ or DLPack object)")
    )
    if isinstance(value, type):
        raise refusal
    try:
        if not any(hasattr(value, p) for p in _ARRAY_PROTOCOLS):
            value = memoryview(value)
        elif not hasattr(value, "__array__") and hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
        return np.asarray(value)
    except MemoryError:
        raise
    except Exception as error:  # whatever a foreign object's protocol raises
        raise refusal from error


def _float_array(op, name, value):
    a = array(op, name, value)
    if a.dtype.kind != "f" or a.dtype.itemsize not in (4, 8):
        raise DTypeError(message(op, name, f"of dtype {shown(a.dtype)}", "float32 or float64"))
    return a


def contiguous(a):
    """`a` C-contiguous, aligned and in native byte order: itself, or one copy."""
    if a.flags.c_contiguous and a.flags.aligned and a.dtype.isnative:
        return a
    out = _memory.empty(a.shape, a.dtype.newbyteorder("="))
    np.copyto(out, a)
    return out


def _slow_floating(op, name, value):
    return contiguous(_float_array(op, name, value))


_operand.set_slow_path(_slow_floating)


def _one_dtype(op, names, arrays):
    first = None
    for name, a in zip(names, arrays, strict=True):
        if a is None:
            continue
        if first is None:
            first, first_name = a.dtype, name
        elif a.dtype != first:
            raise DTypeError(
                f"{op}: {name} is {a.dtype}, but {first_name} is {first}; cast one: {name}.astype({first_name}.dtype)"
            )


def floatings(op, names, values):
    """All of `values` as :func:`floating` gives them, all of one dtype; None passes through."""
    if _operand.ready_together(values, True):
        return values
    arrays = [None if v is None else floating(op, n, v) for n, v in zip(names, values, strict=True)]
    _one_dtype(op, names, arrays)
    return arrays


def required(op, names, values):
    """:func:`floatings` without None."""
    if _operand.ready_together(values, False):
        return values
    return floatings(op, names, [_refuse_none(op, n, v) for n, v in zip(names, values, strict=True)])


def _refuse_none(op, name, value):
    if value is None:
        raise DTypeError(message(op, name, "None", "a NumPy array"))
    return value


def same_shape(op, names, values):
    """Operands of one dtype that all have the shape of the last one."""
    if len(values) == 2 and ready_alike(*values):
        return values
    arrays = required(op, names, values)
    for name, a in zip(names[:-1], arrays[:-1], strict=True):
        if a.shape != arrays[-1].shape:
            raise ShapeError(message(op, name, f"of shape {a.shape}", f"{names[-1]}'s shape {arrays[-1].shape}"))
    return arrays


def strided(op, names, values):
    """Operands of one dtype with their strides kept: native and aligned, strides whole elements; None passes through."""
    if _operand.ready_strided(tuple(values)):
        return values
    arrays = []
    for name, value in zip(names, values, strict=True):
        if value is not None and not _operand.ready(value):
            value = _float_array(op, name, value)
            a = value
            if not (a.flags.aligned and a.dtype.isnative and all(s % a.itemsize == 0 for s in a.strides)):
                value = contiguous(a)
        arrays.append(value)
    _one_dtype(op, names, arrays)
    return arrays


def required_strided(op, names, values):
    """:func:`strided` without None."""
    if _operand.ready_strided(values):
        return values
    return strided(op, names, [_refuse_none(op, n, v) for n, v in zip(names, values, strict=True)])


def integers(op, name, value):
    """An index array as C-contiguous int64."""
    if _operand.ready_indices(value):
        return value
    a = array(op, name, value)
    if a.dtype.kind not in "iu":
        raise DTypeError(message(op, name, f"of dtype {shown(a.dtype)}", "integers"))
    if a.dtype.kind == "u" and a.dtype.itemsize == 8 and a.size and a.max() > np.iinfo(np.int64).max:
        raise IndexRangeError(message(op, name, f"{a.max()} somewhere", "an index below 2**63"))
    if a.dtype != np.int64:
        a = a.astype(np.int64, order="C")
    return contiguous(a)


def index_range(op, name, indices, upper, ignore=None):
    """Refuse indices outside 0 <= i < upper (those equal to `ignore` may be anything)."""
    if _operand.in_range(indices, upper):
        return
    bad = (indices < 0) | (indices >= upper)
    if ignore is not None:
        bad &= indices != ignore
    if bad.any():
        at = tuple(int(i) for i in np.unravel_index(int(bad.argmax()), indices.shape))
        raise IndexRangeError(message(op, name, f"{indices[at]} at {list(at)}", f"an index from 0 to {upper - 1}"))


def mask(op, name, value):
    """A bool array, strides as they are."""
    a = array(op, name, value)
    if a.dtype != np.bool_:
        raise DTypeError(message(op, name, f"of dtype {shown(a.dtype)}", "bool"))
    return a


def rank(op, name, a, low, high=None):
    high = low if high is None else high
    if not low <= a.ndim <= high:
        wanted = f"{low} axes" if low == high else f"{low} to {high} axes" if high < 64 else f"at least {low} axes"
        raise ShapeError(message(op, name, f"of shape {a.shape} ({a.ndim} axes)", wanted))


def shape(op, name, a, expected, why=""):
    if a.shape != tuple(expected):
        raise ShapeError(message(op, name, f"of shape {a.shape}", f"{tuple(expected)}{why and ': ' + why}"))


def broadcast(op, names, shapes):
    """The shape that `shapes` broadcast to."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        pairs = " and ".join(f"{n} of shape {s}" for n, s in zip(names, shapes, strict=True))
        raise ShapeError(f"{op}: {pairs} do not broadcast, expected equal lengths or 1 on every axis") from None


# ---------------------------------------------------------------- options


def integer(op, name, value, low=None, high=None):
    """An option that is one whole number (no bool, float or string)."""
    if type(value) is int and -BOUND < value < BOUND and (low is None or low <= value) and (high is None or value <= high):
        return value
    wanted = "an integer" if low is None else f"an integer >= {low}" if high is None else f"an integer from {low} to {high}"
    try:
        if isinstance(value, bool | np.bool_ | np.ndarray):
            raise TypeError
        v = operator.index(value)
    except Exception:  # a foreign __index__ may raise anything
        raise ArgumentError(message(op, name, shown(value), wanted)) from None
    if (low is not None and v < low) or (high is not None and v > high):
        raise ArgumentError(message(op, name, shown(v), wanted))
    if not -BOUND < v < BOUND:
        raise ArgumentError(message(op, name, shown(v), f"{wanted} of a size that fits an array"))
    return v


def number(op, name, value, low=None, strict=False, finite=True):
    """An option that is one real number; `low` is a bound, exclusive when `strict`."""
    wanted = "a finite number" if finite else "a number"
    if low is not None:
        wanted += f" {'>' if strict else '>='} {low}"
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        raise ArgumentError(message(op, name, shown(value), wanted))
    try:
        v = float(value)
    except OverflowError:
        raise ArgumentError(message(op, name, shown(value), wanted)) from None
    if (finite and not math.isfinite(v)) or (low is not None and not (v > low if strict else v >= low)):
        raise ArgumentError(message(op, name, shown(value), wanted))
    return v


def epsilon(op, value):
    return number(op, "epsilon", value, low=0)


def flag(op, name, value):
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError(message(op, name, shown(value), "True or False"))
    return bool(value)


def choice(op, name, value, allowed):
    if not isinstance(value, str) or value not in allowed:
        raise ArgumentError(message(op, name, shown(value), "one of " + ", ".join(map(repr, allowed))))
    return value


def _sequence(op, name, value, n, wanted):
    """`value` as a list of n entries; an array of integers counts as a sequence."""
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = list(value)
    if not isinstance(value, list | tuple):
        raise ArgumentError(message(op, name, shown(value), wanted))
    if len(value) != n:
        raise ArgumentError(message(op, name, f"{shown(value)} of {len(value)} entries", wanted))
    return value


def _is_integer(value):
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def per_axis(op, name, value, n, low):
    """An int for all n axes, or a sequence of n of them."""
    if not isinstance(value, list | tuple | np.ndarray):
        return (integer(op, name, value, low),) * n
    return tuple(integer(op, name, v, low) for v in _sequence(op, name, value, n, f"an integer >= {low}, or {n} of them"))


def padding(op, value, n, words=(), kernel=None, stride=None, dilation=None):
    """Padding of n axes as (before, after) pairs.

    An int, n ints, n pairs, or a word of `words`: "valid" is none, "same" keeps the length (odd extra at the end) and
    needs `kernel`, `stride` and `dilation`.
    """
    wanted = f"an integer >= 0, {n} of them, {n} (before, after) pair{'s' if n > 1 else ''}"
    wanted += "".join(f' or "{w}"' for w in words)
    if isinstance(value, str) and value in words:
        if value == "valid":
            return ((0, 0),) * n
        if any(s != 1 for s in stride):
            raise ArgumentError(message(op, "padding", f'"same" with stride {stride}', "stride 1 on every axis"))
        total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return tuple((t // 2, t - t // 2) for t in total)
    if isinstance(value, list | tuple | np.ndarray):
        pairs = []
        for entry in _sequence(op, "padding", value, n, wanted):
            if isinstance(entry, list | tuple):
                before, after = (integer(op, "padding", v, 0) for v in _sequence(op, "padding", entry, 2, wanted))
                pairs.append((before, after))
            else:
                pairs.append((integer(op, "padding", entry, 0),) * 2)
        return tuple(pairs)
    if not _is_integer(value):
        raise ArgumentError(message(op, "padding", shown(value), wanted))
    return ((integer(op, "padding", value, 0),) * 2,) * n


def axis(op, value, ndim):
    """One axis, counted from 0."""
    v = integer(op, "axis", value)
    if not -ndim <= v < ndim:
        raise ArgumentError(message(op, "axis", str(v), f"an axis from {-ndim} to {ndim - 1}" if ndim else "an array with axes"))
    return v % ndim


def axes(op, value, ndim):
    """None (all), one axis or a tuple of them, as a sorted tuple."""
    if value is None:
        return tuple(range(ndim))
    if not isinstance(value, tuple | list):
        return (axis(op, value, ndim),)
    found = sorted(axis(op, v, ndim) for v in value)
    if len(set(found)) != len(found):
        raise ArgumentError(message(op, "axis", shown(value), "axes without repetition"))
    return tuple(found)


def dims(op, name, value):
    """A shape: a sequence of whole numbers >= 0."""
    if isinstance(value, np.ndarray) or not isinstance(value, list | tuple):
        raise ArgumentError(message(op, name, shown(value), "a shape (a tuple of integers >= 0)"))
    return tuple(integer(op, name, v, 0) for v in value)
