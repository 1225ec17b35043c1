"""What the compiled small calls write down for themselves is what the readable methods work out."""

import numpy as np
import pytest

import cpuops
from cpuops._kernels import KERNELS
from cpuops.ops.reduce import plan

KEY = ("reduce.reduce", "f")


@pytest.mark.parametrize(
    ("shape", "axis"), [((7,), None), ((7,), 0), ((7,), -1), ((5, 7), -1), ((5, 7), None), ((1, 7), 1), ((2, 1, 7), 2), ((2, 3, 4), 2)]
)
def test_a_reduction_is_cut_by_the_plan(monkeypatch, shape, axis):
    backend, x, seen = cpuops.CpuBackend(), np.ones(shape, np.float32), []
    backend.reduce_sum(x, axis=axis)  # the kernel is loaded
    monkeypatch.setitem(KERNELS, KEY, lambda *arguments: seen.append(arguments))
    backend.reduce_sum(x, axis=axis)
    axes = tuple(range(x.ndim)) if axis is None else (axis % x.ndim,)
    ((*_, cut, threads),) = seen
    assert (cut, threads) == (plan(shape, axes), 1)
