"""RMSprop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from .. import _check
from ..autograd import Var
from ._optimizer import Alike, Optimizer

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """Gradients divided by the root of their running mean square: p ← p − lr · g / (√v + epsilon). Hinton 2012, lecture 6e.

    Parameters
    ----------
    parameters : iterable of Var, or of dict
        As :class:`Optimizer`.
    lr : float
        Learning rate, ≥ 0.
    alpha : float
        Decay of the mean square, from 0 to below 1.
    epsilon : float
    weight_decay : float
        Added to the gradient as weight_decay · p.
    momentum : float
    centered : bool
        Divide by the root of the variance, the mean square less the square of the running mean. Graves 2013.
    backend : CpuBackend, optional
        Where steps run.

    Raises
    ------
    ArgumentError
        An option out of range.
    """

    SLOTS: ClassVar[tuple[str, ...]] = ("mean_square", "momentum", "mean")

    def __init__(
        self, parameters: Iterable[Var] | Iterable[Mapping[str, Any]], lr: float = 1e-2, *, alpha: float = 0.99, epsilon: float = 1e-8,
        weight_decay: float = 0.0, momentum: float = 0.0, centered: bool = False, backend: Any = None,
    ):  # fmt: skip
        super().__init__(
            parameters, backend=backend, lr=lr, alpha=alpha, epsilon=epsilon, weight_decay=weight_decay, momentum=momentum,
            centered=centered,
        )  # fmt: skip

    def _check(self, group: Mapping[str, Any]) -> None:
        for name in ("lr", "epsilon", "weight_decay", "momentum"):
            self._number(group, name)
        self._number(group, "alpha", below=1.0)
        _check.flag(self._op, "centered", group["centered"])

    def _step(self, group: dict[str, Any], alike: Alike, step: int, lr: float) -> None:
        wanted = (True, group["momentum"] != 0, group["centered"])
        square, momentum, mean = (self._slots(alike, name, w) for name, w in zip(self.SLOTS, wanted, strict=True))
        self._run(
            "rmsprop", alike, square, momentum, mean, lr, group["weight_decay"], group["alpha"], group["momentum"], group["epsilon"], arrays=7
        )
