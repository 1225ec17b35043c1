"""Gradients of max pooling on every path of the kernel: bits against one addition after the other."""

import itertools

import numpy as np
import pytest
from support import seeded

from cpuops import CpuBackend, IndexRangeError, ThreadedCpuBackend

# kernel_size, stride, padding, dilation: windows apart, side by side, overlapping; rows longer and shorter than a vector
WINDOWS = [(2, 2, 0, 1), (2, 3, 1, 1), (3, 2, 1, 1), (3, 1, 1, 1), ((1, 5), (3, 4), (0, 2), 1), (3, (2, 1), 1, 2), (2, 9, 0, 1)]
# B C H W
SHAPES = [(2, 1, 9, 70), (17, 1, 8, 33), (2, 7, 6, 11), (1, 16, 7, 9), (2, 64, 9, 12), (1, 85, 9, 10), (1, 67, 5, 21), (1, 37, 17, 16)]


def added_up(x, g, indices):
    """In the order of the output's cells; all [B, C, ...]."""
    grad = np.zeros((x.shape[0] * x.shape[1], x[0, 0].size), x.dtype)
    flat = (len(grad), -1)
    np.add.at(grad, (np.arange(len(grad))[:, None], indices.reshape(flat)), g.reshape(flat))
    return grad.reshape(x.shape)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_of_maxima(dtype, shape, layout):
    rng = seeded("gradients of maxima", layout, dtype, *shape)
    to = (0, 2, 3, 1) if layout == "NHWC" else (0, 1, 2, 3)
    for kernel, stride, padding, dilation in WINDOWS:
        options = {"stride": stride, "padding": padding, "dilation": dilation, "layout": layout}
        x = rng.integers(-2, 3, shape).astype(dtype)  # many equals
        laid = np.ascontiguousarray(x.transpose(to))
        found = CpuBackend().max_pool2d_with_indices(laid, kernel, **options)[1]
        indices = np.ascontiguousarray(found.transpose(np.argsort(to)))
        g = rng.standard_normal(indices.shape).astype(dtype)
        laid_g = np.ascontiguousarray(g.transpose(to))
        elsewhere = indices.copy()  # the last one lies outside its window
        elsewhere.reshape(-1)[-1] = 0
        anywhere = rng.integers(0, x[0, 0].size, indices.shape)
        for backend in (CpuBackend(), ThreadedCpuBackend(3)):
            got = backend.max_pool2d_backward(laid, laid_g, kernel, **options)
            assert got.transpose(np.argsort(to)).tobytes() == added_up(x, g, indices).tobytes(), (kernel, stride)
            for given in (indices, elsewhere, anywhere):
                at = np.ascontiguousarray(given.transpose(to))
                got = backend.max_pool2d_with_indices_backward(laid, kernel, laid_g, at, **options)
                assert got.transpose(np.argsort(to)).tobytes() == added_up(x, g, given).tobytes(), (kernel, stride)


# -inf is the value of padding, too
UNUSUAL = [np.nan, -np.inf, np.inf]
UNUSUAL_SHAPES = [(1, 3, 9, 70), (2, 37, 7, 6), (1, 21, 17, 16)]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("share", [0.03, 0.7])
def test_gradients_of_maxima_that_are_not_finite(dtype, layout, share):
    rng = seeded("not finite", layout, dtype, int(100 * share))
    to = (0, 2, 3, 1) if layout == "NHWC" else (0, 1, 2, 3)
    for (kernel, stride, padding, dilation), value, shape in itertools.product(WINDOWS, UNUSUAL, UNUSUAL_SHAPES):
        options = {"stride": stride, "padding": padding, "dilation": dilation, "layout": layout}
        x = rng.integers(-2, 3, shape).astype(dtype)
        x[rng.random(shape) < share] = value
        laid = np.ascontiguousarray(x.transpose(to))
        found = CpuBackend().max_pool2d_with_indices(laid, kernel, **options)[1]
        g = rng.standard_normal(found.shape).astype(dtype)
        g[rng.random(found.shape) < 0.1] = -0.0
        got = CpuBackend().max_pool2d_backward(laid, g, kernel, **options).transpose(np.argsort(to))
        wanted = added_up(x, *(np.ascontiguousarray(a.transpose(np.argsort(to))) for a in (g, found)))
        assert got.tobytes() == wanted.tobytes(), (kernel, stride, value)


@pytest.mark.parametrize("size, output_size", [((6, 26), (1, 4)), ((6, 8), (3, 3)), ((12, 16), (5, 5)), ((9, 5), (4, 5)), ((7, 7), (2, 3))])
def test_gradients_of_adaptive_maxima(dtype, size, output_size):
    for channels in (1, 3, 17, 70):
        rng = seeded("adaptive maxima", dtype, channels, *size)
        x = rng.integers(-2, 3, (2, channels, *size)).astype(dtype)
        laid = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
        indices = CpuBackend().adaptive_max_pool2d_with_indices(x, output_size)[1]
        g = rng.standard_normal(indices.shape).astype(dtype)
        laid_g, laid_at = (np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in (g, indices))
        wanted = added_up(x, g, indices)
        for backend in (CpuBackend(), ThreadedCpuBackend(3)):
            for got in (
                backend.adaptive_max_pool2d_backward(x, g),
                backend.adaptive_max_pool2d_backward(laid, laid_g, layout="NHWC").transpose(0, 3, 1, 2),
                backend.adaptive_max_pool2d_with_indices_backward(x, g, indices),
                backend.adaptive_max_pool2d_with_indices_backward(laid, laid_g, laid_at, layout="NHWC").transpose(0, 3, 1, 2),
            ):
                np.testing.assert_allclose(got, wanted, rtol=4 * np.finfo(dtype).eps, atol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("bad", [-1, 12, 2**40, -(2**63), 2**63 - 1])
def test_an_index_outside_among_many(bad):
    x, g = np.zeros((700, 3, 3, 4), np.float32), np.zeros((700, 3, 2, 3), np.float32)
    indices = np.full(g.shape, 11)
    CpuBackend().max_pool2d_with_indices_backward(x, 2, g, indices, stride=1)
    indices[345, 1, 1, 2] = bad
    with pytest.raises(IndexRangeError, match=r"indices.*\[345, 1, 1, 2\]"):
        CpuBackend().max_pool2d_with_indices_backward(x, 2, g, indices, stride=1)


# x of one plane, and what is done to it
SMALL_PLANES = [
    ((7, 9), lambda b, x: b.adaptive_max_pool2d_with_indices(x, 3)),
    ((5, 6), lambda b, x: b.adaptive_max_pool2d_with_indices(x, 1, indices_dtype=np.int32)),
    ((8, 8), lambda b, x: b.max_pool2d_with_indices(x, 3, stride=2, padding=1)),
    ((13, 3), lambda b, x: (b.max_pool2d(x, 2), b.avg_pool2d(x, (3, 1), stride=1), b.adaptive_avg_pool2d(x, (4, 2)))),
    ((3, 4, 5), lambda b, x: (b.avg_pool3d(x, 2, padding=1, count_include_pad=False), b.adaptive_max_pool3d(x, 2), b.adaptive_avg_pool3d(x, 1))),
    ((28, 30), lambda b, x: (b.max_pool2d(x, 2), b.max_pool2d(x, 3, stride=2), b.avg_pool2d(x, 2), b.avg_pool2d(x, 3, stride=2, padding=1))),
    ((28, 30), lambda b, x: (b.avg_pool2d_backward(x, x[..., ::2, ::2].copy(), 2), b.max_pool2d_backward(x, x[..., ::2, ::2].copy(), 2))),
    ((50, 60), lambda b, x: (b.max_pool2d(x, 3), b.avg_pool2d(x, 5, stride=2), b.max_pool2d_backward(x, x[..., 2::3, ::3].copy(), 3))),
    ((9,), lambda b, x: b.avg_pool1d(x, 3, stride=2, padding=1)),
    ((40, 40), lambda b, x: (b.adaptive_avg_pool2d(x, 1), *b.adaptive_max_pool2d_with_indices(x, 1))),
    ((7, 7), lambda b, x: (b.adaptive_avg_pool2d(x, 1), *b.adaptive_max_pool2d_with_indices(x, 1), b.adaptive_max_pool2d(x, 1))),
    ((8, 11), lambda b, x: (b.adaptive_avg_pool2d(x, 1), *b.adaptive_max_pool2d_with_indices(x, 1), b.adaptive_max_pool2d(x, 1))),
    ((7, 7), lambda b, x: (b.adaptive_max_pool2d_backward(x, x[..., :1, :1].copy()), b.adaptive_avg_pool2d_backward(x, x[..., :1, :1].copy()))),
    ((7, 9), lambda b, x: b.adaptive_avg_pool2d_backward(x, np.ascontiguousarray(x[..., 2:5, 3:5]))),
    ((7, 9), lambda b, x: b.adaptive_max_pool2d_backward(x, np.ascontiguousarray(x[..., 2:5, 3:5]))),
    ((8, 8), lambda b, x: b.avg_pool2d_backward(x, np.ascontiguousarray(x[..., ::2, ::2]), 3, stride=2, padding=1)),
    ((5, 6), lambda b, x: (b.adaptive_max_pool2d_backward(x, x[..., :1, :1].copy()), b.adaptive_avg_pool2d_backward(x, x[..., :1, :1].copy()))),
]  # fmt: skip


@pytest.mark.parametrize("planes", [15, 16, 39, 70])
@pytest.mark.parametrize("size, work", SMALL_PLANES)
def test_many_small_planes_are_like_each_alone(dtype, planes, size, work):
    x = seeded("small planes", dtype, planes, *size).standard_normal((1, planes, *size)).astype(dtype)
    x[0, 3].reshape(-1)[1] = np.nan
    alone = [work(CpuBackend(), x[:, c : c + 1]) for c in range(planes)]
    together = work(ThreadedCpuBackend(2), x)
    if isinstance(together, np.ndarray):
        alone, together = [(a,) for a in alone], (together,)
    for got, *each in zip(together, *alone, strict=True):
        np.testing.assert_allclose(got, np.concatenate(each, axis=1), rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps)
