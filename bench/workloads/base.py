"""What a workload is made of: a named call of one method, or a named training step."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..operations import METHODS, Call, Oracle, parts

# operands of which only the shape counts: they are not read, and so are no traffic
SHAPE_ONLY = {
    **dict.fromkeys([f"conv{n}d_x_backward" for n in (1, 2, 3)], "x"),
    **dict.fromkeys([f"conv{n}d_weight_backward" for n in (1, 2, 3)], "weight"),
    **dict.fromkeys([f"{kind}_pool{n}d_with_indices_backward" for kind in ("max", "adaptive_max") for n in (1, 2, 3)], "x"),
    **dict.fromkeys([f"{kind}_pool{n}d_backward" for kind in ("avg", "adaptive_avg") for n in (1, 2, 3)], "x"),
    "interpolate_backward": "x",
    "embedding_backward": "weights",
}


DISTINCT = 999_983  # values; a prime, so that repetitions fall into step with nothing


def normal(rng, *shape, spread=1.0):
    """Normal values; large arrays repeat a million of them, which is drawn ten times faster and costs a kernel the same."""
    size = int(np.prod(shape))
    values = rng.standard_normal(min(size, DISTINCT))
    values *= spread
    return np.resize(values, shape)


@dataclass(frozen=True)
class Cost:
    """Arithmetic and least traffic of one call: every operand that counts read once, every result written once."""

    flops: float
    bytes_read: int
    bytes_written: int


@dataclass(frozen=True)
class Job:
    """A workload with its operands in memory.

    `args` and `options` are what a contestant gets; `into` asks for a result in memory that exists already.
    """

    workload: Workload
    args: dict[str, Any]
    options: dict[str, Any]

    @property
    def into(self):
        return self.workload.into

    @property
    def arrays(self):
        return {k: v for k, v in self.args.items() if isinstance(v, np.ndarray)}


@dataclass(frozen=True)
class Workload(ABC):
    """One named piece of work: `family`/`method`/`label` name it, the subclasses say what it is."""

    family: str
    method: str
    label: str
    dtype: str = "float32"
    into: bool = False

    @property
    def name(self):
        return f"{self.method}/{self.label}" + ("-f64" if self.dtype == "float64" else "") + ("-out" if self.into else "")

    @property
    @abstractmethod
    def needs(self) -> tuple[str, ...]:
        """Methods of a backend without which it cannot run."""

    @abstractmethod
    def job(self, backend) -> Job:
        """Make the operands; results of a forward operation that a gradient takes come from `backend`."""

    @abstractmethod
    def call(self, job: Job, backend) -> Callable[[], Any]:
        """The work on a backend (or on the oracle), as a function without arguments."""

    @abstractmethod
    def cost(self, job: Job, results: tuple) -> Cost:
        """Its arithmetic and its least traffic."""

    def part(self, job: Job, positions: Callable[[int], np.ndarray]) -> Job:
        """The job at the cells `positions(size)` alone, where a cell of the results depends on no other cell; else the job itself."""
        return job

    @abstractmethod
    def expected(self, job: Job) -> tuple[tuple, list, float]:
        """(results of the oracle, what an error of each is relative to, allowed relative error)."""


@dataclass(frozen=True)
class OperationWorkload(Workload):
    """One method of the table; `make` draws the operands of the *forward* call in float64."""

    make: Callable[[np.random.Generator], Call] = field(default=None, repr=False)
    # of its arrays: what one would write with NumPy instead
    expression: Callable | None = field(default=None, repr=False)

    @property
    def needs(self):
        row, _ = METHODS[self.method]
        return (row.name, self.method)

    def job(self, backend):
        row, gradient = METHODS[self.method]
        # one seed for an operation and its gradients: they work on the same operands
        rng = np.random.default_rng(zlib.crc32(f"{row.name}/{self.label}".encode()))
        call = self.make(rng).cast(self.dtype)
        if gradient is not None:
            call = self._gradient_call(row, gradient, call, backend, rng)
        return Job(self, call.args, call.options)

    def _gradient_call(self, row, gradient, call, backend, rng):
        results = parts(call.on(backend, row.name))
        output_grad = normal(rng, *results[0].shape).astype(self.dtype)
        return gradient.call(row, call, results, output_grad)

    def call(self, job, backend):
        method = getattr(backend, self.method)
        operands = list(job.args.values())
        while operands[-1] is None:
            operands.pop()
        if job.into:
            # a first call gives the shape; the pages of its result are touched
            out = np.ascontiguousarray(method(*operands, **job.options)).copy()
            return partial(method, *operands, **job.options, out=out)
        return partial(method, *operands, **job.options)  # a third of the overhead of a lambda that unpacks

    def cost(self, job, results):
        row, gradient = METHODS[self.method]
        call = Call(job.args, job.options)
        output = results[0] if gradient is None else job.args.get("output_grad", job.args.get("grad_loss"))
        flops = row.flops(self._forward_call(job), output) * (gradient.work if gradient is not None else 1)
        unread = SHAPE_ONLY.get(self.method)
        read = sum(a.nbytes for name, a in call.arrays.items() if name != unread)
        return Cost(float(flops), read, sum(r.nbytes for r in results if r is not None))

    def _forward_call(self, job):
        """The forward call, for its arithmetic: drawn again where the gradient does not take the operands."""
        row, gradient = METHODS[self.method]
        if gradient is None:
            return Call(job.args, job.options)
        rng = np.random.default_rng(zlib.crc32(f"{row.name}/{self.label}".encode()))
        return self.make(rng)

    def part(self, job, positions):
        shapes = {a.shape for a in job.arrays.values()}
        if not METHODS[self.method][0].elementwise or len(shapes) > 1:
            return job
        at = positions(next(iter(job.arrays.values())).size)
        return Job(self, {k: v.reshape(-1)[at] if isinstance(v, np.ndarray) else v for k, v in job.args.items()}, job.options)

    def expected(self, job):
        row, gradient = METHODS[self.method]
        exact = Call(job.args, job.options).cast(np.float64)
        wanted = parts(getattr(Oracle(), self.method)(*exact.args.values(), **exact.options))
        return wanted, (gradient or row).scale(exact, wanted), row.rtol[self.dtype]


@dataclass(frozen=True)
class StepWorkload(Workload):
    """One training step of a small network: forward, loss and every parameter's gradient.

    network            what peers know it by
    draw(rng)          {name: array} of parameters and batch, in float64
    step(ops, **arrays) -> the loss and the gradients; `ops` is a backend, or the oracle
    methods            what it calls
    products           floating-point operations of its matrix products and convolutions; the rest is small beside them
    """

    network: str = ""
    draw: Callable = field(default=None, repr=False)
    step: Callable = field(default=None, repr=False)
    methods: tuple[str, ...] = ()
    products: Callable = field(default=None, repr=False)

    RTOL = 2e-4  # a few hundred float32 roundings pass through a step, and a loss divides them by a batch

    @property
    def needs(self):
        return self.methods

    def job(self, backend):
        rng = np.random.default_rng(zlib.crc32(self.label.encode()))
        arrays = {k: v.astype(self.dtype) if v.dtype.kind == "f" else v for k, v in self.draw(rng).items()}
        return Job(self, arrays, {})

    def call(self, job, backend):
        return partial(self.step, backend, **job.args)

    def cost(self, job, results):
        read = sum(a.nbytes for a in job.args.values())
        return Cost(float(self.products(**job.args)), read, sum(np.asarray(r).nbytes for r in results))

    def expected(self, job):
        exact = {k: v.astype(np.float64) if v.dtype.kind == "f" else v for k, v in job.args.items()}
        wanted = tuple(np.asarray(r) for r in self.step(Oracle(), **exact))
        return wanted, [np.abs(w).max(initial=0.0) for w in wanted], self.RTOL


def operation(family, op, label, make, *, gradients=None, forward=True, dtype="float32", into=(False,)):
    """Workloads of one operation on one kind of operands: forward and the named gradients (all of the row's by default)."""
    row = METHODS[op][0]
    names = [g.name for g in row.gradients] if gradients is None else list(gradients)
    return [
        OperationWorkload(family, method, label, dtype, put, make)
        for method in ([op] if forward else []) + names
        for put in into
    ]  # fmt: skip
