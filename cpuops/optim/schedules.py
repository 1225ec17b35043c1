"""Schedules of the learning rate: functions from the number of a step, from 0, to what `lr` is multiplied by.

A schedule has no state: a training that goes on from a checkpoint asks it for the step it is at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from .. import _check
from ..errors import ArgumentError, message, shown

__all__ = ["constant", "cosine", "linear", "step"]

Schedule = Callable[[int], float]


def _warmed(op: str, warmup: int, after: Schedule) -> Schedule:
    """`after`, behind a straight rise over the first `warmup` steps (Goyal et al. 2017)."""
    warmup = _check.integer(op, "warmup", warmup, 0)

    def schedule(step: int) -> float:
        step = _check.integer(op, "step", step, 0)
        return (step + 1) / warmup if step < warmup else after(step - warmup)

    return schedule


def constant(*, warmup: int = 0) -> Schedule:
    """1, after `warmup` steps of a straight rise."""
    return _warmed("constant", warmup, lambda step: 1.0)


def linear(steps: int, *, warmup: int = 0, final: float = 0.0) -> Schedule:
    """A straight fall from 1 to `final`, which the step after the last of `steps` has; the warm-up is among them."""
    return _falling("linear", steps, warmup, final, lambda done: 1 - done)


def cosine(steps: int, *, warmup: int = 0, final: float = 0.0) -> Schedule:
    """Half a cosine from 1 to `final` (Loshchilov & Hutter 2017), which the step after the last of `steps` has.

    Parameters
    ----------
    steps : int
        Of the whole training, the warm-up among them.
    warmup : int
        Steps of a straight rise before, less than `steps`.
    final : float
        ≥ 0.

    Raises
    ------
    ArgumentError
        A number out of range.
    """
    return _falling("cosine", steps, warmup, final, lambda done: 0.5 * (1 + math.cos(math.pi * done)))


def _falling(op: str, steps: int, warmup: int, final: float, shape: Callable[[float], float]) -> Schedule:
    steps = _check.integer(op, "steps", steps, 1)
    warmup = _check.integer(op, "warmup", warmup, 0, steps - 1)
    final = _check.number(op, "final", final, low=0)
    return _warmed(op, warmup, lambda step: final + (1 - final) * shape(min(1.0, step / (steps - warmup))))


def step(milestones: Sequence[int], *, factor: float = 0.1, warmup: int = 0) -> Schedule:
    """1, times `factor` from each of the `milestones` on: numbers of steps, counted from the end of the warm-up.

    Raises
    ------
    ArgumentError
        Milestones that do not rise, or a number out of range.
    """
    marks = [_check.integer("step", "milestones", m, 0) for m in milestones]
    if any(a >= b for a, b in pairwise(marks)):
        raise ArgumentError(message("step", "milestones", shown(milestones), "rising numbers"))
    factor = _check.number("step", "factor", factor, low=0)
    return _warmed("step", warmup, lambda at: factor ** sum(at >= m for m in marks))
