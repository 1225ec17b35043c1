"""Adam and AdamW."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from .. import _check
from ..autograd import Var
from ..errors import ArgumentError, message, shown
from ._optimizer import Alike, Optimizer

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adaptive moments: p ← p − lr · m̂ / (√v̂ + epsilon), with bias-corrected moments m̂ and v̂. Kingma & Ba 2015.

    Parameters
    ----------
    parameters : iterable of Var, or of dict
        As :class:`Optimizer`.
    lr : float
        Learning rate, ≥ 0.
    betas : (float, float)
        Decay of the first and second moment, each from 0 to below 1.
    epsilon : float
    weight_decay : float
        Added to the gradient as weight_decay · p.
    amsgrad : bool
        Divide by the largest second moment so far. Reddi et al. 2018.
    backend : CpuBackend, optional
        Where steps run.

    Raises
    ------
    ArgumentError
        An option out of range.
    """

    SLOTS: ClassVar[tuple[str, ...]] = ("first_moment", "second_moment", "largest_moment")
    DECOUPLED: ClassVar[bool] = False

    def __init__(
        self, parameters: Iterable[Var] | Iterable[Mapping[str, Any]], lr: float = 1e-3, *, betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8, weight_decay: float = 0.0, amsgrad: bool = False, backend: Any = None,
    ):  # fmt: skip
        super().__init__(
            parameters, backend=backend, lr=lr, betas=betas, epsilon=epsilon, weight_decay=weight_decay, amsgrad=amsgrad
        )

    def _check(self, group: Mapping[str, Any]) -> None:
        for name in ("lr", "epsilon", "weight_decay"):
            self._number(group, name)
        betas = group["betas"]
        if not isinstance(betas, tuple | list) or len(betas) != 2:
            raise ArgumentError(message(self._op, "betas", shown(betas), "two numbers"))
        for beta in betas:
            self._number({"betas": beta}, "betas", below=1.0)
        _check.flag(self._op, "amsgrad", group["amsgrad"])

    def _step(self, group: dict[str, Any], alike: Alike, step: int, lr: float) -> None:
        beta1, beta2 = group["betas"]
        wanted = (True, True, group["amsgrad"])
        first, second, largest = (self._slots(alike, name, w) for name, w in zip(self.SLOTS, wanted, strict=True))
        self._run(
            "adam", alike, first, second, largest, lr, group["weight_decay"], beta1, beta2, group["epsilon"],
            1 - beta1**step, math.sqrt(1 - beta2**step), self.DECOUPLED, arrays=7,
        )  # fmt: skip


class AdamW(Adam):
    """Adam whose weight decay is decoupled: p ← p · (1 − lr · weight_decay), beside the step. Loshchilov & Hutter 2019.

    Parameters
    ----------
    parameters : iterable of Var, or of dict
        As :class:`Optimizer`.
    lr, betas, epsilon, amsgrad, backend
        As :class:`Adam`.
    weight_decay : float

    Raises
    ------
    ArgumentError
        An option out of range.
    """

    DECOUPLED: ClassVar[bool] = True

    def __init__(
        self, parameters: Iterable[Var] | Iterable[Mapping[str, Any]], lr: float = 1e-3, *, betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8, weight_decay: float = 0.01, amsgrad: bool = False, backend: Any = None,
    ):  # fmt: skip
        super().__init__(
            parameters, lr, betas=betas, epsilon=epsilon, weight_decay=weight_decay, amsgrad=amsgrad, backend=backend
        )
