"""How a time is taken: calls in batches, batches in turns.

A batch is as many calls as last BATCH_NS, so that the clock costs nothing; its mean is one time. A turn is one untimed
call, which brings operands and code back into the caches after somebody else's turn, then batches for TURN_NS, at least
three; the fastest of them is the turn's time, because what disturbs a batch only ever makes it slower. The turns of a
workload are its rounds: the median of the quiet ones is reported, and their MAD (control.py).
"""

import gc
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter_ns

__all__ = ["Stopwatch"]

BATCH_NS = 1_000_000
TURN_NS = 20_000_000
FEWEST_BATCHES = 3
WARM_UP_NS = 30_000_000
MOST_CALLS = 1_000_000  # a batch


@dataclass
class Stopwatch:
    """Times turns of one function, after a warm-up that also finds the size of a batch."""

    calls: int = 1

    @classmethod
    def warmed_up(cls, function):
        """Call until WARM_UP_NS have passed (at least twice), then fix the number of calls a batch."""
        start = perf_counter_ns()
        fastest = None
        while fastest is None or perf_counter_ns() - start < WARM_UP_NS:
            function()
            elapsed = _batch(function, 1)
            fastest = elapsed if fastest is None else min(fastest, elapsed)
        calls = max(1, min(MOST_CALLS, -(-BATCH_NS // max(fastest, 1))))
        return cls(calls)

    def turn(self, function):
        """Nanoseconds a call."""
        function()
        enabled = gc.isenabled()
        gc.disable()
        try:
            end = perf_counter_ns() + TURN_NS
            best = min(_batch(function, self.calls) for _ in range(FEWEST_BATCHES))
            while perf_counter_ns() < end:
                best = min(best, _batch(function, self.calls))
        finally:
            if enabled:
                gc.enable()
        return best / self.calls


def _batch(function, calls):
    # repeat(None, n) costs less a step than range(n): no integers are made
    steps = repeat(None, calls)
    start = perf_counter_ns()
    for _ in steps:
        function()
    return perf_counter_ns() - start
