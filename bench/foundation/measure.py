"""Timing: rounds in which the contestants take turns, so that what disturbs the machine disturbs all of them."""

import gc
import statistics
import time
from dataclasses import dataclass

ROUND_SECONDS = 0.004  # one contestant's part of a round, at least: far above the clock's grain and a timer interrupt


@dataclass(frozen=True)
class Timing:
    """Seconds a call in each round."""

    rounds: list

    @property
    def median(self):
        return statistics.median(self.rounds)

    @property
    def spread(self):
        """Median absolute deviation, as a part of the median."""
        return statistics.median(abs(r - self.median) for r in self.rounds) / self.median


def seconds_of(call, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return time.perf_counter() - start


def repeats_for(call):
    """How many calls fill a contestant's part of a round; also warms it up."""
    repeats = 1
    while (seconds := seconds_of(call, repeats)) < ROUND_SECONDS:
        repeats = max(2 * repeats, int(repeats * ROUND_SECONDS / max(seconds, 1e-9)))
    return repeats


def interleaved(calls, rounds):
    """Time every call in every round; each round begins with another contestant.

    Parameters
    ----------
    calls : dict
        Contestant's name to a function of no argument.
    rounds : int

    Returns
    -------
    dict
        Contestant's name to Timing.
    """
    repeats = {name: repeats_for(call) for name, call in calls.items()}
    seconds = {name: [] for name in calls}
    names = list(calls)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for i in range(rounds):
            first = i % len(names)
            for name in names[first:] + names[:first]:
                seconds[name].append(seconds_of(calls[name], repeats[name]) / repeats[name])
    finally:
        if collecting:
            gc.enable()
    return {name: Timing(each) for name, each in seconds.items()}
