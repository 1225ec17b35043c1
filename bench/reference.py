"""The oracle's results of a workload, kept on disk, and the comparison with them.

Computed once in a process of its own, by tests/oracle in float64; of a large result a fixed sample of cells is kept, and where cells
are independent of each other only those are computed. What a contestant returns is compared before it is timed.
"""

import hashlib
import os
from functools import cache
from pathlib import Path

import numpy as np

__all__ = ["Reference", "make_reference", "path_of"]

ROOT = Path(__file__).resolve().parent.parent
DIRECTORY = ROOT / "build" / "bench" / "reference"
CELLS = 50_000  # kept of each result
EDGE = 64  # of them at the start, and at the end
ROUGHLY = 1e-3  # of the largest element, for a contestant that is not held to our tolerances


@cache
def _sources():
    """What the references follow from: the oracle, the table and the workloads."""
    digest = hashlib.sha256(np.__version__.encode())
    for directory in (ROOT / "tests" / "oracle", ROOT / "tests" / "table", ROOT / "bench" / "workloads"):
        for path in sorted(directory.glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def path_of(workload):
    """Where the workload's reference is kept; a change of the oracle or of the workloads gives another place."""
    name = f"{workload.method}/{workload.label}/{workload.dtype}"
    return DIRECTORY / f"{hashlib.sha256(f'{_sources()} {name}'.encode()).hexdigest()[:24]}.npz"


def positions(size):
    """The flat positions that are compared: all, or both ends and a fixed random choice between."""
    if size <= CELLS:
        return np.arange(size)
    middle = np.random.default_rng(size).integers(EDGE, size - EDGE, CELLS - 2 * EDGE)
    return np.concatenate([np.arange(EDGE), np.unique(middle), np.arange(size - EDGE, size)])


def make_reference(job, path):
    """Compute and store the reference of a workload."""
    path = Path(path)
    part = job.workload.part(job, positions)
    wanted, scales, rtol = job.workload.expected(part)
    kept = {}
    for i, (want, scale) in enumerate(zip(wanted, scales, strict=True)):
        if want is None:
            continue
        want = np.asarray(want)
        allowed = np.broadcast_to(rtol * np.asarray(scale, np.float64), want.shape).reshape(-1)
        if part is job:
            shape, at = want.shape, positions(want.size)
            want, allowed = want.reshape(-1)[at], allowed[at]
        else:
            shape = next(iter(job.arrays.values())).shape
        kept |= {f"wanted{i}": want, f"allowed{i}": allowed, f"shape{i}": np.array(shape, np.int64)}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.npz")
    np.savez(partial, count=len(wanted), **kept)
    partial.replace(path)


class Reference:
    """A stored reference."""

    def __init__(self, path):
        with np.load(path) as stored:
            self._arrays = dict(stored)

    def difference(self, results, exact=True):
        """None when the results are right, else what differs; a contestant returns None for what it does not compute."""
        count = int(self._arrays["count"])
        if len(results) != count:
            return f"{len(results)} results instead of {count}"
        for i, got in enumerate(results):
            if got is None or f"wanted{i}" not in self._arrays:
                continue
            message = self._one(i, np.asarray(got), exact)
            if message:
                return f"result {i}: {message}"
        return None

    def _one(self, i, got, exact):
        shape = tuple(int(n) for n in self._arrays[f"shape{i}"])
        if got.shape != shape:
            return f"shape {got.shape} instead of {shape}"
        wanted = self._arrays[f"wanted{i}"]
        at = positions(got.size)
        values = got.reshape(-1)[at]
        if wanted.dtype.kind in "iu":
            wrong = values != wanted
        else:
            allowed = self._arrays[f"allowed{i}"] if exact else ROUGHLY * np.abs(wanted).max(initial=0.0)
            allowed = allowed + 4 * np.finfo(got.dtype).smallest_subnormal
            wrong = ~(np.abs(values.astype(np.float64) - wanted) <= allowed)
        if not wrong.any():
            return None
        first = int(wrong.argmax())
        return f"{int(wrong.sum())} of {wrong.size} cells, first at {int(at[first])}: {values[first]} instead of {wanted[first]}"
