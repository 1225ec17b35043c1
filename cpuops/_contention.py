"""Whether the CPUs are taken, so that more threads get less done: then a backend steps back to one.

A parallel region ends when its last worker has arrived. On a machine with more busy threads than CPUs a worker may
have to queue for a CPU before it can say that nothing is left to do, while its master spins, and takes the CPU from
others that spin or work: two processes with two threads each, on two CPUs, got a half to a twentieth of the work
done (docs/threads.md). How long idle workers spin is a setting of the process, and not a library's to change. But
Linux counts, for every thread, how long it has waited for a CPU. Where that is a large share of the time for which
the calling thread wanted one, we try one thread, and stay with it where it gets at least twice as much done.

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
# Of one thread against all, in work done. What is smaller is no reason to change what the user asked for: a team larger
# than the CPUs waits, too, and still gets its work done.
GAIN = 2
# One thread for this long before the next trial of all, doubled while trials fail
BACK_NS = (40 * MS, 320 * MS)
# All threads for this long, whatever they wait, after one thread was no gain; doubled while that goes on
ALL_NS = (300 * MS, 1200 * MS)


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

    __slots__ = ("all_for", "all_until", "back", "back_for", "clock", "next_look", "rate_of_all", "rate_of_one", "since", "times", "work")

    def __init__(self, clock=time.monotonic_ns, times=schedstat):
        self.clock, self.times = clock, times
        self.back = False  # whether this thread has stepped back
        self.next_look = 0  # when to look again
        self.since = 0, 0  # `times` at the beginning of the evidence
        self.work = 0.0  # done since then, by its estimate
        self.rate_of_all = self.rate_of_one = 0.0  # work a wanted nanosecond, while the CPUs were taken
        self.all_until = 0  # one thread is not tried before
        self.back_for, self.all_for = BACK_NS[0], ALL_NS[0]

    def crowded(self, cost_ns):
        """Whether to use one thread for a call that costs about `cost_ns` on one."""
        now = self.clock()
        if now >= self.next_look:
            gap = now - self.next_look
            self.next_look = now + LOOK_NS
            self._look(now, gap)
        self.work += cost_ns
        return self.back

    def _look(self, now, gap):
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
            self._conclude(now, waited / wanted, self.work / wanted)
        self.since, self.work = times, 0.0

    def _conclude(self, now, share, rate):
        if not self.back:
            if share <= STEP_BACK_ABOVE:
                self.rate_of_one, self.all_until = 0.0, 0
                self.back_for, self.all_for = BACK_NS[0], ALL_NS[0]
            elif now >= self.all_until or self.rate_of_one >= GAIN * rate:
                self.back, self.rate_of_all = True, rate
                self.next_look = now + self.back_for
            return
        self.rate_of_one = rate
        if rate < GAIN * self.rate_of_all:
            self.back = False
            self.all_until = now + self.all_for
            self.all_for = min(2 * self.all_for, ALL_NS[1])
        elif share > STAY_BACK_ABOVE:  # crowded even without our workers
            self.next_look = now + BACK_NS[0]
        else:
            self.back = False
            self.back_for = min(2 * self.back_for, BACK_NS[1])


_of_this_thread = threading.local()


def crowded(cost_ns):
    """Whether the calling Python thread is to use one thread for a call that costs about `cost_ns` on one."""
    try:
        watch = _of_this_thread.watch
    except AttributeError:
        watch = _of_this_thread.watch = Watch()
    return watch.crowded(cost_ns)


def forget():
    """Start anew: what the system has counted for the forking thread, it counts for the child's from zero."""
    _of_this_thread.__dict__.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
