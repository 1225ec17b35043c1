"""Var: an array on the tape. GradFn: what an operation leaves on it. Leaf: where gradients end up."""

from __future__ import annotations

import itertools
import threading
import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .. import _check
from .._types import Array, Operand
from ..errors import ArgumentError, ChangedError, DTypeError, ReleasedError, ShapeError, message, shown
from ._context import current
from ._parts import Part, Several

__all__ = ["GradFn", "Leaf", "ResultBackward", "Var"]

# one number for every leaf and every recorded operation: an operation's is larger than those of its inputs, so that the
# order of numbers is an order in which gradients can be computed
next_id = itertools.count(1).__next__
new = object.__new__


class Leaf:
    """The end of the tape at a Var that no operation made: gradients add up in `grad`."""

    __slots__ = ("__weakref__", "grad", "id")
    _edges: tuple[()] = ()
    _lock: ClassVar[Any] = threading.Lock()

    def __init__(self) -> None:
        self.id = next_id()
        self.grad: Array | None = None

    def accumulate(self, backend: Any, gradient: Array, shared: bool) -> None:
        """Add a gradient; the array is kept when nobody else can have it. Several threads may."""
        with Leaf._lock:
            if self.grad is None:
                self.grad = np.array(gradient, order="C") if shared else gradient
            else:
                self.grad = backend.add(self.grad, gradient)


class GradFn:
    """One recorded operation: knows its gradients.

    Attributes are private; a GradFn holds its inputs' ends of the tape, the arrays and options that its gradient takes,
    and the backend. It never holds its own output's Var, so that nothing refers to itself.
    """

    __slots__ = ("__weakref__", "_backend", "_edges", "_saved", "id")

    # of the class: the operation's name, the names of `_saved`, which of them are differentiable operands (position in
    # `_edges`) or results (-1 the first, -2 the second), and whether a gradient may be output_grad itself or a view of it
    op: ClassVar[str] = ""
    saved_names: ClassVar[tuple[str, ...]] = ()
    tracked: ClassVar[dict[int, int]] = {}
    shares: ClassVar[bool] = False

    id: int
    _backend: Any
    _edges: tuple[GradFn | Leaf | None, ...]
    # None once released; Checked where changes are to be noticed
    _saved: tuple[Any, ...] | None

    def __init__(self, backend: Any, edges: Sequence[GradFn | Leaf | None], saved: tuple[Any, ...]):
        self.id = next_id()
        self._backend = backend
        self._edges = tuple(edges)
        self._saved = Checked(saved) if current().checking else saved

    def __repr__(self) -> str:
        return f"<{self.name()}>"

    # ------------------------------------------------------------ what it knows

    def name(self) -> str:
        """What it is called: the operation's name in capitals, and Backward."""
        return type(self).__name__

    def inputs(self) -> tuple[int | None, ...]:
        """The `id` of every differentiable operand that needs a gradient, None for the others."""
        return tuple(None if edge is None else edge.id for edge in self._edges)

    def input_grad_fns(self) -> tuple[GradFn | None, ...]:
        """The GradFn of every differentiable operand, None for a leaf and for one without gradient."""
        return tuple(edge if isinstance(edge, GradFn) else None for edge in self._edges)

    def saved_tensors(self) -> tuple[Array, ...]:
        """The arrays that are kept for the gradient."""
        return tuple(value for value in self._kept() if isinstance(value, np.ndarray))

    # ------------------------------------------------------------ gradients

    def backward(self, output_grad: Operand) -> tuple[Array | None, ...]:
        """The gradient to each differentiable operand, None to those that need none.

        Parameters
        ----------
        output_grad : ndarray
            The gradient that arrives from above, of the output's shape.

        Raises
        ------
        ReleasedError
            What was saved has been released by a backward pass.
        """
        g = _check.array(self.op + "_backward", "output_grad", output_grad)
        return self._needed(self._gradients(g, self._edges))

    def backward_var(self, output_grad: Var) -> tuple[Var | None, ...]:
        """As :meth:`backward`, but on the tape: the gradients can be differentiated again.

        Raises
        ------
        NoDerivativeError
            The operation's gradient has no derivative here (it is a `NotImplementedError`).
        """
        if not isinstance(output_grad, Var):
            raise DTypeError(message(self.op + "_backward", "output_grad", f"a {type(output_grad).__name__}", "a Var"))
        return self._needed(self._gradient_vars(output_grad, self._edges))

    def _result(self, place: int) -> GradFn:
        """The place on the tape of one of its results."""
        return self if place == 0 else ResultBackward(self._backend, (self,), (place,))

    def _needed(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        found = (g.dense() if isinstance(g, Part) else g for g in gradients)
        return tuple(None if edge is None else g for edge, g in zip(self._edges, found, strict=True))

    def _gradients(self, g: Array, needs: Sequence[Any]) -> Sequence[Array | None]:
        return type(self)._compute(self._backend, g, needs, self._kept())

    def _gradient_vars(self, g: Var, needs: Sequence[Any]) -> Sequence[Var | None]:
        from ._context import changed
        from ._second import DERIVATIVES

        saved = list(self._kept())
        for position, operand in self.tracked.items():
            if isinstance(saved[position], np.ndarray):
                saved[position] = attached(saved[position], self._edges[operand] if operand >= 0 else self._result(-1 - operand))
        with changed(backend=self._backend, recording=True):
            return type(self)._compute(DERIVATIVES, g, needs, tuple(saved))

    @staticmethod
    def _compute(ops: Any, g: Any, needs: Sequence[Any], saved: tuple[Any, ...]) -> Sequence[Any]:
        """The gradients to the operands whose `needs` is not None, by the methods of `ops`: arrays' or Vars'.

        Every operation's subclass defines it (_generate.py); one that has gradients of another kind defines `_gradients` instead.
        """
        raise NotImplementedError

    # ------------------------------------------------------------ saved arrays

    def _kept(self) -> tuple[Any, ...]:
        saved = self._saved
        if saved is None:
            raise ReleasedError(f"{self.op}: output is of a graph that a backward pass has released, expected one kept by retain_graph=True")
        if isinstance(saved, Checked):
            for name, value, was in zip(self.saved_names, saved, saved.checksums, strict=True):
                if checksum(value) != was:
                    raise ChangedError(
                        f"{self.op}: {name} is an array that was changed after the call, expected it as it was; "
                        "copy it, or change it after backward"
                    )
        return saved


class Checked(tuple[Any, ...]):
    """Saved values with the checksums of the arrays among them."""

    checksums: tuple[int | None, ...]

    def __new__(cls, saved: tuple[Any, ...]) -> Checked:
        self = super().__new__(cls, saved)
        self.checksums = tuple(checksum(value) for value in saved)
        return self


class ResultBackward(GradFn):
    """A further result of an operation: hands what arrives at it to the operation."""

    __slots__ = ()
    op, saved_names, shares = "result", ("place",), True

    @staticmethod
    def _compute(ops: Any, g: Any, needs: Sequence[Any], saved: tuple[Any, ...]) -> Sequence[Any]:
        return (Several(None, {saved[0]: g}),)


def checksum(value: Any) -> int | None:
    return zlib.crc32(np.ascontiguousarray(value).data.cast("B")) if isinstance(value, np.ndarray) and value.size else None


def attached(array: Array, edge: GradFn | Leaf | None) -> Var:
    """An array as a Var at a place on the tape."""
    var = new(Var)
    var.array = array
    var._edge = edge
    return var


def rebuilt(cls: type[Var], array: Array, requires_grad: bool, grad: Array | None) -> Var:
    """What :meth:`Var.__reduce__` says."""
    var = cls(array, requires_grad)
    if grad is not None:
        var.grad = grad
    return var


class Var:
    """An array whose uses are recorded, so that gradients to it can be taken.

    Parameters
    ----------
    array : ndarray
        The value; it is neither copied nor checked for changes. Any dtype when no gradient is needed.
    requires_grad : bool
        Whether gradients to it are wanted.

    Attributes
    ----------
    array : ndarray
        The value. An optimizer may write into it between one backward and the next forward.
    grad : ndarray or None
        The sum of the gradients that :meth:`backward` brought since it was None. Of leaves only.
    grad_fn : GradFn or None
        The operation that made it.

    Raises
    ------
    DTypeError
        `array` is no array, or of no floating dtype though a gradient is wanted.
    """

    __slots__ = ("__weakref__", "_edge", "_id", "array")
    # an array on the left of an operator leaves it to the Var on the right
    __array_ufunc__ = None

    array: Array
    _edge: GradFn | Leaf | None
    _id: int

    def __init__(self, array: Operand, requires_grad: bool = True):
        if isinstance(array, Var):
            raise DTypeError(message("Var", "array", "a Var", "an array; .array has it, .detach() a Var without history"))
        a = _check.array("Var", "array", array)
        if _check.flag("Var", "requires_grad", requires_grad):
            if a.dtype.kind != "f" or a.dtype.itemsize not in (4, 8):
                raise DTypeError(message("Var", "array", f"of dtype {shown(a.dtype)}", "float32 or float64, or requires_grad=False"))
            self._edge = Leaf()
        else:
            self._edge = None
        self.array = a

    def __repr__(self) -> str:
        how = f", {self._edge!r}" if isinstance(self._edge, GradFn) else "" if self._edge is None else ", requires_grad=True"
        return f"Var({np.array2string(self.array, threshold=20, prefix='Var(')}, dtype={self.array.dtype}{how})"

    def __reduce__(self) -> tuple[Any, ...]:
        """A copied or pickled Var is a leaf of its own, with its gradient."""
        if isinstance(self._edge, GradFn):
            raise ArgumentError(message("Var", "self", f"the result of {self._edge.op}", "a leaf, or .detach() of it, to be copied or pickled"))
        return rebuilt, (type(self), self.array, self._edge is not None, self.grad)

    # ------------------------------------------------------------ on the tape

    @property
    def id(self) -> int:
        """int: unlike every other Var's in this process."""
        if self._edge is not None:
            return self._edge.id
        try:
            return self._id
        except AttributeError:
            self._id = next_id()
            return self._id

    @property
    def requires_grad(self) -> bool:
        return self._edge is not None

    @property
    def grad_fn(self) -> GradFn | None:
        edge = self._edge
        return edge if isinstance(edge, GradFn) else None

    @property
    def is_leaf(self) -> bool:
        return not isinstance(self._edge, GradFn)

    @property
    def grad(self) -> Array | None:
        edge = self._edge
        return edge.grad if isinstance(edge, Leaf) else None

    @grad.setter
    def grad(self, value: Array | None) -> None:
        if not isinstance(self._edge, Leaf):
            raise ArgumentError(message("Var", "grad", "set on a Var that keeps none", "a leaf that requires a gradient"))
        if value is not None:
            value = _check.array("Var", "grad", value)
            if value.shape != self.array.shape:
                raise ShapeError(message("Var", "grad", f"of shape {value.shape}", f"{self.array.shape}"))
            if value.dtype != self.array.dtype:
                raise DTypeError(message("Var", "grad", f"of dtype {value.dtype}", f"{self.array.dtype}"))
        self._edge.grad = value

    def detach(self) -> Var:
        """A Var of the same array that needs no gradient."""
        return attached(self.array, None)

    def backward(self, grad: Operand | Var | None = None, *, retain_graph: bool = False) -> None:
        """Add the gradient of this Var to the `grad` of every leaf that it was made of.

        Parameters
        ----------
        grad : ndarray, optional
            The gradient that arrives from above, of this Var's shape; 1 when it has one element.
        retain_graph : bool
            Keep what was saved, so that backward can run once more.

        Raises
        ------
        ArgumentError, ShapeError, DTypeError
            It needs no gradient, has several elements and no `grad` is given, or `grad` does not fit.
        ReleasedError
            What was saved has been released.
        """
        from ._engine import run_backward

        run_backward(self, grad, retain_graph)

    # ------------------------------------------------------------ the array's

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def size(self) -> int:
        return self.array.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    def item(self) -> float:
        """The only element as a Python number."""
        if self.array.size != 1:
            raise ShapeError(message("item", "self", f"of shape {self.array.shape}", "one element"))
        return self.array.item()  # type: ignore[no-any-return]

    def __len__(self) -> int:
        if not self.array.ndim:
            raise ShapeError(message("len", "self", "without axes", "at least one axis"))
        return len(self.array)

    def __bool__(self) -> bool:
        return bool(self.item())

    def __iter__(self) -> Iterator[Var]:
        return (self[i] for i in range(len(self)))

    if TYPE_CHECKING:  # the operators are the functions of this package: functions.py puts them here

        def __add__(self, other: Var | Operand | float) -> Var: ...
        def __radd__(self, other: Operand | float) -> Var: ...
        def __sub__(self, other: Var | Operand | float) -> Var: ...
        def __rsub__(self, other: Operand | float) -> Var: ...
        def __mul__(self, other: Var | Operand | float) -> Var: ...
        def __rmul__(self, other: Operand | float) -> Var: ...
        def __truediv__(self, other: Var | Operand | float) -> Var: ...
        def __rtruediv__(self, other: Operand | float) -> Var: ...
        def __matmul__(self, other: Var | Operand) -> Var: ...
        def __rmatmul__(self, other: Operand) -> Var: ...
        def __pow__(self, exponent: int | float) -> Var: ...
        def __neg__(self) -> Var: ...
        def __abs__(self) -> Var: ...
        def __getitem__(self, key: Any) -> Var: ...
        def reshape(self, *shape: int | Sequence[int]) -> Var: ...
        def transpose(self, *axes: int | Sequence[int]) -> Var: ...
        def flatten(self, start_axis: int = 0) -> Var: ...
        def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Var: ...
        def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Var: ...
        @property
        def T(self) -> Var: ...
