"""What the machine can do at most, measured at the ISA level in use, and which limit binds a workload."""

from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np

from cpuops import _kernels

__all__ = ["Bound", "bound", "measure", "merge"]

FMA_STEPS = 100_000  # about half a millisecond
PASS_NS = 2_000_000
REPEATS = 5
# bytes that a loop touches in all; a workload belongs to the largest class that is not larger than itself
CLASSES = tuple(1 << p for p in range(14, 29))


@dataclass(frozen=True)
class Bound:
    """The least time of a workload by the limits, and the limit that decides it."""

    ns: float
    name: str  # "fma" or "memory <class>"
    rate: float  # GFLOP/s or GB/s at the limit


def _kernel(name, dtype="float32"):
    return _kernels.load(f"probe.{name}", np.dtype(dtype).char)


def _fastest(function):
    best = float("inf")
    for _ in range(REPEATS):
        start = perf_counter_ns()
        function()
        best = min(best, perf_counter_ns() - start)
    return best


def _fma(dtype, threads):
    """GFLOP/s of independent chains of multiply-adds in registers."""
    kernel, out = _kernel("fma", dtype), np.zeros(threads, dtype)
    flops = _kernels.constants("probe").FLOPS_A_STEP[dtype] * FMA_STEPS * threads
    return flops / _fastest(lambda: kernel(0.0, out, FMA_STEPS, threads))


def _bandwidths(threads):
    """({class: GB/s of a copy, read and written bytes together}, {class: GB/s of reading})."""
    copy, read = _kernel("copy"), _kernel("read")
    multiple = _kernels.constants("probe").SHARE_MULTIPLE
    cells = np.ones(CLASSES[-1] // 4, np.float32)  # touched, and so in place
    sums = np.zeros(threads, np.float32)
    copies, reads = {}, {}
    for size in CLASSES:
        half = size // 4 // 2
        share = max(multiple, half // threads // multiple * multiple)
        source, target = cells[: share * threads], cells[share * threads : 2 * share * threads]
        nbytes = 2 * source.nbytes
        times = max(1, int(PASS_NS * 10 // nbytes))  # at 10 GB/s
        copies[size] = times * nbytes / _fastest(lambda s=source, t=target, n=share, k=times: copy(0.0, s, t, n, k, threads))
        whole = cells[: 2 * share * threads]
        reads[size] = times * nbytes / _fastest(lambda w=whole, n=2 * share, k=times: read(0.0, w, sums, n, k, threads))
    return copies, reads


def measure(threads):
    """The limits of so many threads: {"fma": {dtype: GFLOP/s}, "copy": {class: GB/s}, "read": {class: GB/s}}."""
    copies, reads = _bandwidths(threads)
    return {
        "fma": {dtype: _fma(dtype, threads) for dtype in ("float32", "float64")},
        "copy": {str(k): v for k, v in copies.items()},
        "read": {str(k): v for k, v in reads.items()},
    }


def merge(first, second):
    """The larger of each number: a disturbed measurement of a limit is too low, never too high."""
    return {kind: {k: max(v, second[kind][k]) for k, v in first[kind].items()} for kind in first}


def size_class(nbytes):
    return str(max((c for c in CLASSES if c <= nbytes), default=CLASSES[0]))


def bound(cost, dtype, limits):
    """Which limit binds: multiply-adds, or traffic.

    What is written counts as a copy, what is read beyond that as reading.
    """
    fma_ns = cost.flops / limits["fma"][dtype]
    touched = cost.bytes_read + cost.bytes_written
    size = size_class(touched)
    copied = 2 * min(cost.bytes_read, cost.bytes_written)
    memory_ns = (copied + max(0, cost.bytes_written - cost.bytes_read)) / limits["copy"][size]
    memory_ns += max(0, cost.bytes_read - cost.bytes_written) / limits["read"][size]
    if fma_ns >= memory_ns:
        return Bound(fma_ns, "fma", limits["fma"][dtype])
    return Bound(memory_ns, f"memory {label(int(size))}", touched / memory_ns)


def label(nbytes):
    """16384 as 16K."""
    for unit in ("", "K", "M", "G"):
        if nbytes < 1024:
            return f"{nbytes}{unit}"
        nbytes //= 1024
    raise ValueError("a size class above a terabyte")
