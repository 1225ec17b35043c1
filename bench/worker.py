"""A contestant's process: answers one JSON line for each JSON line that it reads.

    {"do": "hello"}                              {"version": ..., "config": ...}
    {"do": "prepare", "workload": NAME, "reference": PATH}
                                                 {"variants": [...], "cost": {...}, "control": kind, "wrong": {variant: why}}
    {"do": "turn", "variant": NAME}              {"ns": nanoseconds a call, "control_ns": ..., "drift": ...}
    {"do": "release"}                            {}
    {"do": "limits"}                             what limits.measure gives
    {"do": "control"}                            {"control_ns": ...}
    {"do": "reference", "workload": NAME, "path": PATH}      {}

Whatever goes wrong is answered as {"error": "Kind: message"}.
"""

import json
import os
import sys

import cpuops

from . import engine, limits
from .control import Control, kind_of
from .reference import Reference, make_reference
from .timing import Stopwatch
from .workloads import BY_NAME

__all__ = ["main"]

CONTROLS = 30


class Worker:
    """Holds an engine, and one prepared workload at a time."""

    def __init__(self, name, threads):
        self.threads = threads
        self.engine = engine.load(name, threads)
        self.control = Control(threads)
        # the operands, and contestants whole: a library may keep no more than addresses of its operands and results
        self._job, self._contestants, self._watches = None, {}, {}
        self._kind = "core"

    def do_hello(self):
        config = cpuops.show_config("dicts")
        kept = {k: config[k] for k in ("isa", "isa_available", "openmp", "compiler", "versions")}
        return {"version": self.engine.version(), "config": kept}

    def do_prepare(self, workload, reference):
        """Make operands, check every variant against the reference, warm up those that are right."""
        self.do_release()
        self._job = job = _job(workload)
        right = Reference(reference)
        self._kind = kind_of(sum(a.nbytes for a in job.arrays.values()))
        wrong, cost = {}, None
        for contestant in self.engine.contestants(job):
            results = contestant.read(contestant.call())
            why = right.difference(results, self.engine.exact)
            if why:
                wrong[contestant.variant] = why
                continue
            cost = job.workload.cost(job, results) if cost is None and self.engine.name == "cpuops" else cost
            del results
            self._contestants[contestant.variant] = contestant
            self._watches[contestant.variant] = Stopwatch.warmed_up(contestant.call)
        return {"variants": list(self._contestants), "wrong": wrong, "cost": cost and vars(cost), "control": self._kind}

    def do_turn(self, variant):
        """One turn between two controls: their mean, and the slower over the faster, which tells whether the machine changed."""
        before = self.control.time(self._kind)
        ns = self._watches[variant].turn(self._contestants[variant].call)
        after = self.control.time(self._kind)
        return {"ns": ns, "control_ns": (before + after) / 2, "drift": max(before, after) / min(before, after)}

    def do_release(self):
        self._job = None
        self._contestants.clear()
        self._watches.clear()
        return {}

    def do_limits(self):
        return limits.measure(self.threads)

    def do_control(self):
        """The fastest of some, of the core."""
        return {"control_ns": min(self.control.time() for _ in range(CONTROLS))}

    def do_reference(self, workload, path):
        make_reference(_job(workload), path)
        return {}


def _job(name):
    # results that a gradient takes come from cpuops in every process, so that all contestants get the same operands
    return BY_NAME[name].job(cpuops.CpuBackend())


def main():
    name, threads = sys.argv[1], int(sys.argv[2])
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints must not end up between the replies
    try:
        worker = Worker(name, threads)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}", "absent": isinstance(error, ImportError)}), file=replies)
        return
    print(json.dumps({}), file=replies)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = getattr(worker, "do_" + request.pop("do"))(**request)
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=replies)


if __name__ == "__main__":
    main()
