"""Who is measured when: launches, groups, rounds, turns.

A group is one family at one thread count; every launch gives each group fresh processes, one a contestant, and all
launches of a workload lie apart in time. Within a workload the contestants take turns, in another order every round. A
turn during which the machine changed is taken again.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from queue import SimpleQueue

from . import limits, statistics
from .contestant import ROOT, Absent, Process
from .control import QUIET
from .errors import BenchError
from .reference import path_of

__all__ = ["Entry", "Measurement", "Series", "Settings", "measure", "steps"]

RETRIES = 2  # of a turn whose two controls differ


@dataclass(frozen=True)
class Entry:
    """A contestant to start: which library, from where, under which name."""

    engine: str
    package: Path = ROOT
    label: str = ""

    @property
    def name(self):
        return self.label or self.engine


@dataclass(frozen=True)
class Settings:
    threads: tuple[int, ...] = (1,)
    launches: int = 3
    rounds: int = 15  # of all launches together

    def rounds_of(self, launch):
        """The rounds of one launch, which sum up to `rounds`."""
        return self.rounds // self.launches + (launch < self.rounds % self.launches)


@dataclass
class Series:
    """The rounds of one variant of one contestant on one workload."""

    workload: object
    threads: int
    contestant: str
    variant: str
    control: str  # the kind of its control
    rounds_ns: list[float] = field(default_factory=list)
    control_ns: list[float] = field(default_factory=list)
    drift: list[float] = field(default_factory=list)


@dataclass
class Measurement:
    """Everything that a schedule found out."""

    series: dict = field(default_factory=dict)  # (workload name, threads, contestant, variant) -> Series
    costs: dict = field(default_factory=dict)  # workload name -> {"flops", "bytes_read", "bytes_written"}
    limits: dict = field(default_factory=dict)  # threads -> limits.measure
    core_control: dict = field(default_factory=dict)  # threads -> ns of the control that is perfectly parallel
    versions: dict = field(default_factory=dict)  # contestant -> version
    config: dict = field(default_factory=dict)  # contestant -> show_config
    missing: dict = field(default_factory=dict)  # contestant -> why it could not be started
    wrong: dict = field(default_factory=dict)  # (workload name, contestant, variant) -> what differs

    def noise(self):
        """How much the two controls around a turn differed, at the median over all turns."""
        return statistics.median([d for s in self.series.values() for d in s.drift])

    def usual_control(self, series):
        """The median in this run of the control that stands beside this series."""
        alike = [s for s in self.series.values() if (s.threads, s.control) == (series.threads, series.control)]
        return statistics.median([c for s in alike for c in s.control_ns])


def measure(workloads, entries, settings, step: Callable[[str], None] = lambda name: None):
    """Take every round of every workload; `step` is told the workload after each of `steps(workloads, settings)` visits."""
    found = Measurement()
    _make_references(workloads, step)
    for threads in settings.threads:
        found.limits[threads], found.core_control[threads] = _limits(threads)
    for launch in range(settings.launches):
        for threads in settings.threads:
            for _, group in groupby(workloads, attrgetter("family")):
                _group(list(group), entries, threads, settings.rounds_of(launch), found, step)
    for threads in settings.threads:
        again, control_ns = _limits(threads)
        found.limits[threads] = limits.merge(found.limits[threads], again)
        found.core_control[threads] = min(found.core_control[threads], control_ns)
    return found


def steps(workloads, settings):
    return settings.launches * len(settings.threads) * len(workloads) + len(_without_reference(workloads))


def _limits(threads):
    with Process("cpuops", threads) as process:
        return process.ask("limits"), process.ask("control")["control_ns"]


def _without_reference(workloads):
    """{path: a workload} of the references that are not there yet; several workloads may have one together."""
    paths = {path_of(w): w for w in workloads}
    return {path: w for path, w in paths.items() if not path.exists()}


def _make_references(workloads, step):
    """What results are compared with: on all CPUs, for nothing is timed meanwhile."""
    missing = _without_reference(workloads)
    with ExitStack() as stack:
        idle = SimpleQueue()
        for _ in range(min(len(missing), os.cpu_count() or 1)):
            idle.put(stack.enter_context(Process("cpuops", 1)))

        def make(path, workload):
            process = idle.get()
            try:
                process.ask("reference", workload=workload.name, path=str(path))
            finally:
                idle.put(process)
            return workload.name

        with ThreadPoolExecutor(idle.qsize() or 1) as pool:
            for name in pool.map(make, missing.keys(), missing.values()):
                step(name)


def _group(workloads, entries, threads, rounds, found, step):
    with ExitStack() as stack:
        started = [
            stack.enter_context(Process(e.engine, threads, e.package, e.name)) for e in entries if e.name not in found.missing
        ]
        processes = [p for p in started if _ready(p, found)]
        for workload in workloads:
            _workload(workload, processes, threads, rounds, found)
            step(workload.name)


def _ready(process, found):
    try:
        hello = process.ask("hello")
    except Absent as why:
        found.missing[process.label] = str(why)
        return False
    found.versions[process.label], found.config[process.label] = hello["version"], hello["config"]
    return True


def _workload(workload, processes, threads, rounds, found):
    contest = []
    for process in processes:
        prepared = process.ask("prepare", workload=workload.name, reference=str(path_of(workload)))
        for variant, why in prepared["wrong"].items():
            if process.engine == "cpuops":
                raise BenchError(f"{workload.name}: the result of {process.label} differs from the oracle: {why}")
            found.wrong[workload.name, process.label, variant] = why
        if prepared["cost"]:
            found.costs[workload.name] = prepared["cost"]
        for variant in prepared["variants"]:
            key = (workload.name, threads, process.label, variant)
            series = found.series.setdefault(key, Series(workload, threads, process.label, variant, prepared["control"]))
            contest.append((process, variant, series))
    for r in range(rounds):
        first = r % max(1, len(contest))
        for process, variant, series in contest[first:] + contest[:first]:
            reply = _turn(process, variant)
            series.rounds_ns.append(reply["ns"])
            series.control_ns.append(reply["control_ns"])
            series.drift.append(reply["drift"])
    for process in processes:
        process.ask("release")


def _turn(process, variant):
    """A turn; the steadiest of up to 1 + RETRIES."""
    best = None
    for _ in range(1 + RETRIES):
        reply = process.ask("turn", variant=variant)
        if best is None or reply["drift"] < best["drift"]:
            best = reply
        if best["drift"] <= QUIET:
            break
    return best
