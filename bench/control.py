"""The control workload: the same work every time, by code that is not under test; what it takes longer is the machine.

A machine has no one speed: the clock of a virtual CPU changes by a quarter from one second to the next, with what the
neighbours do. So a time counts in units of the control around it, brought to the control that is usual in the run; and
it counts at all when the control before and the control after agree, so that the machine was the same all the while.

Two kinds. "core": a hash of a fixed buffer, bound by the core, without vectors that change its clock and without traffic.
"memory": NumPy's copy between buffers beyond a level-2 cache, for workloads that are as large. The interpreter's lock is
free in both, and each of n threads stays on a CPU of its own, so that the control of n threads occupies n CPUs: where the
scheduler places them, two may share one for longer than a control lasts.
"""

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier
from time import perf_counter_ns

import numpy as np

__all__ = ["FEWEST_QUIET", "QUIET", "Control", "kind_of", "quiet"]

BUFFER = bytes(range(256)) * 1024  # 256 KB, which stays in a level-2 cache
PIECES = 4  # about 1 ms in all
TRIES = 3  # the fastest counts: what disturbs a control only ever makes it slower
COPIED = 8 << 20  # bytes a thread, about 1 ms
LARGE = 4 << 20  # bytes that a workload touches, from which its control is of the memory

QUIET = 1.10  # a round counts when the slower of the two controls around it took at most this much longer than the other
FEWEST_QUIET = 5  # rounds that a number rests on


def quiet(rounds_ns, control_ns, drift, usual_ns):
    """The rounds in which the machine did not change, in order, as they would have been beside a control of `usual_ns`."""
    rounds = zip(rounds_ns, control_ns, drift, strict=True)
    return [ns * usual_ns / control for ns, control, changed in rounds if changed <= QUIET]


def kind_of(nbytes):
    """The kind of control that belongs beside a workload that touches so many bytes."""
    return "memory" if nbytes >= LARGE else "core"


class Control:
    """The control on as many threads as the workload beside it takes."""

    def __init__(self, threads):
        self.threads = threads
        numbers = count()
        self._pool = ThreadPoolExecutor(threads, initializer=lambda: _stay_on(next(numbers))) if threads > 1 else None
        self._together = Barrier(threads)
        self._buffers = np.zeros((threads, 2, COPIED), np.uint8)
        self._work = {"core": _hash, "memory": self._copy}
        for kind in self._work:
            self.time(kind)  # the pool starts its threads, the buffers get their pages

    def time(self, kind="core"):
        """Nanoseconds of one control, all threads together; the fastest of TRIES."""
        return min(self._once(self._work[kind]) for _ in range(TRIES))

    def _once(self, work):
        start = perf_counter_ns()
        if self._pool is None:
            work(0)
        else:
            list(self._pool.map(self._at_once, [work] * self.threads, range(self.threads)))
        return perf_counter_ns() - start

    def _at_once(self, work, thread):
        self._together.wait()  # so that no thread does the work of two
        work(thread)

    def _copy(self, thread):
        np.copyto(self._buffers[thread, 0], self._buffers[thread, 1])


def _stay_on(number):
    """Keep the calling thread on one of the CPUs that the process may use."""
    if hasattr(os, "sched_setaffinity"):
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpus[number % len(cpus)]})


def _hash(_):
    digest = hashlib.blake2b()
    for _ in range(PIECES):
        digest.update(BUFFER)
    return digest.digest()
