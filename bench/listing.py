"""`list`: the names of the workloads."""

import cpuops

from .workloads import MORE, WORKLOADS, unmeasured

__all__ = ["workloads"]


def workloads(options):
    for workload in (WORKLOADS | MORE).values():
        lacking = [m for m in workload.needs if not hasattr(cpuops.CpuBackend, m)]
        remark = f"   (no {', '.join(lacking)} in this build)" if lacking else ""
        print(f"{workload.family:12} {workload.name}" + ("   --more" if workload.name in MORE else "") + remark)
    for family, why in unmeasured(cpuops.CpuBackend).items():
        print(f"{family:12} {why}")
    return 0
