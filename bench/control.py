"""The control workload: the same work every time, by code that is not under test; what it takes longer is the machine.

A hash of a fixed buffer: bound by the core, without vectors that change its clock, no memory traffic to speak of, and the
interpreter's lock is free meanwhile, so that the control of n threads occupies n CPUs and shares nothing.
"""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter_ns

__all__ = ["FEWEST_QUIET", "QUIET", "Control", "quiet"]

BUFFER = bytes(range(256)) * 1024  # 256 KB, which stays in a level-2 cache
PIECES = 4  # about 1 ms in all

QUIET = 1.10  # a round counts when its control took at most this much longer than the run's fastest
FEWEST_QUIET = 5  # rounds that a number rests on


def quiet(rounds_ns, control_ns, best_ns):
    """The rounds that the machine left in peace, in order."""
    return [ns for ns, control in zip(rounds_ns, control_ns, strict=True) if control <= QUIET * best_ns]


class Control:
    """The control on as many threads as the workload beside it takes."""

    def __init__(self, threads):
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self.time()  # the pool starts its threads

    def time(self):
        """Nanoseconds of one control, all threads together."""
        start = perf_counter_ns()
        if self._pool is None:
            _work()
        else:
            list(self._pool.map(_work, range(self.threads)))
        return perf_counter_ns() - start


def _work(_=None):
    digest = hashlib.blake2b()
    for _ in range(PIECES):
        digest.update(BUFFER)
    return digest.digest()
