"""cpuops itself as a contestant."""

import cpuops

from .engine import Contestant, Engine

__all__ = ["CpuopsEngine"]


class CpuopsEngine(Engine):
    """`CpuBackend` on one thread, `ThreadedCpuBackend` on more."""

    name = "cpuops"
    exact = True

    def __init__(self, threads):
        self.backend = cpuops.CpuBackend() if threads == 1 else cpuops.ThreadedCpuBackend(num_threads=threads)

    def version(self):
        return f"{cpuops.__version__} {cpuops.show_config('dicts')['isa']}"

    def contestants(self, job):
        if not all(hasattr(self.backend, m) for m in job.workload.needs):
            return []
        return [Contestant("", job.workload.call(job, self.backend))]
