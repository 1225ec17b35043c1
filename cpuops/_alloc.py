"""Outputs: new arrays from recycled memory, and the verification of `out=`."""

import numpy as np

from ._memory import empty, zeros
from ._operand import fits
from .errors import ArgumentError, DTypeError, ShapeError, message, shown

__all__ = ["aligned", "empty", "output", "zeros"]


def aligned(a, dtype):
    """A copy that begins with a cache line, as NumPy's arrays do not: products read such weights up to a tenth faster."""
    out = empty(a.shape, dtype)
    out[...] = a
    return out


def output(op, out, shape, dtype, operands, inplace=()):
    """The array an operation writes to: a new one, or `out` once it is verified.

    Parameters
    ----------
    op : str
        The method's name, for messages.
    out : ndarray or None
        As the caller gave it.
    shape, dtype
        What the result has.
    operands : sequence
        The operands as the caller gave them: `out` may not overlap one of them.
    inplace : sequence
        Those of them that `out` may exactly be.
    """
    if out is None:
        return empty(shape, dtype)
    if fits(out, tuple(shape), dtype, tuple(operands), tuple(inplace)):
        return out
    if not isinstance(out, np.ndarray):
        raise ArgumentError(message(op, "out", f"a {type(out).__name__}", "a NumPy array"))
    if out.dtype != dtype or not out.dtype.isnative:
        raise DTypeError(message(op, "out", f"of dtype {shown(out.dtype)}", f"{dtype} in native byte order"))
    if out.shape != tuple(shape):
        raise ShapeError(message(op, "out", f"of shape {out.shape}", f"{tuple(shape)}"))
    if not (out.flags.c_contiguous and out.flags.writeable and out.flags.aligned):
        what = "read-only" if not out.flags.writeable else "not C-contiguous" if not out.flags.c_contiguous else "misaligned"
        raise ArgumentError(message(op, "out", what, "a writable, aligned, C-contiguous array"))
    for operand in operands:
        if operand is None or np.isscalar(operand):
            continue
        a = np.asarray(operand)
        if np.may_share_memory(out, a) and not (_same_memory(out, a) and any(operand is p for p in inplace)):
            raise ArgumentError(message(op, "out", "an array that overlaps an operand", _allowed(inplace)))
    return out


def _same_memory(a, b):
    return a.ctypes.data == b.ctypes.data and a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype


def _allowed(inplace):
    return "memory of its own, or exactly an operand" if inplace else "memory of its own"
