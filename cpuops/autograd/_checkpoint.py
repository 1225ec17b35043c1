"""checkpoint: keep a part's inputs instead of what happens in it, and compute it again for its gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import DTypeError, NoDerivativeError, message
from ._context import changed, current, default_backend
from ._engine import by_id, gradients_to
from ._var import GradFn, Leaf, Var, attached, next_id

__all__ = ["checkpoint"]


class CheckpointBackward(GradFn):
    """A part of the network as one operation of its inputs and of everything else on the tape that it uses."""

    __slots__ = ()
    op, saved_names = "checkpoint", ("function", "arrays", "positions", "outer", "index", "draws")

    def saved_tensors(self) -> tuple[Any, ...]:
        return tuple(a for a in self._kept()[1] if isinstance(a, np.ndarray))

    @staticmethod
    def _compute(ops: Any, g: Any, needs: Any, saved: Any) -> Any:
        if isinstance(g, Var):
            raise NoDerivativeError("checkpoint: output_grad is a Var to be differentiated again, expected an array")
        function, arrays, positions, outer, index, draws = saved
        wanted = [i for i, need in enumerate(needs) if need is not None]
        with drawn_again(draws), changed(backend=ops, recording=True, draws=None, repeating=True):
            arguments = [Var(a) if i in positions else a for i, a in enumerate(arrays)]
            output = results_of(function(*arguments))[index]
            # what it uses besides its arguments is where it was on the tape
            places = [arguments[i] for i in positions] + [attached(array, edge) for array, edge in outer]
            chosen = [places[i] for i in wanted]
            found = iter(gradients_to(output, chosen, g, False, False, partial=True))
        return tuple(None if need is None else next(found) for need in needs)


@contextmanager
def drawn_again(draws: Sequence[tuple[Any, Any]]) -> Iterator[None]:
    """Sources of random numbers as they were in the first run; afterwards as they are now."""
    now = [source.state for source, _ in draws]
    try:
        for source, state in draws:
            source.state = state
        yield
    finally:
        for (source, _), state in zip(draws, now, strict=True):
            source.state = state


def used_from_outside(edge: GradFn | Leaf, before: int) -> list[GradFn | Leaf]:
    """The places on the tape older than `before` that what lies between them and `edge` was made of."""
    seen, outside, waiting = {edge}, [], [edge]
    while waiting:
        place = waiting.pop()
        if place.id < before:
            outside.append(place)
            continue
        for parent in place._edges:
            if parent is not None and parent not in seen:
                seen.add(parent)
                waiting.append(parent)
    return sorted(outside, key=by_id)


def results_of(value: Any) -> tuple[Var, ...]:
    found = tuple(value) if isinstance(value, list | tuple) else (value,)
    for var in found:
        if not isinstance(var, Var):
            raise DTypeError(message("checkpoint", "function", f"one that returns a {type(var).__name__}", "a Var or a sequence of Vars"))
    return found


def checkpoint(function: Callable[..., Any], *inputs: Any) -> Any:
    """``function(*inputs)``, of which only the inputs are kept for backward: it is computed a second time there.

    Parameters
    ----------
    function : callable
        Takes `inputs` and returns a Var or a tuple of Vars. It may use other Vars (the parameters of its layers): they get
        their gradients too. It must do the same when it is called again; random numbers of dropout are drawn again.
    *inputs : Var, or anything
        What it is called with.

    Returns
    -------
    Var or tuple of Var
        What `function` returns.

    Raises
    ------
    DTypeError
        `function` returns something else.
    NoDerivativeError
        In a backward pass with `create_graph`.

    Notes
    -----
    Memory: a part's own intermediate arrays exist while it runs, forward and again backward, and not in between. Time: one
    forward more. With several outputs each gradient computes the part anew.
    """
    settings = current()
    if not settings.recording:
        return function(*inputs)
    backend = settings.backend or default_backend()
    positions = tuple(i for i, v in enumerate(inputs) if isinstance(v, Var) and v.requires_grad)
    arrays = tuple(v.array if i in positions else v for i, v in enumerate(inputs))
    before = next_id()
    draws: dict[int, Any] = {}
    with changed(backend=backend, draws=draws):
        arguments = [Var(a) if i in positions else a for i, a in enumerate(arrays)]
        result = function(*arguments)
    outputs = results_of(result)
    if settings.draws is not None:  # a checkpoint in a checkpoint
        for key, drawn in draws.items():
            settings.draws.setdefault(key, drawn)
    found = []
    for index, output in enumerate(outputs):
        if output._edge is None:
            found.append(output)
            continue
        outside = used_from_outside(output._edge, before)
        outer = tuple((np.zeros(0, output.dtype), edge) for edge in outside)
        edges = [*(inputs[i]._edge for i in positions), *outside]
        saved = (function, arrays, positions, outer, index, tuple(draws.values()))
        found.append(attached(output.array, CheckpointBackward(backend, edges, saved)))
    if isinstance(result, Var):
        return found[0]
    return type(result)(*found) if hasattr(result, "_fields") else type(result)(found)
