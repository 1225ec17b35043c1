"""The named workloads: those that are always measured, and more for whoever asks."""

import re

from .. import operations  # noqa: F401  (makes the table importable)
from ..errors import BenchError
from . import (
    attention,
    conv,
    conv_transpose,
    ctc,
    deform,
    elementwise,
    expressions,
    grid_sample,
    interpolate,
    matmul,
    norm,
    pad,
    pool,
    reduce,
    sized,
    small,
    step,
    training,
    unfold,
)  # fmt: skip
from .base import Cost, Job, Workload

__all__ = ["BY_NAME", "FAMILIES", "MORE", "SERIES", "WORKLOADS", "Cost", "Job", "Workload", "chosen", "unmeasured"]

MODULES = (
    elementwise, reduce, matmul, conv, conv_transpose, deform, unfold,
    pool, interpolate, pad, grid_sample, norm, attention, ctc,
    small, step, training,
)  # fmt: skip
WORKLOADS: dict[str, Workload] = {w.name: w for module in MODULES for w in module.WORKLOADS}
# --more
MORE: dict[str, Workload] = {w.name: w for more in (matmul.MORE, conv.MORE, expressions.WORKLOADS) for w in more}
SERIES = sized.SERIES
# everything that a worker can be asked for
BY_NAME = WORKLOADS | MORE | {w.name: w for series in SERIES.values() for w in series}
FAMILIES = tuple(dict.fromkeys(w.family for w in WORKLOADS.values()))


def chosen(only, backend_class, more=False):
    """The workloads whose name or family matches a regular expression (all for None) and that the backend can do."""
    try:
        pattern = re.compile(only or "")
    except re.error as error:
        raise BenchError(f"--only {only!r} is no regular expression: {error}") from None
    among = WORKLOADS | MORE if more else WORKLOADS
    matching = [w for w in among.values() if pattern.search(w.name) or pattern.search(w.family)]
    if not matching:
        raise BenchError(f"--only {only!r} matches no workload; `python -m bench list` prints their names")
    able = [w for w in matching if all(hasattr(backend_class, m) for m in w.needs)]
    if not able:
        lacking = sorted({m for w in matching for m in w.needs if not hasattr(backend_class, m)})
        raise BenchError(f"--only {only!r}: this build of cpuops has no {', '.join(lacking)}")
    return able


def unmeasured(backend_class):
    """What is not measured: {family: why}."""
    absent = {}
    for family in FAMILIES:
        lacking = [w for w in WORKLOADS.values() if w.family == family and not all(hasattr(backend_class, m) for m in w.needs)]
        if lacking:
            absent[family] = f"{len(lacking)} workloads need operations that this build lacks"
    return absent
