"""Minimal filtering of the weight gradient, held to what tests/test_winograd.py holds the forward pass to."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from process import run
from support import DTYPES, Eager, Mine
from test_winograd import F2, F4, LAYOUTS, ODD_SHAPES, operands, rms

from cpuops import CpuBackend, explain

CPU = CpuBackend()

# the least number of tiles, one block of them and several, sums in one pass and in more
SHAPES = [
    *ODD_SHAPES,
    (5, 32, 40, 2, 2, 1),
    (9, 35, 33, 2, 3, ((1, 1), (0, 1))),
    (1, 65, 64, 35, 33, 1),
    (1, 133, 127, 47, 45, 1),
    (2, 300, 200, 30, 29, 1),
]


def gradient(backend, x, weight, g, options):
    return backend.conv2d_weight_backward(x, weight, g, **options)


def given(dtype, *shape_and_layout):
    x, weight, _, g, options = operands(dtype, *shape_and_layout)
    return x, weight, g, options


def definition(x, weight, g, options, dtype=np.float64):
    """Tap by tap over the cells that there are: padding is absent."""
    last = options["layout"] == "NHWC"
    x, g = (a.astype(dtype).transpose(0, 3, 1, 2) if last else a.astype(dtype) for a in (x, g))
    padding = options["padding"]
    (top, _), (left, _) = ((padding, padding),) * 2 if isinstance(padding, int) else padding
    out = np.empty((g.shape[1], x.shape[1], 3, 3), dtype)
    for i, j in itertools.product(range(3), repeat=2):
        (y0, y1), (x0, x1) = (
            (max(0, before - tap), min(positions, cells + before - tap))
            for tap, before, positions, cells in ((i, top, g.shape[2], x.shape[2]), (j, left, g.shape[3], x.shape[3]))
        )
        over, under = (..., slice(y0, y1), slice(x0, x1)), (..., slice(y0 + i - top, y1 + i - top), slice(x0 + j - left, x1 + j - left))
        grads, cells = (np.moveaxis(a, 1, 0).reshape(a.shape[1], -1) for a in (g[over], x[under]))
        out[:, :, i, j] = grads @ cells.T
    return out.transpose(2, 3, 1, 0) if last else out


DIRECT = """
import sys
sys.path.insert(0, {tests!r})
from test_winograd_weight import CPU, DTYPES, LAYOUTS, SHAPES, given, gradient
np.savez({to!r}, *(gradient(CPU, *given(d, *s, l)) for d in DTYPES for l in LAYOUTS for s in SHAPES))
"""


@pytest.fixture(scope="module")
def direct(tmp_path_factory):
    """(dtype, layout, shape) -> the gradient by the path that CPUOPS_WINOGRAD=0 takes."""
    to = str(tmp_path_factory.mktemp("direct") / "gradients.npz")
    run(DIRECT.format(tests=str(Path(__file__).parent), to=to), CPUOPS_WINOGRAD="0")
    with np.load(to) as saved:
        return dict(zip(itertools.product(DTYPES, LAYOUTS, SHAPES), (saved[f"arr_{i}"] for i in range(len(saved.files))), strict=True))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_error_is_at_most_eight_times_the_direct_paths(direct, dtype, layout, shape):
    x, weight, g, options = given(dtype, *shape, layout)
    told = explain("conv2d_weight_backward", x.shape, weight.shape, dtype=dtype, **options)
    assert told["path"] == (F2 if shape[3] == 2 else F4)
    if dtype == "float32":
        want = definition(x, weight, g, options)
    else:  # of some of the results: these products are slow
        some = (slice(0, 40),) * 2
        pick = (..., *some) if layout == "NHWC" else some
        narrow = [a[..., :40] if layout == "NHWC" else a[:, :40] for a in (x, g)]
        want = definition(narrow[0], None, narrow[1], options, np.longdouble)
    got, other = gradient(CPU, x, weight, g, options), direct[dtype, layout, shape]
    if dtype == "float64":
        got, other = got[pick], other[pick]
    assert not np.array_equal(got, other)  # two paths, indeed
    error, allowed = np.abs(got - want), np.abs(other - want)
    assert rms(error) <= 8 * rms(allowed)
    assert error.max() <= 8 * allowed.max()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_tail_of_channels_and_outputs(dtype, layout):
    for channels, outputs in [(16 + i, 64 - i) for i in range(49)]:
        operands_ = given(dtype, 1, channels, outputs, 5, 9, 1, layout)
        want = definition(*operands_)
        error = np.abs(gradient(CPU, *operands_) - want).max()
        assert error <= 64 * np.finfo(dtype).eps * np.abs(want).max(), (channels, outputs)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_do_not_depend_on_threads(shape, layout):
    operands_ = given("float32", *shape, layout)
    want = gradient(CPU, *operands_)
    for threads in (2, 3, 7):
        assert np.array_equal(gradient(Eager(threads), *operands_), want)


def test_a_last_pass_may_hold_fewer_channels_than_there_are_tasks():
    operands_ = given("float32", 1, 513, 512, 48, 48, 1)
    assert np.array_equal(gradient(Eager(7), *operands_), gradient(CPU, *operands_))


@pytest.mark.parametrize("tiles", [100, 200])
def test_bits_do_not_depend_on_what_is_held(tiles):
    """All channels and outputs, and some of them: passes are cut otherwise, and the sums are the same."""
    x, weight, g, options = given("float32", tiles // 25, 300, 260, 20, 20, 1)
    whole = gradient(CPU, x, weight, g, options)
    for c, m in ((slice(0, 130), slice(130, 260)), (slice(37, 297), slice(3, 53))):
        assert np.array_equal(whole[m, c], gradient(CPU, x[:, c], weight[m, c], g[:, m], options))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_not_finite_goes_the_direct_way(dtype, layout):
    *arrays, options = given(dtype, 2, 33, 34, 9, 10, 1, layout)
    for which, value, at in itertools.product((0, 2), (np.nan, np.inf, -np.inf), (0, 0.5, 1)):
        changed = [a.copy() for a in arrays]
        changed[which].flat[int(at * (changed[which].size - 1))] = value
        with np.errstate(all="ignore"):
            got, want = gradient(CPU, *changed, options), definition(*changed, options)
        assert not np.isfinite(want).all()
        assert np.array_equal(np.isnan(got), np.isnan(want)) and np.array_equal(np.isinf(got), np.isinf(want))


def test_an_overflow_on_the_way_goes_the_direct_way():
    x, weight, g, options = given("float32", 1, 32, 32, 8, 8, 1)
    x = np.sign(x) * np.float32(3e38)
    g = g * np.float32(1e-3)
    got, want = gradient(CPU, x, weight, g, options), definition(x, weight, g, options)
    assert np.isfinite(got).all() and np.allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


CODE = """
shape, path = (2, 40, 37, 10, 11), {path!r}
rng = np.random.default_rng(5)
b, c, m, h, w = shape
assert cpuops.explain("conv2d_weight_backward", (b, c, h, w), (m, c, 3, 3), padding=1)["path"] == path
x, weight, g = (rng.standard_normal(s).astype("f4") for s in ((b, c, h, w), (m, c, 3, 3), (b, m, h, w)))
print(bits(CpuBackend().conv2d_weight_backward(x, weight, g, padding=1)))
x[1, 3, 4, 5] = np.inf
print(bits(CpuBackend().conv2d_weight_backward(x, weight, g, padding=1)))
"""


def test_switched_off_it_is_the_direct_path():
    off = run(CODE.format(path="outer"), CPUOPS_WINOGRAD="0")[0].split()
    on = run(CODE.format(path=F4))[0].split()
    assert off[0] != on[0] and off[1] == on[1]


def test_explain_tells_where_it_serves():
    name = "conv2d_weight_backward"
    for layout in LAYOUTS:
        assert explain(name, *(((2, 64, 20, 20), (64, 64, 3, 3)) if layout == "NCHW" else ((2, 20, 20, 64), (3, 3, 64, 64))),
                       padding=1, layout=layout)["path"] == F4  # fmt: skip
    assert explain("conv_transpose2d_weight_backward", (2, 64, 20, 20), (64, 64, 3, 3), padding=1)["path"] == F4
    for change in ({"stride": 2}, {"dilation": 2}):
        assert "winograd" not in explain(name, (2, 64, 20, 20), (64, 64, 3, 3), padding=1, **change)["path"]
    assert "winograd" not in explain(name, (2, 64, 20, 20), (64, 32, 3, 3), groups=2)["path"]
    assert "winograd" not in explain(name, (2, 15, 20, 20), (64, 15, 3, 3))["path"]
    assert "winograd" not in explain(name, (1, 64, 6, 6), (64, 64, 3, 3))["path"]  # one tile


def test_scratch_is_bounded_whatever_the_size():
    for channels, outputs, side in itertools.product((16, 129, 512, 3000), (16, 65, 2048, 100000), (7, 30, 224)):
        for dtype, threads in itertools.product(DTYPES, (1, 2, 64)):
            told = explain("conv2d_weight_backward", (16, channels, side, side), (outputs, channels, 3, 3), padding=1, dtype=dtype,
                           num_threads=threads)  # fmt: skip
            bound = max(8 << 20, threads * (4 << 20))
            assert not told["path"].startswith("winograd") or 0 < told["scratch"] <= bound, (channels, outputs, side, told)


def test_transposed_convolutions_have_it_too(dtype):
    x, weight, g, options = given(dtype, 1, 34, 45, 9, 13, 1)
    padding = options["padding"]
    assert explain("conv_transpose2d_weight_backward", g.shape, weight.shape, padding=padding, dtype=dtype)["path"] == F4
    got, want = (b.conv_transpose2d_weight_backward(g, weight, x, padding=padding) for b in (CPU, Mine()))
    assert np.abs(got - want).max() <= 64 * np.finfo(dtype).eps * np.abs(want).max()
