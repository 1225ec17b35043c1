"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from .. import _check
from ..autograd import Var
from ..errors import ArgumentError, message
from ._optimizer import Alike, Optimizer

__all__ = ["SGD"]


class SGD(Optimizer):
    """Stochastic gradient descent with momentum: v ← momentum · v + (1 − dampening) · g, p ← p − lr · v. Sutskever et al. 2013.

    Parameters
    ----------
    parameters : iterable of Var, or of dict
        As :class:`Optimizer`.
    lr : float
        Learning rate, ≥ 0.
    momentum, dampening : float
        The first step takes v = g, whatever the dampening.
    weight_decay : float
        Added to the gradient as weight_decay · p.
    nesterov : bool
        p ← p − lr · (g + momentum · v); needs momentum, and no dampening.
    backend : CpuBackend, optional
        Where steps run.

    Raises
    ------
    ArgumentError
        An option out of range.
    """

    SLOTS: ClassVar[tuple[str, ...]] = ("momentum",)

    def __init__(
        self, parameters: Iterable[Var] | Iterable[Mapping[str, Any]], lr: float, *, momentum: float = 0.0, dampening: float = 0.0,
        weight_decay: float = 0.0, nesterov: bool = False, backend: Any = None,
    ):  # fmt: skip
        super().__init__(
            parameters, backend=backend, lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov
        )

    def _check(self, group: Mapping[str, Any]) -> None:
        for name in ("lr", "momentum", "dampening", "weight_decay"):
            self._number(group, name)
        if _check.flag(self._op, "nesterov", group["nesterov"]) and (not group["momentum"] or group["dampening"]):
            raise ArgumentError(message(self._op, "nesterov", "True", "momentum above 0 and no dampening with it"))

    def _step(self, group: dict[str, Any], alike: Alike, step: int, lr: float) -> None:
        momentum = self._slots(alike, "momentum", group["momentum"] != 0)
        self._run(
            "sgd", alike, momentum, lr, group["weight_decay"], group["momentum"], group["dampening"], group["nesterov"], step == 1, arrays=5
        )
