"""Minimal filtering of 3x3 convolutions: as exact as stated, the same bits everywhere, and out of the way where it does not fit.

The direct path's bits come from the call itself: an infinity in another image of the batch sends the whole call there.
"""

import itertools

import numpy as np
import pytest
from process import run
from support import DTYPES, Eager, seeded

import cpuops
from cpuops import ArgumentError, CpuBackend, DTypeError, ShapeError, explain

CPU = CpuBackend()
F2, F4 = "winograd F(2x2, 3x3)", "winograd F(4x4, 3x3)"
LAYOUTS = ("NCHW", "NHWC")

# batch, channels, outputs, height, width, padding: odd sizes, tails of channels and outputs, tiles that overhang
ODD_SHAPES = [
    (2, 32, 32, 9, 11, 1),
    (1, 33, 47, 6, 7, ((0, 2), (1, 0))),
    (3, 16, 19, 10, 13, 1),
    (2, 27, 16, 8, 9, ((1, 0), (2, 2))),
    (1, 64, 65, 14, 29, 1),
    (1, 48, 32, 31, 5, 0),
    (1, 41, 90, 4, 70, ((3, 0), (0, 5))),
    (2, 160, 230, 7, 7, 1),
]
# one tile, and the other side of the bounds on what is held
SHAPES = [*ODD_SHAPES, (2, 32, 40, 2, 2, 1), (1, 35, 33, 2, 3, ((1, 1), (0, 1))), (1, 430, 70, 12, 13, 1)]


def operands(dtype, batch, channels, outputs, height, width, padding, layout="NCHW"):
    """x, weight, bias, a gradient of the output, and the options."""
    rng = seeded("winograd", channels, outputs, height, width)
    (top, bottom), (left, right) = ((padding, padding),) * 2 if isinstance(padding, int) else padding
    shapes = (
        (batch, channels, height, width), (outputs, channels, 3, 3), (outputs,),
        (batch, outputs, height + top + bottom - 2, width + left + right - 2),
    )  # fmt: skip
    x, weight, bias, g = (rng.standard_normal(s).astype(dtype) for s in shapes)
    if layout == "NHWC":
        x, g, weight = x.transpose(0, 2, 3, 1).copy(), g.transpose(0, 2, 3, 1).copy(), weight.transpose(2, 3, 1, 0).copy()
    return x, weight, bias, g, {"padding": padding, "layout": layout}


def both(backend, x, weight, bias, g, options):
    return backend.conv2d(x, weight, bias, **options), backend.conv2d_x_backward(x, weight, g, **options)


def direct(x, weight, bias, g, options):
    """Both results by the path that a call takes whose operands hold an infinity: in one more image, whose part is dropped."""
    x, g = (np.concatenate([a, np.full_like(a[:1], np.inf)]) for a in (x, g))
    with np.errstate(all="ignore"):
        return tuple(r[:-1] for r in both(CPU, x, weight, bias, g, options))


def exact(x, weight, bias, g, options):
    """Both results by the definition, tap by tap, in double precision."""
    x, weight, bias, g = (a.astype(np.float64) for a in (x, weight, bias, g))
    last = options["layout"] == "NHWC"
    if last:
        x, g, weight = x.transpose(0, 3, 1, 2), g.transpose(0, 3, 1, 2), weight.transpose(3, 2, 0, 1)
    padding = options["padding"]
    pads = ((0, 0), (0, 0), *(((padding, padding),) * 2 if isinstance(padding, int) else padding))
    cells = np.pad(x, pads)
    grad, out = np.zeros_like(cells), np.zeros_like(g) + bias[:, None, None]
    for i, j in itertools.product(range(3), repeat=2):
        under = (..., slice(i, i + g.shape[2]), slice(j, j + g.shape[3]))
        out += np.einsum("bchw,mc->bmhw", cells[under], weight[:, :, i, j], optimize=True)
        grad[under] += np.einsum("bmhw,mc->bchw", g, weight[:, :, i, j], optimize=True)
    grad = grad[tuple(slice(before, before + length) for (before, _), length in zip(pads, x.shape, strict=True))]
    return tuple(a.transpose(0, 2, 3, 1) if last else a for a in (out, grad))


def rms(a):
    return np.sqrt(np.mean(np.square(a, dtype=np.float64)))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_error_is_at_most_eight_times_the_direct_paths(dtype, layout, shape):
    given = operands(dtype, *shape, layout)
    x, weight, _, _, options = given
    assert explain("conv2d", x.shape, weight.shape, dtype=dtype, **options)["path"] in (F2, F4)
    assert explain("conv2d_x_backward", x.shape, weight.shape, dtype=dtype, **options)["path"] in (F2, F4)
    for got, other, want in zip(both(CPU, *given), direct(*given), exact(*given), strict=True):
        assert not np.array_equal(got, other)  # two paths, indeed
        error, allowed = np.abs(got - want), np.abs(other - want)
        assert rms(error) <= 8 * rms(allowed)
        assert error.max() <= 8 * allowed.max()


def test_every_tail_of_channels_and_outputs(dtype):
    for channels, outputs in [(16 + i, 64 - i) for i in range(49)]:
        given = operands(dtype, 1, channels, outputs, 5, 9, 1)
        for got, want in zip(both(CPU, *given), exact(*given), strict=True):
            assert np.abs(got - want).max() <= 64 * np.finfo(dtype).eps * np.abs(want).max(), (channels, outputs)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits_do_not_depend_on_threads(shape, layout):
    given = operands("float32", *shape, layout)
    want = both(CPU, *given)
    for threads in (2, 3, 7):
        for got, expected in zip(both(Eager(threads), *given), want, strict=True):
            assert np.array_equal(got, expected)


def test_bits_do_not_depend_on_what_is_held():
    """One image and many, few outputs and more: tiles and weights are shared otherwise, and the sums are the same."""
    x, weight, bias, _, options = operands("float32", 12, 64, 400, 12, 12, 1)
    whole = CPU.conv2d(x, weight, bias, **options)
    assert np.array_equal(whole[3:4], CPU.conv2d(x[3:4], weight, bias, **options))
    assert np.array_equal(whole[:, :64], CPU.conv2d(x, weight[:64], bias[:64], **options))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_not_finite_goes_the_direct_way(dtype, layout):
    *given, options = operands(dtype, 2, 33, 34, 9, 10, 1, layout)
    for which, value in itertools.product(range(4), (np.nan, np.inf, -np.inf)):
        changed = [a.copy() for a in given]
        changed[which].flat[changed[which].size // 2 + 1] = value
        with np.errstate(all="ignore"):
            got, want = both(CPU, *changed, options), direct(*changed, options)
            definition = exact(*changed, options)
        for g, w, d in zip(got, want, definition, strict=True):
            if which != 2:  # a bias is added at the end, whatever the path
                affected = not np.isfinite(w).all()
                assert np.array_equal(g, w, equal_nan=True) == affected
            assert np.array_equal(np.isnan(g), np.isnan(w)) and np.array_equal(np.isinf(g), np.isinf(w))
            if which in (0, 3):  # no weight meets padding here, so the definition has the same kinds of values
                assert np.array_equal(np.isfinite(g), np.isfinite(d))


def test_an_overflow_on_the_way_goes_the_direct_way():
    x, weight, bias, g, options = operands("float32", 1, 32, 32, 8, 8, 1)
    x = x * np.float32(1e37)
    got = CPU.conv2d(x, weight * np.float32(0.1), bias, **options)
    assert np.isfinite(got).all()
    weight = np.sign(weight) * np.float32(3e37)
    weight[:, :, 1:] = 0
    got = CPU.conv2d(x * np.float32(1e-38), weight, bias, **options)
    want, _ = exact(x * np.float32(1e-38), weight, bias, g, options)
    assert np.isfinite(got).all() and np.allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


CODE = """
shape, path = (2, 40, 37, 10, 11), {path!r}
g = np.random.default_rng(5)
b, c, m, h, w = shape
assert cpuops.explain("conv2d", (b, c, h, w), (m, c, 3, 3), padding=1)["path"] == path
x, weight = (g.standard_normal(s).astype("f4") for s in ((b, c, h, w), (m, c, 3, 3)))
print(bits(CpuBackend().conv2d(x, weight, padding=1)[0]))
x[1] = np.inf
print(bits(CpuBackend().conv2d(x, weight, padding=1)[0]))
"""


def test_switched_off_it_is_the_direct_path():
    off = run(CODE.format(path="direct"), CPUOPS_WINOGRAD="0")[0].split()
    on = run(CODE.format(path=F4))[0].split()
    assert off[0] == off[1] == on[1] != on[0]


def test_explain_knows_transposed_convolutions():
    """Forward and gradient to x change places; stride 2 is four correlations."""
    shapes = (2, 64, 20, 20), (64, 64, 3, 3)
    for suffix, other in (("", "_x_backward"), ("_x_backward", "")):
        told = explain("conv_transpose2d" + suffix, *shapes, padding=1, num_threads=1)
        assert told == explain("conv2d" + other, *shapes, padding=1, num_threads=1) and "winograd" in told["path"]
    told = explain("conv_transpose2d", *shapes, stride=2, output_padding=1, padding=1)
    assert told["path"] != "none" and "winograd" not in told["path"]
    with pytest.raises(ArgumentError, match="output_padding"):
        explain("conv_transpose2d", *shapes, output_padding=-1)


def test_explain_names_path_threads_and_scratch():
    told = explain("conv2d", (8, 64, 224, 224), (64, 64, 3, 3), padding=1, num_threads=1)
    assert told["path"] == F4 and told["threads"] == 1 and 0 < told["scratch"] <= 8 << 20
    assert explain("conv2d", (8, 64, 224, 224), (64, 64, 3, 3), padding=1, num_threads=3)["threads"] <= 3
    assert explain("conv2d", (1, 32, 2, 2), (32, 32, 3, 3), padding=1)["path"] == F2
    for change in ({"stride": 2}, {"dilation": 2}):
        assert "winograd" not in explain("conv2d", (2, 64, 20, 20), (64, 64, 3, 3), padding=1, **change)["path"]
    assert "winograd" not in explain("conv2d", (2, 64, 20, 20), (64, 32, 3, 3), groups=2)["path"]
    assert "winograd" not in explain("conv2d", (2, 15, 20, 20), (64, 15, 3, 3))["path"]
    assert explain("conv2d", (2, 32, 20, 20), (32, 1, 3, 3), groups=32)["path"]
    assert explain("conv2d", (0, 32, 20, 20), (32, 32, 3, 3)) == {"path": "none", "threads": 1, "scratch": 0}
    assert explain("conv1d_x_backward", (1, 3, 50), (4, 3, 5), stride=3)["path"]
    assert explain("conv3d_weight_backward", (1, 3, 5, 6, 7), (4, 3, 2, 2, 2))["path"]


def test_scratch_is_bounded_whatever_the_size():
    for channels, outputs, side in itertools.product((16, 129, 512, 3000), (16, 65, 2048), (7, 30, 224)):
        for dtype, threads in itertools.product(DTYPES, (1, 2, 5)):
            told = explain("conv2d", (16, channels, side, side), (outputs, channels, 3, 3), padding=1, dtype=dtype, num_threads=threads)
            assert told["scratch"] <= threads * (8 << 20), (channels, outputs, side, dtype, threads, told)


@pytest.mark.parametrize(
    ("given", "options", "error", "word"),
    [
        (("relu", (1, 3, 5, 5), (4, 3, 3, 3)), {}, ArgumentError, "operation"),
        ((None, (1, 3, 5, 5), (4, 3, 3, 3)), {}, ArgumentError, "operation"),
        (("conv2d", (1, 3, 5), (4, 3, 3, 3)), {}, ShapeError, "x_shape"),
        (("conv2d", (1, 3, 5, 5), (4, 3, 3)), {}, ShapeError, "weight_shape"),
        (("conv2d", (1, 3, 5, 5), (4, 2, 3, 3)), {}, ShapeError, "x_shape"),
        (("conv2d", (1, 3, 5, 5), (4, 3, 6, 6)), {}, ShapeError, "weight_shape"),
        (("conv2d", 7, (4, 3, 3, 3)), {}, ArgumentError, "x_shape"),
        (("conv2d", (1, 3, 5, 5), (4, 3, 3, 3)), {"dtype": "int8"}, DTypeError, "dtype"),
        (("conv2d", (1, 3, 5, 5), (4, 3, 3, 3)), {"dtype": "no such"}, DTypeError, "dtype"),
        (("conv2d", (1, 3, 5, 5), (4, 3, 3, 3)), {"layout": "CHWN"}, ArgumentError, "layout"),
        (("conv1d", (1, 3, 5), (4, 3, 3)), {"layout": "NHWC"}, ArgumentError, "layout"),
        (("conv2d", (1, 3, 5, 5), (4, 3, 3, 3)), {"stride": 0}, ArgumentError, "stride"),
        (("conv2d", (1, 3, 5, 5), (4, 3, 3, 3)), {"num_threads": 0}, ArgumentError, "num_threads"),
    ],
)
def test_explain_refuses(given, options, error, word):
    with pytest.raises(error, match=word):
        explain(*given, **options)


def test_explain_is_public():
    assert "explain" in cpuops.__all__
