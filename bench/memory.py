"""`memory`: peak scratch of a call, that of whole training steps beside torch, the cost of importing, installed size, the first call."""

import ctypes
import json
import operator
import subprocess
import sys
from pathlib import Path
from time import perf_counter_ns

import cpuops

from . import report, resultfile, statistics
from .contestant import ROOT, environment
from .engine import load
from .errors import BenchError
from .workloads import chosen

__all__ = ["memory"]

IMPORTS = 15  # fresh interpreters of each kind, in alternation
MEGABYTE = 1 << 20
SCRATCH = 8 * MEGABYTE  # a thread, at most

IMPORT = "from time import perf_counter_ns as t; a = t(); import {module}; print(t() - a)"


def memory(options):
    """Print the tables; write them to --json."""
    workloads = [w for w in chosen(options.only, cpuops.CpuBackend, options.more) if w.family != "step" and not w.into]
    calls, steps = [], []
    for threads in options.threads:
        for w in workloads:
            if w.family == "training":
                steps.append({engine: in_fresh_process(engine, w.name, threads) for engine in ("cpuops", "torch")})
            else:
                calls.append(in_fresh_process("cpuops", w.name, threads))
    contents = {"schema": "cpuops-bench-memory/2", "imports": imports(), "installed_bytes": installed(), "calls": calls, "steps": steps}
    print(tables(contents))
    if options.json:
        resultfile.write(options.json, contents)
    return 0


# ---------------------------------------------------------------- one call, in a process of its own


def in_fresh_process(engine, name, threads):
    """Run `python -m bench.memory ENGINE NAME THREADS`; None where the library is not installed."""
    words = [sys.executable, "-P", "-m", "bench.memory", engine, name, str(threads)]
    done = subprocess.run(words, env=environment(ROOT, threads), capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{name}: {(done.stderr.strip().splitlines() or ['no answer'])[-1]}")
    return json.loads(done.stdout)


def measure_call(engine, name, threads):
    """Scratch and times of the first calls of a workload in this process; None without the library.

    Scratch is how far the resident memory rises above the operands and one result: the highest water during a call
    after the code is loaded, with an empty pool, less the memory before it and the result's bytes.
    """
    from .workloads import BY_NAME

    try:
        library = load(engine, threads)
    except ImportError:
        return None
    workload = BY_NAME[name]
    call = library.contestants(workload.job(cpuops.CpuBackend()))[0].call
    start = perf_counter_ns()
    result = call()
    first_ns = perf_counter_ns() - start
    times = []
    for _ in range(5):
        start = perf_counter_ns()
        call()
        times.append(perf_counter_ns() - start)
    result_bytes = sum(r.nbytes for r in (result if isinstance(result, tuple) else (result,)) if r is not None)
    del result
    give_back_free_memory()
    before = reset_high_water()
    kept = call()
    scratch = max(0, resident("VmHWM") - before - result_bytes)
    del kept
    return {
        "workload": name, "threads": threads, "scratch_bytes": scratch, "result_bytes": result_bytes, "first_ns": first_ns,
        "steady_ns": statistics.median(times),
    }  # fmt: skip


def give_back_free_memory():
    """Empty the pool and the C library's heap, so that scratch cannot hide in pages that are resident already."""
    cpuops.memory.trim()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def resident(field):
    """A line of /proc/self/status in bytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))


def reset_high_water():
    """Make the high-water mark the memory in use now, and return that."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        raise BenchError("scratch cannot be measured: this system has no /proc/self/clear_refs") from None
    return resident("VmRSS")


# ---------------------------------------------------------------- import and size


def imports():
    """Median nanoseconds of importing NumPy, and cpuops after it, in fresh interpreters that alternate."""
    times = {"numpy": [], "cpuops": []}
    for _ in range(IMPORTS):
        for module, found in times.items():
            words = [sys.executable, "-P", "-c", IMPORT.format(module=module)]
            found.append(int(subprocess.run(words, env=environment(ROOT, 1), capture_output=True, text=True, check=True).stdout))
    return {module: statistics.median(found) for module, found in times.items()}


def installed():
    """Bytes that an installation holds: {"python": ..., "compiled <level>": ...}."""
    package = Path(cpuops.__file__).parent
    sizes = {"python": sum(p.stat().st_size for kind in ("*.py", "*.pyi", "py.typed") for p in package.rglob(kind))}
    for path in package.rglob("*.so"):
        level = path.parent.name if path.parent.parent.name == "_kernels" else "common"
        key = f"compiled {level}"
        sizes[key] = sizes.get(key, 0) + path.stat().st_size
    return sizes


# ---------------------------------------------------------------- tables


def tables(contents):
    calls = [
        (
            c["workload"], c["threads"], megabytes(c["scratch_bytes"]), megabytes(c["scratch_bytes"] / c["threads"]),
            megabytes(c["result_bytes"]), report.duration(c["first_ns"]), report.duration(c["steady_ns"]),
        )
        for c in contents["calls"]
    ]  # fmt: skip
    steps = [
        (ours["workload"], ours["threads"], megabytes(peak(ours)), megabytes(peak(theirs)) if theirs else "not installed")
        for ours, theirs in map(operator.itemgetter("cpuops", "torch"), contents["steps"])
    ]
    base, ours = contents["imports"]["numpy"], contents["imports"]["cpuops"]
    times = f"import numpy {report.duration(base)}; import cpuops {report.duration(ours)}"
    sizes = [(kind, megabytes(size)) for kind, size in contents["installed_bytes"].items()]
    sizes.append(("all", megabytes(sum(contents["installed_bytes"].values()))))
    large = [f"{c['workload']}, {c['threads']} threads" for c in contents["calls"] if c["scratch_bytes"] > SCRATCH * c["threads"]]
    return "\n\n".join(
        [
            report.table(("workload", "threads", "scratch MB", "a thread", "result MB", "first call", "then"), calls),
            f"above {SCRATCH // MEGABYTE} MB a thread: {'; '.join(large) or 'none'}",
            *([report.table(("training step", "threads", "highest MB", "torch's"), steps)] if steps else []),
            f"{times}: {report.duration(ours - base)} over NumPy",
            report.table(("installed", "MB"), sizes),
        ]
    )


def peak(call):
    """The highest water above the operands: activations, gradients and scratch of a step."""
    return call["scratch_bytes"] + call["result_bytes"]


def megabytes(nbytes):
    return f"{nbytes / MEGABYTE:.2f}"


if __name__ == "__main__":
    print(json.dumps(measure_call(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
