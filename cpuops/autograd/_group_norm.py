"""GroupNormBackward can also be put on the tape by hand: the constructor that numr's autograd gives it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import _check
from .._types import Operand
from ..errors import ArgumentError, ShapeError, message, shown
from ._context import current, default_backend
from ._var import GradFn, Leaf

__all__ = ["GroupNormFromParts"]


class GroupNormFromParts(GradFn):
    """The recorded operation :func:`group_norm`.

    With x̂ = (x − mean) · r, r = 1/√(variance + ε), both over a group, and h = g · weight:
    input_grad = r (h − mean(h) − x̂ mean(h x̂)), weight_grad = Σ g x̂, bias_grad = Σ g.

    Parameters
    ----------
    input_ids : sequence of 3 int
        The `id` of input, weight and bias.
    input : ndarray [B, C, ...]
        What was normalised.
    weight : ndarray [C]
        One factor a channel.
    num_groups : int
        Divides C.
    eps : float
        Added to the variance.
    input_grad_fns : sequence of 3 GradFn or None
        What made input, weight and bias; None for a leaf.
    """

    __slots__ = ("_input_ids",)

    def __init__(
        self,
        input_ids: Sequence[int],
        input: Operand,
        weight: Operand | None,
        num_groups: int,
        eps: float,
        input_grad_fns: Sequence[GradFn | None],
    ):
        op = "GroupNormBackward"
        for name, value in (("input_ids", input_ids), ("input_grad_fns", input_grad_fns)):
            if not isinstance(value, list | tuple) or len(value) != 3:
                raise ArgumentError(message(op, name, shown(value), "a sequence of 3: of input, weight and bias"))
        for fn in input_grad_fns:
            if not isinstance(fn, GradFn | None):
                raise ArgumentError(message(op, "input_grad_fns", f"of a {type(fn).__name__}", "GradFns or None"))
        x, gamma = _check.floatings(op, ("input", "weight"), (input, weight))
        _check.rank(op, "input", x, 2, 64)
        groups = _check.integer(op, "num_groups", num_groups, 1)
        if x.shape[1] % groups:
            raise ShapeError(message(op, "input", f"of {x.shape[1]} channels", f"a multiple of num_groups, {groups}"))
        if gamma is not None:
            _check.shape(op, "weight", gamma, (x.shape[1],))
        values = {"x": x, "gamma": gamma, "num_groups": groups, "epsilon": _check.epsilon(op, eps)}
        edges = [Leaf() if fn is None else fn for fn in input_grad_fns]
        super().__init__(current().backend or default_backend(), edges, tuple(values[name] for name in self.saved_names))
        self._input_ids = tuple(input_ids)

    def inputs(self) -> tuple[Any, ...]:
        return self._input_ids if hasattr(self, "_input_ids") else super().inputs()  # type: ignore[no-any-return]
