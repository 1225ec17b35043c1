"""Every ISA level of this build, each in a fresh process: the same values, and within a level the same bits."""

import os
import platform

import numpy as np
import pytest
from process import run

from cpuops import _kernels, show_config

LEVELS = show_config("dicts")["isa_available"]

# (call, largest relative difference between levels: f4, f8); the levels differ in vector width and so in the order of sums
CALLS = """
def calls(b, dtype):
    g = np.random.default_rng(3)
    a, c = (g.standard_normal(s).astype(dtype) for s in ((37, 515), (515, 33)))
    x = (8 * g.standard_normal((65, 1031))).astype(dtype)
    tail = x[0, :29].copy()
    yield "relu", b.relu(x)
    yield "add", b.add(x, x[:, ::-1])
    yield "exp", b.exp(x)
    yield "tanh", b.tanh(x)
    yield "exp_tail", b.exp(tail)
    yield "softmax", b.softmax(x)
    yield "matmul", b.matmul(a, c)
    yield "reduce_sum_rows", b.reduce_sum(np.abs(x), axis=1)
    yield "reduce_sum_columns", b.reduce_sum(np.abs(x), axis=0)
    yield "reduce_max", b.reduce_max(x, axis=0)
    yield "relu_backward", b.relu_backward(x, x)
    yield "softmax_backward", b.softmax_backward(x, b.softmax(x), axis=-1)
    yield "matmul_backward", b.matmul_backward(b.matmul(a, c), a, c)[1]
"""
TOLERANCE = {"f4": 4e-6, "f8": 1e-13}  # relative to the largest value: sums of a thousand terms, some of which cancel


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """{level: {name: array}} from a fresh process a level, which compares serial and threaded bits by itself."""
    found = {}
    for level in LEVELS:
        path = tmp_path_factory.mktemp(level) / "results.npz"
        run(
            CALLS
            + f"""
assert cpuops.show_config("dicts")["isa"] == {level!r}
results = {{}}
for dtype in ("f4", "f8"):
    want = dict(calls(CpuBackend(), dtype))
    for b in (CpuBackend(), ThreadedCpuBackend(1), ThreadedCpuBackend(2), ThreadedCpuBackend(3)):
        for name, value in calls(b, dtype):
            assert value.dtype == np.dtype(dtype) and bits(value) == bits(want[name]), (b, name, dtype)
    results |= {{f"{{name}} {{dtype}}": value for name, value in want.items()}}
np.savez({str(path)!r}, **results)
""",
            CPUOPS_ISA=level,
        )
        with np.load(path) as file:
            found[level] = dict(file)
    return found


@pytest.mark.parametrize("level", LEVELS)
def test_levels_agree(results, level):
    assert results[level].keys() == results[LEVELS[0]].keys()
    for name, value in results[level].items():
        other = results[LEVELS[0]][name]
        assert np.isfinite(value).all(), name
        assert np.abs(value - other).max() <= TOLERANCE[name.split()[1]] * np.abs(other).max(), name


@pytest.mark.parametrize("level", LEVELS)
def test_exact_operations_have_the_same_bits_at_every_level(results, level):
    exact = [n for n in results[level] if n.split()[0] in ("relu", "add", "reduce_max", "relu_backward")]
    assert len(exact) == 8
    for name in exact:
        assert results[level][name].tobytes() == results[LEVELS[0]][name].tobytes(), name


def test_the_widest_level_is_the_default():
    assert run("print(cpuops.show_config('dicts')['isa'])")[0] == LEVELS[-1]
    assert run("print(cpuops.show_config('dicts')['isa'])", CPUOPS_ISA="")[0] == LEVELS[-1]


@pytest.mark.parametrize("level", ["v1", "v9", "avx2", "V4 ", "native", "../v4", "v2,v3"])
def test_no_such_level(level):
    _, errors = run("import cpuops", prelude=False, expect=1, CPUOPS_ISA=level)
    assert "ImportError" in errors
    assert f"CPUOPS_ISA={level.strip()}" in errors


def test_levels_that_the_cpu_or_the_build_lacks():
    choose = _kernels._choose
    assert choose("", ["v2", "v3", "v4"], ["v2", "v3"]) == "v3"
    assert choose("v2", ["v2", "v3"], ["v2", "v3", "v4"]) == "v2"
    with pytest.raises(ImportError, match=r"CPUOPS_ISA=v4.*CPU"):
        choose("v4", ["v2", "v3", "v4"], ["v2", "v3"])
    with pytest.raises(ImportError, match=r"CPUOPS_ISA=v4.*build"):
        choose("v4", ["v2", "v3"], ["v2", "v3", "v4"])
    with pytest.raises(ImportError, match="v3"):
        choose("", ["v3"], ["v2"])


@pytest.mark.skipif(not os.path.exists("/proc/cpuinfo"), reason="the second opinion on the CPU's features is /proc/cpuinfo")
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="levels v2 to v4 are x86-64's")
def test_the_cpu_is_judged_as_the_system_judges_it():
    with open("/proc/cpuinfo") as f:
        flags = set(next(line for line in f if line.startswith("flags")).split(":")[1].split())
    assert ("v3" in _kernels._runnable) == ({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "abm"} <= flags)
    assert ("v4" in _kernels._runnable) == ({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= flags)
