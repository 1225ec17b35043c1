"""Shape operations on Vars: they move elements and compute nothing, so they need no backend.

Each is a pair: ``_name`` on arrays, by NumPy, and a GradFn whose gradient is another of these operations. Results share memory with
the operand where NumPy's do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _check
from .._types import Array, Operand
from ..errors import ArgumentError, DTypeError, IndexRangeError, ShapeError, message, shown
from ._context import current, default_backend
from ._parts import Part, basic
from ._separate import sum_to
from ._var import GradFn, Var, attached

__all__ = [
    "broadcast_to", "concat", "expand_dims", "flatten", "gather", "getitem", "reshape", "scatter_add", "slice_axis", "squeeze",
    "stack", "transpose", "where",
]  # fmt: skip


def operand(op: str, name: str, x: Any) -> tuple[Array, Any]:
    """(array, place on the tape) of a Var or array."""
    return (x.array, x._edge) if isinstance(x, Var) else (_check.array(op, name, x), None)


def recorded(node: type[GradFn], output: Array, edges: Sequence[Any], saved: tuple[Any, ...]) -> Var:
    """`output` as a Var, on the tape if any operand is."""
    settings = current()
    if settings.recording and any(edge is not None for edge in edges):
        return attached(output, node(settings.backend or default_backend(), edges, saved))
    return attached(output, None)


def index_array(op: str, name: str, value: Any) -> Array:
    return _check.integers(op, name, value.array if isinstance(value, Var) and not value.requires_grad else value)


class ShapeGradFn(GradFn):
    """A GradFn whose gradient shares memory with output_grad."""

    __slots__ = ()
    shares = True


# ---------------------------------------------------------------- the same elements in another shape


class ReshapeBackward(ShapeGradFn):
    __slots__ = ()
    op, saved_names = "reshape", ("shape",)

    @staticmethod
    def _compute(ops: Any, g: Any, needs: Any, saved: Any) -> Any:
        return (g.reshape(saved[0]),)


def reshape(x: Var | Operand, shape: int | Sequence[int]) -> Var:
    """`x` in another shape of as many elements; one length may be -1."""
    array, edge = operand("reshape", "x", x)
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    try:
        output = array.reshape(lengths)
    except (TypeError, ValueError):
        raise ShapeError(message("reshape", "shape", shown(shape), f"a shape of {array.size} elements")) from None
    return recorded(ReshapeBackward, output, (edge,), (array.shape,))


def flatten(x: Var | Operand, start_axis: int = 0) -> Var:
    """`x` with the axes from `start_axis` on made one."""
    array, _ = operand("flatten", "x", x)
    start = _check.axis("flatten", start_axis, array.ndim) if array.ndim else 0
    return reshape(x, (*array.shape[:start], int(np.prod(array.shape[start:], dtype=np.int64))))


def squeeze(x: Var | Operand, axis: int | Sequence[int] | None = None) -> Var:
    """`x` without axes of length 1: all of them, or those named."""
    array, _ = operand("squeeze", "x", x)
    if axis is None:
        axes = tuple(a for a, n in enumerate(array.shape) if n == 1)
    else:
        axes = tuple(_check.axis("squeeze", a, array.ndim) for a in ((axis,) if isinstance(axis, int) else axis))
    if any(array.shape[a] != 1 for a in axes):
        raise ShapeError(message("squeeze", "axis", shown(axis), f"axes of length 1 of the shape {array.shape}"))
    return reshape(x, tuple(n for a, n in enumerate(array.shape) if a not in axes))


def expand_dims(x: Var | Operand, axis: int) -> Var:
    """`x` with a new axis of length 1 at `axis`."""
    array, _ = operand("expand_dims", "x", x)
    a = _check.axis("expand_dims", axis, array.ndim + 1)
    return reshape(x, (*array.shape[:a], 1, *array.shape[a:]))


class TransposeBackward(ShapeGradFn):
    __slots__ = ()
    op, saved_names = "transpose", ("axes",)

    @staticmethod
    def _compute(ops: Any, g: Any, needs: Any, saved: Any) -> Any:
        return (g.transpose(tuple(int(a) for a in np.argsort(saved[0]))),)


def transpose(x: Var | Operand, axes: Sequence[int] | None = None) -> Var:
    """`x` with its axes in another order: reversed, or as named."""
    array, edge = operand("transpose", "x", x)
    order = tuple(range(array.ndim))[::-1] if axes is None else tuple(_check.axis("transpose", a, array.ndim) for a in axes)
    if sorted(order) != list(range(array.ndim)):
        raise ArgumentError(message("transpose", "axes", shown(axes), f"each of {array.ndim} axes once"))
    return recorded(TransposeBackward, array.transpose(order), (edge,), (order,))


class BroadcastToBackward(ShapeGradFn):
    __slots__ = ()
    op, saved_names = "broadcast_to", ("shape",)

    @staticmethod
    def _compute(ops: Any, g: Any, needs: Any, saved: Any) -> Any:
        return (sum_to(ops, g, saved[0]),)


def broadcast_to(x: Var | Operand, shape: Sequence[int]) -> Var:
    """`x` repeated to a shape, by NumPy's rules and without a copy."""
    array, edge = operand("broadcast_to", "x", x)
    lengths = _check.dims("broadcast_to", "shape", shape)
    try:
        output = np.broadcast_to(array, lengths)
    except ValueError:
        raise ShapeError(message("broadcast_to", "shape", f"{lengths}", f"one to which {array.shape} broadcasts")) from None
    return recorded(BroadcastToBackward, output, (edge,), (array.shape,))


# ---------------------------------------------------------------- parts


def add_at(shape: tuple[int, ...], key: Any, values: Array) -> Array:
    """Zeros of a shape, to which `values` are added at a NumPy index."""
    return Part(shape, key, values).dense()


class GetitemBackward(ShapeGradFn):
    __slots__ = ()
    op, saved_names = "getitem", ("shape", "key")

    @staticmethod
    def _compute(ops: Any, g: Any, needs: Any, saved: Any) -> Any:
        shape, key = saved
        return (put(g, shape, key) if isinstance(g, Var) else Part(shape, key, g),)


class PutBackward(ShapeGradFn):
    __slots__ = ()
    op, saved_names = "put", ("key",)

    @staticmethod
    def _compute(ops: Any, g: Any, needs: Any, saved: Any) -> Any:
        return (g[saved[0]],)


def getitem(x: Var | Operand, key: Any) -> Var:
    """``x[key]`` with NumPy's indexing: slices, integers, None, Ellipsis, integer and boolean arrays."""
    array, edge = operand("getitem", "x", x)
    keys = key if isinstance(key, tuple) else (key,)
    if any(isinstance(k, Var) for k in keys):
        keys = tuple(_key_array(k) if isinstance(k, Var) else k for k in keys)
        key = keys if isinstance(key, tuple) else keys[0]
    try:
        output = array[key]
    except IndexError as error:
        raise IndexRangeError(message("getitem", "key", shown(key), f"an index of the shape {array.shape} ({error})")) from None
    except (TypeError, ValueError):
        raise ArgumentError(message("getitem", "key", shown(key), f"an index of the shape {array.shape}")) from None
    if not basic(key) and edge is not None:
        key = tuple(k.copy() if isinstance(k, np.ndarray) else k for k in key) if isinstance(key, tuple) else _copied(key)
    return recorded(GetitemBackward, np.asarray(output), (edge,), (array.shape, key))


def _key_array(key: Var) -> Array:
    if key.requires_grad or key.array.dtype.kind not in "iub":
        raise DTypeError(message("getitem", "key", f"a Var of {key.array.dtype}", "integers or booleans"))
    return key.array


def _copied(key: Any) -> Any:
    return key.copy() if isinstance(key, np.ndarray) else key


def put(x: Var, shape: tuple[int, ...], key: Any) -> Var:
    """Zeros of a shape, to which `x` is added at a NumPy index: the adjoint of :func:`getitem`."""
    return recorded(PutBackward, add_at(shape, key, x.array), (x._edge,), (key,))


def slice_axis(x: Var | Operand, axis: int, start: int | None = None, stop: int | None = None, step: int | None = None) -> Var:
    """``start:stop:step`` along one axis."""
    array, _ = operand("slice_axis", "x", x)
    a = _check.axis("slice_axis", axis, array.ndim)
    return getitem(x, (slice(None),) * a + (slice(start, stop, step),))


class ConcatBackward(ShapeGradFn):
    __slots__ = ()
    op, saved_names = "concat", ("axis", "lengths")

    @staticmethod
    def _compute(ops: Any, g: Any, needs: Any, saved: Any) -> Any:
        axis, lengths = saved
        found, start = [], 0
        for need, length in zip(needs, lengths, strict=True):
            found.append(None if need is None else g[(slice(None),) * axis + (slice(start, start + length),)])
            start += length
        return tuple(found)


def concat(xs: Sequence[Var | Operand], axis: int = 0) -> Var:
    """Join along an axis."""
    if not isinstance(xs, list | tuple) or not xs:
        raise ArgumentError(message("concat", "xs", shown(xs), "a sequence of at least one Var or array"))
    pairs = [operand("concat", "xs", x) for x in xs]
    arrays = [a for a, _ in pairs]
    a = _check.axis("concat", axis, arrays[0].ndim)
    for other in arrays[1:]:
        if other.dtype != arrays[0].dtype:
            raise DTypeError(message("concat", "xs", f"of {arrays[0].dtype} and {other.dtype}", "arrays of one dtype"))
        if other.ndim != arrays[0].ndim or any(n != m for i, (n, m) in enumerate(zip(other.shape, arrays[0].shape, strict=True)) if i != a):
            raise ShapeError(message("concat", "xs", f"of shapes {arrays[0].shape} and {other.shape}", f"equal ones but for axis {a}"))
    lengths = tuple(b.shape[a] for b in arrays)
    return recorded(ConcatBackward, np.concatenate(arrays, a), [edge for _, edge in pairs], (a, lengths))


def stack(xs: Sequence[Var | Operand], axis: int = 0) -> Var:
    """Join along a new axis."""
    if not isinstance(xs, list | tuple) or not xs:
        raise ArgumentError(message("stack", "xs", shown(xs), "a sequence of at least one Var or array"))
    return concat([expand_dims(x, axis) for x in xs], axis)


# ---------------------------------------------------------------- choices


class WhereBackward(ShapeGradFn):
    __slots__ = ()
    op, saved_names = "where", ("condition", "x_shape", "y_shape")

    @staticmethod
    def _compute(ops: Any, g: Any, needs: Any, saved: Any) -> Any:
        condition, x_shape, y_shape = saved
        choose = where if isinstance(g, Var) else chosen
        zero = np.zeros((), g.dtype)
        return (
            None if needs[0] is None else sum_to(ops, choose(condition, g, zero), x_shape),
            None if needs[1] is None else sum_to(ops, choose(condition, zero, g), y_shape),
        )


def chosen(condition: Array, x: Any, y: Any) -> Array:
    """np.where, always an array."""
    return np.asarray(np.where(condition, x, y))


def where(condition: Var | Operand, x: Var | Operand | float, y: Var | Operand | float) -> Var:
    """`x` where the condition holds, else `y`; all three broadcast. No gradient goes through what is not chosen, not even a NaN."""
    c, c_edge = operand("where", "condition", condition)
    if c_edge is not None or c.dtype != np.bool_:
        raise DTypeError(message("where", "condition", f"of dtype {c.dtype}", "bool"))
    values = []
    other = next((v.dtype for v in (x, y) if hasattr(v, "dtype")), np.dtype(np.float64))
    for name, value in (("x", x), ("y", y)):
        values.append((np.asarray(value, other), None) if type(value) in (int, float) else operand("where", name, value))
    (xa, x_edge), (ya, y_edge) = values
    if xa.dtype != ya.dtype:
        raise DTypeError(message("where", "y", f"{ya.dtype}, and x {xa.dtype}", "one dtype"))
    try:
        output = chosen(c, xa, ya)
    except ValueError:
        raise ShapeError(message("where", "x", f"of shape {xa.shape}, y {ya.shape}, condition {c.shape}", "shapes that broadcast")) from None
    return recorded(WhereBackward, output, (x_edge, y_edge), (c, xa.shape, ya.shape))


def _along(op: str, x: Any, indices: Any, axis: int) -> tuple[Array, Any, Array, int]:
    array, edge = operand(op, "x", x)
    a = _check.axis(op, axis, array.ndim)
    index = index_array(op, "indices", indices)
    if index.ndim != array.ndim or any(n != m for i, (n, m) in enumerate(zip(index.shape, array.shape, strict=True)) if i != a):
        raise ShapeError(message(op, "indices", f"of shape {index.shape}", f"{array.shape} but for axis {a}"))
    return array, edge, index, a


class GatherBackward(ShapeGradFn):
    __slots__ = ()
    op, saved_names = "gather", ("indices", "axis", "length")
    shares = False

    @staticmethod
    def _compute(ops: Any, g: Any, needs: Any, saved: Any) -> Any:
        indices, axis, length = saved
        return (scatter_add(g, indices, axis, length) if isinstance(g, Var) else scattered(g, indices, axis, length),)


class ScatterAddBackward(ShapeGradFn):
    __slots__ = ()
    op, saved_names = "scatter_add", ("indices", "axis")
    shares = False

    @staticmethod
    def _compute(ops: Any, g: Any, needs: Any, saved: Any) -> Any:
        indices, axis = saved
        return (gather(g, indices, axis) if isinstance(g, Var) else np.take_along_axis(g, indices, axis),)


def scattered(values: Array, indices: Array, axis: int, length: int) -> Array:
    """Zeros with `length` cells along an axis, to which every value is added at its index; in index order."""
    out = np.zeros((*values.shape[:axis], length, *values.shape[axis + 1 :]), values.dtype)
    grid = list(np.ogrid[tuple(slice(n) for n in values.shape)])
    grid[axis] = indices
    np.add.at(out, tuple(grid), values)
    return out


def gather(x: Var | Operand, indices: Operand, axis: int = -1) -> Var:
    """The elements of `x` at `indices` along an axis; elsewhere both have one shape (np.take_along_axis)."""
    array, edge, index, a = _along("gather", x, indices, axis)
    _check.index_range("gather", "indices", index, array.shape[a])
    return recorded(GatherBackward, np.take_along_axis(array, index, a), (edge,), (index, a, array.shape[a]))


def scatter_add(x: Var | Operand, indices: Operand, axis: int, length: int) -> Var:
    """Zeros with `length` cells along an axis, to which the elements of `x` are added at `indices`: the adjoint of :func:`gather`."""
    array, edge = operand("scatter_add", "x", x)
    a = _check.axis("scatter_add", axis, array.ndim)
    index = index_array("scatter_add", "indices", indices)
    _check.shape("scatter_add", "indices", index, array.shape)
    n = _check.integer("scatter_add", "length", length, 0)
    _check.index_range("scatter_add", "indices", index, n)
    return recorded(ScatterAddBackward, scattered(array, index, a, n), (edge,), (index, a))
