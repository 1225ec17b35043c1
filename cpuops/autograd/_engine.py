"""The backward pass: iterative, from the newest recorded operation to the oldest."""

from __future__ import annotations

import operator
from collections.abc import Container, Iterable, Sequence
from heapq import heappop, heappush, heappushpop
from typing import Any

import numpy as np

from .. import _check
from .._types import Array, Operand
from ..errors import ArgumentError, DTypeError, ShapeError, message
from . import functions
from ._context import changed, current, default_backend
from ._parts import Part, Several
from ._var import GradFn, Leaf, Var, attached

__all__ = ["grad", "run_backward"]

by_id = operator.attrgetter("id")


def reachable(ends: Iterable[GradFn | Leaf], cut: Container[GradFn | Leaf] = ()) -> list[GradFn | Leaf]:
    """Everything that `ends` were made of, newest first: an operation before its inputs. What `cut` were made of is left out."""
    seen = set(ends)
    waiting = list(seen)
    while waiting:
        place = waiting.pop()
        for edge in () if place in cut else place._edges:
            if edge is not None and edge not in seen:
                seen.add(edge)
                waiting.append(edge)
    return sorted(seen, key=by_id, reverse=True)


class Sums:
    """Gradients on their way: one sum for every place on the tape, taken newest first.

    A gradient that arrives alone is kept as it is; a second one makes a new array, which later ones are added into.
    """

    __slots__ = ("heap", "of", "owned", "shared")

    def __init__(self) -> None:
        self.of: dict[GradFn | Leaf, Any] = {}
        self.heap: list[tuple[int, GradFn | Leaf]] = []
        # places whose sum is an array made here; places whose gradient somebody else may have too
        self.owned: set[GradFn | Leaf] = set()
        self.shared: set[GradFn | Leaf] = set()

    def add(self, place: GradFn | Leaf, gradient: Any, backend: Any, shared: bool) -> None:
        have: Any = self.of.get(place)
        if type(gradient) is Part:
            if place in self.owned:
                gradient.add_to(have)
                return
            dense = gradient.dense()
            if have is None:
                heappush(self.heap, (-place.id, place))
            else:
                backend.add(dense, have, out=dense)
                self.shared.discard(place)
            self.of[place] = dense
            self.owned.add(place)
        elif have is not None and (type(gradient) is Several or type(have) is Several):
            self.of[place] = Several.joined(have, gradient, lambda a, b: added(a, b, backend))
        elif have is None:
            self.of[place] = gradient
            heappush(self.heap, (-place.id, place))
            if shared:
                self.shared.add(place)
        elif isinstance(gradient, Var):
            self.of[place] = added(have, gradient, backend)
        elif place in self.owned:
            backend.add(have, gradient, out=have)
        else:
            self.of[place] = backend.add(have, gradient)
            self.owned.add(place)
            self.shared.discard(place)


def added(a: Any, b: Any, backend: Any) -> Any:
    """A new sum, of arrays or of Vars."""
    return functions.add(a, b, backend=backend) if isinstance(a, Var) else backend.add(a, b)


def run_backward(output: Var, grad: Operand | Var | None, retain_graph: bool) -> None:
    """:meth:`Var.backward`."""
    if retain_graph is not False:
        _check.flag("backward", "retain_graph", retain_graph)
    edge, g = start("backward", "grad", output, grad)
    backend = current().backend or default_backend()
    sums = Sums()
    sums.add(edge, g.array if isinstance(g, Var) else g, backend, True)
    heap, of, shared = sums.heap, sums.of, sums.shared
    leaves: list[Leaf] = []  # nothing waits for them, so they need no place in the order
    place: GradFn | Leaf | None = heappop(heap)[1]
    while place is not None:
        g = of.pop(place)
        if isinstance(place, Leaf):
            place.accumulate(backend, g, place in shared)
            place = heappop(heap)[1] if heap else None
            continue
        saved = place._saved
        if type(saved) is not tuple:
            saved = place._kept()
        backend, edges, shares = place._backend, place._edges, place.shares
        gradients = place._compute(backend, g, edges, saved)
        if not retain_graph:
            place._saved = None
        place = None
        for to, gradient in zip(edges, gradients, strict=True):
            if to is None or gradient is None:
                continue
            if to in of or shares:
                sums.add(to, gradient, backend, shares)
            else:  # as add does
                of[to] = gradient
                if type(to) is Leaf:
                    leaves.append(to)
                elif place is None and not heap:
                    place = to  # the next, unless another comes
                else:
                    heappush(heap, (-to.id, to))
        del saved, g, gradients, gradient  # not kept while the next gradient is computed
        if heap:
            place = heappop(heap)[1] if place is None else heappushpop(heap, (-place.id, place))[1]
    for leaf in leaves:
        leaf.accumulate(backend, of.pop(leaf), leaf in shared)


def grad(
    outputs: Var | Sequence[Var],
    inputs: Var | Sequence[Var],
    grad_outputs: Operand | Var | Sequence[Operand | Var | None] | None = None,
    create_graph: bool = False,
    *,
    retain_graph: bool | None = None,
) -> tuple[Any, ...]:
    """Gradients of outputs to inputs; the `grad` of no Var is touched, and only what leads to `inputs` is computed.

    Parameters
    ----------
    outputs, inputs : Var or sequence of Var
        Inputs may be leaves or results of operations.
    grad_outputs : ndarray or Var, or a sequence of one (or None) for each output, optional
        The gradients that arrive from above; 1 for an output of one element.
    create_graph : bool
        Return Vars that can be differentiated again.
    retain_graph : bool, optional
        Keep what was saved, so that the same gradients can be taken once more; as `create_graph` when it is None.

    Returns
    -------
    tuple
        For every input an ndarray of its shape (a Var with `create_graph`), or None where no output depends on it.

    Raises
    ------
    ArgumentError, ShapeError, DTypeError
        An output or input needs no gradient, or a gradient does not fit its output.
    NoDerivativeError
        With `create_graph`: an operation's gradient has no derivative here.
    ReleasedError
        What was saved has been released.
    """
    _check.flag("grad", "create_graph", create_graph)
    retain = create_graph if retain_graph is None else _check.flag("grad", "retain_graph", retain_graph)
    return gradients_to(outputs, inputs, grad_outputs, create_graph, retain)


def gradients_to(outputs: Any, inputs: Any, grad_outputs: Any, create_graph: bool, retain: bool, partial: bool = False) -> tuple[Any, ...]:
    """:func:`grad`; with `partial` an input counts as independent of the other inputs."""
    outs, ins = several("outputs", outputs), several("inputs", inputs)
    if grad_outputs is None:
        given: Sequence[Any] = [None] * len(outs)
    else:
        given = list(grad_outputs) if isinstance(grad_outputs, list | tuple) else [grad_outputs]
    if len(given) != len(outs):
        raise ArgumentError(message("grad", "grad_outputs", f"{len(given)} gradients", f"one for each of {len(outs)} outputs"))
    wanted: dict[GradFn | Leaf, Any] = {}
    for var in ins:
        if var._edge is None:
            raise ArgumentError(message("grad", "inputs", "a Var that requires no gradient", "Vars that require one"))
        wanted[var._edge] = None
    sums = Sums()
    ends = []
    for output, g in zip(outs, given, strict=True):
        edge, g = start("grad", "grad_outputs" if g is not None else "outputs", output, g)
        if create_graph:
            g = g if isinstance(g, Var) else attached(g, None)
        elif isinstance(g, Var):
            g = g.array
        sums.add(edge, g, current().backend or default_backend(), True)
        ends.append(edge)
    with changed(recording=create_graph):
        places = reachable(ends, wanted if partial else ())
        found = _to_inputs(places, sums, wanted, create_graph, retain, partial)
    return tuple(found[var._edge] for var in ins if var._edge is not None)


def _to_inputs(
    places: list[GradFn | Leaf], sums: Sums, wanted: dict[GradFn | Leaf, Any], create_graph: bool, retain: bool, partial: bool
) -> dict[GradFn | Leaf, Any]:
    # from the oldest: what has an input behind it
    leads: set[GradFn | Leaf] = set()
    for place in reversed(places):
        if place in wanted or any(edge in leads for edge in place._edges):
            leads.add(place)
    for place in places:
        g = sums.of.pop(place, None)
        if g is None or place not in leads:
            continue
        if place in wanted:
            wanted[place] = np.array(g, order="C") if place in sums.shared and not isinstance(g, Var) else g
        if isinstance(place, Leaf) or (partial and place in wanted):
            continue
        needs = tuple(edge if edge in leads else None for edge in place._edges)
        if all(edge is None for edge in needs):
            continue
        gradients: Sequence[Any]
        if create_graph:
            gradients = place._gradient_vars(g, needs)
        else:
            gradients = place._gradients(g, needs)
        if not retain:
            place._saved = None
        for to, gradient in zip(needs, gradients, strict=True):
            if to is not None and gradient is not None:
                sums.add(to, gradient, place._backend, place.shares)
    return wanted


def several(name: str, value: Var | Sequence[Var]) -> list[Var]:
    found = list(value) if isinstance(value, list | tuple) else [value]
    for var in found:
        if not isinstance(var, Var):
            raise DTypeError(message("grad", name, f"a {type(var).__name__}", "a Var or a sequence of Vars"))
    return found  # type: ignore[return-value]


def start(op: str, name: str, output: Var, grad: Operand | Var | None) -> tuple[GradFn | Leaf, Any]:
    """Where a backward pass starts, and with which gradient."""
    edge = output._edge
    if edge is None:
        raise ArgumentError(message(op, "outputs" if op == "grad" else "self", "a Var that requires no gradient", "one that requires one"))
    if grad is None:
        if output.array.size != 1:
            raise ArgumentError(message(op, name, f"not given for shape {output.array.shape}", "a gradient of that shape"))
        return edge, np.ones(output.array.shape, output.array.dtype)
    g: Array = grad.array if isinstance(grad, Var) else _check.array(op, name, grad)
    if g.shape != output.array.shape:
        raise ShapeError(message(op, name, f"of shape {g.shape}", f"the output's, {output.array.shape}"))
    if g.dtype != output.array.dtype:
        raise DTypeError(message(op, name, f"of dtype {g.dtype}", f"the output's, {output.array.dtype}"))
    return edge, grad if isinstance(grad, Var) else g
