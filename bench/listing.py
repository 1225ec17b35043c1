"""`list`: the names of the workloads."""

import cpuops

from .workloads import WORKLOADS, unmeasured

__all__ = ["workloads"]


def workloads(options):
    for workload in WORKLOADS.values():
        lacking = [m for m in workload.needs if not hasattr(cpuops.CpuBackend, m)]
        print(f"{workload.family:12} {workload.name}" + (f"   (no {', '.join(lacking)} in this build)" if lacking else ""))
    for family, why in unmeasured(cpuops.CpuBackend).items():
        print(f"{family:12} {why}")
    return 0
