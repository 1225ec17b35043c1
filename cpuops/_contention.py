"""Whether the CPUs are taken: then a second thread is a loss, and a backend steps back to one.

A parallel region ends when its last worker has arrived. On a machine with more busy threads than CPUs a worker may
have to queue for a CPU before it can say that nothing is left to do, while its master spins, and takes the CPU from
others that spin or work: four processes of two threads on two CPUs ran eight times as long as with one thread
each. How long idle workers spin is a setting of the process, and not a library's to change. So we look at how
long the calling thread has waited for a CPU, which Linux counts for every thread, and use one thread while that
is a large share of the time for which it wanted one. Results do not depend on it: bits never depend on the
thread count. Elsewhere nothing is known, and nobody steps back.
"""

import os
import threading
import time

MS = 1_000_000  # nanoseconds

LOOK_NS = 5 * MS  # a look costs some 10 us
EVIDENCE_NS = 40 * MS  # of time on a CPU or waiting for one, before anything is concluded: some time slices
GAP_NS = 150 * MS  # evidence from before a gap this long between calls is dropped
# Shares of the wanted time that were spent waiting. Two threads a CPU give 1/2 each, three threads on two CPUs 1/3.
STEP_BACK_ABOVE = 0.4
STAY_BACK_ABOVE = 0.3
# One thread for this long, doubled with each trial of all threads that found the CPUs taken again
SHORTEST_NS = 40 * MS
LONGEST_NS = 320 * MS
UNKNOWN_NS = 1000 * MS  # until the next look where the system did not tell


def schedstat():
    """(ns on a CPU, ns waiting for one) of the calling thread so far, or None where the system does not tell."""
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
            on_cpu, waiting, _ = file.read(100).split()
        return int(on_cpu), int(waiting)
    except (OSError, ValueError):
        return None


class Watch:
    """What one Python thread knows about the CPUs."""

    __slots__ = ("back", "clock", "next_look", "pause", "since", "times")

    def __init__(self, clock=time.monotonic_ns, times=schedstat):
        self.clock = clock
        self.times = times
        self.back = False  # whether this thread has stepped back
        self.next_look = 0  # when to look again
        self.since = 0, 0  # `times` at the beginning of the evidence
        self.pause = SHORTEST_NS  # the next time to step back for

    def crowded(self):
        """Whether to use one thread now."""
        now = self.clock()
        if now >= self.next_look:
            gap = now - self.next_look
            self.next_look = now + LOOK_NS
            self._look(now, gap)
        return self.back

    def _look(self, now, gap):
        times = self.times()
        if times is None:
            self.next_look = now + UNKNOWN_NS
            return
        if gap > GAP_NS:  # also the first time
            self.back, self.since = False, times
            return
        waited = times[1] - self.since[1]
        wanted = times[0] - self.since[0] + waited
        if wanted < EVIDENCE_NS:
            if self.back:  # little was done, so little is known
                self.back, self.since = False, times
            return
        self.since = times
        share = waited / wanted
        if self.back:
            self.back = share > STAY_BACK_ABOVE  # crowded even without our workers
            self.next_look = now + (SHORTEST_NS if self.back else LOOK_NS)
        elif share > STEP_BACK_ABOVE:
            self.back = True
            self.next_look = now + self.pause
            self.pause = min(2 * self.pause, LONGEST_NS)
        else:
            self.pause = SHORTEST_NS


_of_this_thread = threading.local()


def crowded():
    """Whether the calling Python thread is to use one thread now."""
    try:
        watch = _of_this_thread.watch
    except AttributeError:
        watch = _of_this_thread.watch = Watch()
    return watch.crowded()


def forget():
    """Start anew: what the system has counted for the forking thread, it counts for the child's from zero."""
    _of_this_thread.__dict__.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
