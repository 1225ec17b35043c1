"""Gradients as functions on Vars, so that they can be differentiated again.

A recorded operation computes its gradient by calling methods of a backend. :data:`DERIVATIVES` has the same methods, with the same
arguments, on Vars: each is a composition of differentiable operations, or the generated function where the gradient is an
operation itself (those of linear and bilinear operations, see ``_rules.py``). What is neither raises :class:`NoDerivativeError`.

A norm, a loss or attention is composed anew from simpler operations, and differentiated on the tape by :func:`through`: slower
than its kernel and with every intermediate array in memory, but right to any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import NoDerivativeError
from . import _second_attention, _second_composed, _second_elementwise, functions

__all__ = ["DERIVATIVES"]


COMPOSED: dict[str, Callable[..., Any]] = {
    name: function
    for module in (_second_elementwise, _second_composed, _second_attention)
    for name, function in vars(module).items()
    if name.endswith("_backward") and not name.startswith("_")
}


class Derivatives:
    """Methods of a backend, on Vars."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found = COMPOSED.get(name)
        if found is not None:
            return found
        if name in functions.OPERATIONS:
            return getattr(functions, name)  # type: ignore[no-any-return]
        raise NoDerivativeError(f"{name}: output_grad is a Var to be differentiated again, expected an array: no second derivative here")

    def known(self, name: str) -> bool:
        return name in COMPOSED or name in functions.OPERATIONS


DERIVATIVES = Derivatives()
