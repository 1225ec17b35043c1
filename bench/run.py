"""`run` and `peers`: measure workloads, alone or beside other libraries."""

import shlex

import cpuops

from . import report, resultfile, schedule
from .engine import ENGINES, PEERS
from .errors import BenchError
from .progress import Bar
from .workloads import chosen, unmeasured

__all__ = ["peers", "run"]


def run(options):
    """Measure cpuops; print a table, write the file."""
    contents = measured(options, ["cpuops"])
    print(report.run_table(contents))
    return finish(contents, options)


def peers(options):
    """Measure cpuops and every peer; print the ratios, family means and the worst ten."""
    names = options.peers.split(",") if options.peers else PEERS
    unknown = [n for n in names if n not in PEERS]
    if unknown:
        raise BenchError(f"--peers {','.join(unknown)}: there are {', '.join(PEERS)}")
    contents = measured(options, ["cpuops", *names])
    if all(name in contents["missing"] for name in names):
        reasons = "; ".join(f"{n}: {why}" for n, why in contents["missing"].items())
        raise BenchError(f"no peer is installed ({reasons}); `make bench-peers` installs them in an environment of their own")
    print(report.peers_report(contents))
    return finish(contents, options)


def measured(options, engines):
    """Run the schedule with a progress bar; the file's contents, written where --json says."""
    workloads = chosen(options.only, cpuops.CpuBackend, options.more)
    settings = schedule.Settings(options.threads, options.launches, max(options.rounds, options.launches))
    entries = [schedule.Entry(name) for name in engines if name in ENGINES]
    with Bar(schedule.steps(workloads, settings), options.command) as bar:
        found = schedule.measure(workloads, entries, settings, bar.step)
    contents = resultfile.document(shlex.join(options.words), found, settings, unmeasured(cpuops.CpuBackend))
    if options.json:
        resultfile.write(options.json, contents)
    return contents


def finish(contents, options):
    """Say what is missing and how quiet the machine was; refuse a busy one."""
    for kind in ("missing", "wrong", "unmeasured"):
        for name, why in contents[kind].items():
            print(f"{kind}: {name}: {why}")
    print(f"noise: the two controls around a turn differed by a factor of {contents['noise']:.3f}")
    refuse_busy(contents, options)
    return 0


def refuse_busy(contents, options):
    """BenchError when the control says that the machine was too busy."""
    if contents["noise"] > options.noise:
        raise BenchError(
            f"this machine is too busy to measure: the two controls around a turn differed by a factor of {contents['noise']:.2f} "
            f"(--noise allows {options.noise:.2f})"
        )
