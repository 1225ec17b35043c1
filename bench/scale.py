"""`scale`: time against size, speed against threads, and the share of work that each of many threads would get."""

import os
import re

import cpuops

from . import report, resultfile, schedule, shares, statistics
from .errors import BenchError
from .limits import bound
from .progress import Bar
from .workloads import SERIES, WORKLOADS, Cost

__all__ = ["scale"]

# large workloads whose speed-up is held against the control's
THREADED = (
    "add/1e7-out", "gelu/1e7-out", "reduce_sum/all-1e7", "softmax/vocabulary-64x32000", "matmul/1024",
    "linear/transformer-512x768x3072", "conv2d/resnet50-3x3-64@56",
    "conv2d_x_backward/resnet50-3x3-64@56", "conv2d_weight_backward/resnet50-3x3-64@56",
    "conv2d/mobilenet-3x3-144@56", "max_pool2d/resnet-stem-3x3s2", "batch_norm_train/resnet-8x64x56x56",
    "layer_norm/transformer-512x768", "cross_entropy/classes-512x1000",
)  # fmt: skip


def scale(options):
    """Print three tables: sizes, threads, shares."""
    pattern = compiled(options.only)
    if options.shares:
        print(shares.table(pattern))
        return 0
    threads = options.threads or tuple(range(1, (os.cpu_count() or 1) + 1))
    sized = [w for family, series in SERIES.items() if pattern.search(family) for w in able(series)]
    names = THREADED if len(threads) > 1 else ()  # one count is compared with nothing
    threaded = able([w for name in names if (w := WORKLOADS[name]) and pattern.search(w.family)])
    if not sized and not threaded:
        raise BenchError(f"--only {options.only!r} matches no family that this build can do; there are {', '.join(SERIES)}")
    entries = [schedule.Entry("cpuops")]
    one, many = schedule.Settings((1,), 1, 5), schedule.Settings(threads, 2, 8)
    with Bar(schedule.steps(sized, one) + schedule.steps(threaded, many), "scale") as bar:
        sizes = schedule.measure(sized, entries, one, bar.step)
        speeds = schedule.measure(threaded, entries, many, bar.step)
    print(sizes_table(sizes), speeds_table(speeds, threads), shares.table(pattern), sep="\n\n")
    if options.json:
        command = " ".join(options.words)
        contents = {
            "schema": "cpuops-bench-scale/1",
            "sizes": resultfile.document(command, sizes, one, {}),
            "threads": resultfile.document(command, speeds, many, {}),
        }
        resultfile.write(options.json, contents)
    return 0


def compiled(only):
    try:
        return re.compile(only or "")
    except re.error as error:
        raise BenchError(f"--only {only!r} is no regular expression: {error}") from None


def able(workloads):
    return [w for w in workloads if all(hasattr(cpuops.CpuBackend, m) for m in w.needs)]


def sizes_table(found):
    """Time at each size, the exponent of time against work, and that over the larger half, where overhead no longer counts."""
    by_family = {}
    for series in found.series.values():
        by_family.setdefault(series.workload.family, []).append(series)
    rows = []
    for family, all_series in by_family.items():
        work = [amount(found.costs[s.workload.name]) for s in all_series]
        times = [statistics.median(s.rounds_ns) for s in all_series]
        half = len(times) // 2
        whole, _ = statistics.fit_exponent(work, times)
        exponent, off = statistics.fit_exponent(work[half:], times[half:])
        method, (first, *_, last) = all_series[0].workload.method, (s.workload.label.removeprefix("sized-") for s in all_series)
        rows.append((family, method, f"{first} to {last}", *map(report.duration, times), f"{whole:.2f}", f"{exponent:.2f}", f"{off:.2f}"))
    heads = ("family", "method", "sizes", *(f"size {i + 1}" for i in range(6)), "exponent", "of the larger half", "off the fit by")
    return "time against size\n" + report.table(heads, rows)


def amount(cost):
    """The work of a call: arithmetic, or bytes where there is none."""
    return cost["flops"] or cost["bytes_read"] + cost["bytes_written"]


def speeds_table(found, threads):
    """Speed-up over one thread, against that of the control, which is perfectly parallel, and that of the limits: the
    bandwidth of memory does not double with the threads."""
    first = threads[0]
    base = {s.workload.name: s for s in found.series.values() if s.threads == first}
    rows = []
    for s in found.series.values():
        if s.threads == first:
            continue
        start = base[s.workload.name]
        speed_up = statistics.median(start.rounds_ns) / statistics.median(s.rounds_ns)
        controls = found.core_control[first] / found.core_control[s.threads] * s.threads / first
        cost = Cost(**found.costs[s.workload.name])
        allowed = [bound(cost, s.workload.dtype, found.limits[t]).ns for t in (first, s.threads)]
        shown = (f"{speed_up:.2f}", f"{controls:.2f}", f"{100 * speed_up / controls:.0f} %", f"{allowed[0] / allowed[1]:.2f}")
        rows.append((s.workload.name, s.threads, *shown))
    if not rows:
        return "speed against threads: nothing to compare"
    heads = ("workload", "threads", f"speed-up over {first}", "control", "of control", "limits allow")
    return "speed against threads\n" + report.table(heads, rows)
