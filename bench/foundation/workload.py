"""Workload: one piece of work, how to do it with cpuops and with each peer, and what the answer must be."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np


def plain(function):
    """A contestant whose set-up is nothing: its call is the function on the operands."""
    return lambda *operands: partial(function, *operands)


@dataclass(frozen=True)
class Workload:
    """One row of a benchmark.

    A contestant is a function of the operands that does its set-up and returns the call to time; `plain` makes one of an
    ordinary function. The call returns its result: an array, a scalar or a sequence of those.
    """

    name: str
    operands: Callable[[np.random.Generator], tuple]  # makes the arrays, and so touches their pages
    ours: Callable[..., Callable]  # (backend, *operands) -> call
    peers: Mapping[str, Callable[..., Callable]]  # peer -> (*operands, in the peer's own type) -> call
    reference: Callable | None = None  # of the operands, floating ones in float64; None: the first peer that is there
    result: Callable = lambda call: call()  # what is checked, made of a call
    tolerance: float = 2e-5  # of the largest magnitude in the reference
    flops: int = 0
    bytes: int = 0  # read and written once, at least
    threads: tuple[int, ...] = (1,)
    demand: Mapping[str, float] = field(default_factory=dict)  # peer -> least (peer's time / ours) on one thread

    def work_rate(self, seconds):
        """GFLOP/s or GB/s in words, or nothing where the work is not counted."""
        if self.flops:
            return f"{self.flops / seconds / 1e9:.1f} GFLOP/s"
        return f"{self.bytes / seconds / 1e9:.1f} GB/s" if self.bytes else ""


def normal(shapes, dtype=np.float32):
    """Operands of those shapes, standard normal."""
    return lambda rng: tuple(rng.standard_normal(shape).astype(dtype) for shape in shapes)


def in_float64(operand):
    """The operand, in float64 where it is a floating array."""
    floating = isinstance(operand, np.ndarray) and operand.dtype.kind == "f"
    return operand.astype(np.float64) if floating else operand


def parts(result):
    """The arrays of a result, in float64."""
    several = isinstance(result, (tuple, list))
    return [np.asarray(part, np.float64) for part in (result if several else [result]) if part is not None]


class WrongResult(Exception):
    """A contestant's answer differs from the reference; its time would mean nothing."""


def check(workload, contestant, result, expected):
    """Raise WrongResult unless every part of the result is the expected one within the workload's tolerance."""
    got, want = parts(result), parts(expected)
    if [g.shape for g in got] != [w.shape for w in want]:
        shapes = f"{[g.shape for g in got]}, expected {[w.shape for w in want]}"
        raise WrongResult(f"{workload.name}: {contestant} gave shapes {shapes}")
    for g, w in zip(got, want, strict=True):
        scale = np.abs(w).max(initial=0.0)
        error = np.abs(g - w).max(initial=0.0)
        if not error <= workload.tolerance * scale:
            raise WrongResult(f"{workload.name}: {contestant} is off by {error:.3g} where the largest value is {scale:.3g}")
