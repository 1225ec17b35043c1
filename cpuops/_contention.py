"""Whether the CPUs are taken, so that more threads get less done: then a backend steps back to one.

A parallel region ends when its last worker has arrived. On a machine with more busy threads than CPUs a worker may
have to queue for a CPU before it can say that nothing is left to do, while its master spins, and takes the CPU from
others that spin or work: four processes with two threads each, on two CPUs, got a tenth of the work done. How
long idle workers spin is a setting of the process, and not a library's to change. But Linux counts, for every
thread, how long it has waited for a CPU, and we use one thread while that is a large share of the time for which the
calling thread wanted one.

Results do not depend on it: their bits never depend on the thread count. Where the system does not count, nobody steps
back.
"""

import os
import threading
import time

MS = 1_000_000  # nanoseconds

LOOK_NS = 5 * MS  # a look costs some 10 us
EVIDENCE_NS = 40 * MS  # of time on a CPU or waiting for one, before anything is concluded: some time slices
GAP_NS = 150 * MS  # evidence from before a gap this long between calls is dropped
UNKNOWN_NS = 1000 * MS  # until the next look where the system did not tell
# Shares of the wanted time that were spent waiting. Two busy threads a CPU give 1/2.
STEP_BACK_ABOVE = 0.4
STAY_BACK_ABOVE = 0.3
# One thread for this long before the next trial of all, doubled while trials fail
SHORTEST_NS, LONGEST_NS = 40 * MS, 200 * MS


def schedstat():
    """(ns on a CPU, ns waiting for one) of the calling thread so far, or None where the system does not tell."""
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
            on_cpu, waiting, _ = file.read(100).split()
        return int(on_cpu), int(waiting)
    except (OSError, ValueError):
        return None


def cpus():
    """How many CPUs the calling thread may be on."""
    return len(os.sched_getaffinity(0))


class Watch:
    """What one Python thread knows about the CPUs."""

    __slots__ = ("back", "back_for", "clock", "cpus", "next_look", "since", "times")

    def __init__(self, clock=time.monotonic_ns, times=schedstat, cpus=cpus):
        self.clock, self.times, self.cpus = clock, times, cpus
        self.back = False  # whether this thread has stepped back
        self.back_for = SHORTEST_NS  # the next time
        self.next_look = 0  # when to look again
        self.since = 0, 0  # `times` at the beginning of the evidence

    def crowded(self, num_threads):
        """Whether to use one thread, and not `num_threads`, now."""
        now = self.clock()
        if now >= self.next_look:
            gap = now - self.next_look
            self.next_look = now + LOOK_NS
            self._look(now, gap, num_threads)
        return self.back

    def _look(self, now, gap, num_threads):
        times = self.times()
        if times is None:
            self.next_look = now + UNKNOWN_NS
            return
        waited = times[1] - self.since[1]
        wanted = times[0] - self.since[0] + waited
        if gap > GAP_NS or (self.back and wanted < EVIDENCE_NS):  # nothing is known, also the first time
            self.back = False
        elif wanted < EVIDENCE_NS:
            return
        else:
            self._conclude(now, waited / wanted, num_threads)
        self.since = times

    def _conclude(self, now, share, num_threads):
        if self.back:
            if share > STAY_BACK_ABOVE:  # crowded even without our workers
                self.next_look = now + SHORTEST_NS
            else:
                self.back = False
                self.back_for = min(2 * self.back_for, LONGEST_NS)
            return
        # a team larger than the CPUs, which somebody asked for, makes its own members wait
        running = min(1.0, self.cpus() / num_threads)
        if 1 - share < (1 - STEP_BACK_ABOVE) * running:
            self.back = True
            self.next_look = now + self.back_for
        else:
            self.back_for = SHORTEST_NS


_of_this_thread = threading.local()


def crowded(num_threads):
    """Whether the calling Python thread is to use one thread, and not `num_threads`, now."""
    try:
        watch = _of_this_thread.watch
    except AttributeError:
        watch = _of_this_thread.watch = Watch()
    return watch.crowded(num_threads)


def forget():
    """Start anew: what the system has counted for the forking thread, it counts for the child's from zero."""
    _of_this_thread.__dict__.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
