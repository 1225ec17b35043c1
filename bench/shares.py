"""The share of work that each of many threads would get, from how the kernels cut it; no machine with so many is needed.

A kernel returns the number of equal tasks that it cut a call into, and its threads take them one after the other until
none is left. So of n tasks some thread gets ceil(n / T), and the mean is n / T.
"""

import math

import cpuops

from . import report
from .workloads.large import LARGE

__all__ = ["largest_to_mean", "table"]

THREADS = (1, 2, 4, 8, 16, 32, 64, 128)
TARGET_THREADS, TARGET = 64, 1.05
# convolutions tell the tasks of their parts only when they are asked: kernel -> the gradient, as conv_explain calls it
CONVOLUTIONS = {"conv.conv_forward": "", "conv.conv_activation": "", "conv.conv_x_backward": "x", "conv.conv_weight_backward": "weight"}


class Cutting(cpuops.ThreadedCpuBackend):
    """Notes the tasks and the estimated cost of each kernel call."""

    def __init__(self, num_threads):
        super().__init__(num_threads)
        self.calls = []

    def _threads(self, cost_ns):
        return self.num_threads  # however busy this machine is

    def _run(self, name, dtype, cost_ns, *args):
        tasks = super()._run(name, dtype, cost_ns, *args)
        if name in CONVOLUTIONS:
            parts = self._kernel("conv.conv_explain", dtype)(0.0, args[-1], CONVOLUTIONS[name], self.num_threads)
            tasks = max(part[-1] for part in parts)
        self.calls.append((name, cost_ns, tasks))


def largest_to_mean(tasks, threads):
    """How much more work than the mean the busiest of so many threads does."""
    return math.ceil(tasks / threads) * threads / tasks if tasks else 1.0


def of_workload(workload, job, threads):
    """Largest-to-mean share over all kernel calls of a workload, by their estimated cost, and the kernels that do not tell."""
    backend = Cutting(threads)
    workload.call(job, backend)()
    cost = sum(ns for _, ns, _ in backend.calls)
    silent = [name for name, _, tasks in backend.calls if tasks is None]
    return sum(ns * largest_to_mean(tasks or 1, threads) for _, ns, tasks in backend.calls) / cost, silent


def table(pattern):
    """The largest-to-mean share of the large workloads for 1 to 128 threads, and which are above the target at 64."""
    rows, above, silent = [], [], set()
    for workload in LARGE:
        chosen = pattern.search(workload.name) or pattern.search(workload.family)
        if not chosen or not all(hasattr(cpuops.CpuBackend, m) for m in workload.needs):
            continue
        job = workload.job(cpuops.CpuBackend())
        shares = []
        for threads in THREADS:
            share, mute = of_workload(workload, job, threads)
            shares.append(share)
            silent.update(mute)
        rows.append((workload.name, *(f"{s:.2f}" for s in shares)))
        if shares[THREADS.index(TARGET_THREADS)] > TARGET:
            above.append(workload.name)
    if not rows:
        return "largest share of work over the mean: none of the large workloads is among these"
    text = "largest share of work over the mean\n" + report.table(("workload", *(f"{t}" for t in THREADS)), rows)
    text += f"\nabove {TARGET} at {TARGET_THREADS} threads: {', '.join(above) or 'none'}"
    if silent:
        text += f"\nkernels that do not tell their tasks: {', '.join(sorted(silent))}"
    return text
