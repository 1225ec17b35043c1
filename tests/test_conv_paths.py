"""Convolutions whose path the layout chooses: on arrays so large that they are cut, and on values that are not finite."""

import itertools

import numpy as np
import pytest
from support import Eager, seeded

import cpuops

CPU = cpuops.CpuBackend()
KINDS = list(itertools.product((3, 5), (1, 2)))  # kernel, stride


def turned(a):
    """[B, C, H, W] as [B, H, W, C]; a weight [C, 1, KH, KW] as [KH, KW, 1, C]."""
    return a.transpose(2, 3, 1, 0).copy() if a.shape[1] == 1 else a.transpose(0, 2, 3, 1).copy()


def results(backend, x, weight, bias, g, **options):
    return (
        backend.conv2d(x, weight, bias, **options),
        backend.conv2d_x_backward(x, weight, g, **options),
        backend.conv2d_weight_backward(x, weight, g, **options),
    )


def operands(dtype, batch, channels, height, width, kernel, stride):
    rng = seeded("depthwise", height, width, kernel, stride)
    shapes = ((batch, channels, height, width), (channels, 1, kernel, kernel), (channels,))
    x, weight, bias = (rng.standard_normal(s).astype(dtype) for s in shapes)
    options = {"stride": stride, "padding": ((kernel // 2, 1), (1, kernel // 2)), "groups": channels}
    g = rng.standard_normal(CPU.conv2d(x, weight, **options).shape).astype(dtype)
    return (x, weight, bias, g), options


@pytest.mark.parametrize(("kernel", "stride"), KINDS)
@pytest.mark.parametrize(("height", "width"), [(601, 263), (7, 7)])
def test_both_layouts_and_all_threads_agree(dtype, kernel, stride, height, width):
    arrays, options = operands(dtype, 3, 2, height, width, kernel, stride)
    first, second, third = results(CPU, *arrays, **options)
    last = results(CPU, *(turned(a) if a.ndim == 4 else a for a in arrays), layout="NHWC", **options)
    tolerance = 2e-5 if np.dtype(dtype).itemsize == 4 else 1e-11
    for got, other in zip((first, second, third), last, strict=True):
        np.testing.assert_allclose(turned(got), other, rtol=tolerance, atol=tolerance * np.abs(other).max())
    for got, other in zip((first, second, third), results(Eager(3), *arrays, **options), strict=True):
        np.testing.assert_array_equal(got, other)


@pytest.mark.parametrize(("kernel", "stride"), KINDS)
def test_values_that_are_not_finite_reach_no_window_beside_padding(kernel, stride):
    (x, weight, bias, g), options = operands(np.float32, 1, 3, 12, 37, kernel, stride)
    weight[1, 0, 0, 0], weight[1, 0, -1, -1], x[0, 2, 0, 0], g[0, 0, -1, -1] = np.inf, np.nan, np.inf, np.nan
    arrays = (x, weight, bias, g)
    last = results(CPU, *(turned(a) if a.ndim == 4 else a for a in arrays), layout="NHWC", **options)
    for got, other in zip(results(CPU, *arrays, **options), last, strict=True):
        np.testing.assert_array_equal(np.isfinite(turned(got)), np.isfinite(other))
        assert np.isfinite(got).any()


@pytest.mark.parametrize("stride", [(2, 2), (3, 2), (2, 1), (1, 4)])
@pytest.mark.parametrize("value", [0.5, np.inf])
def test_strided_gradients_of_both_layouts_and_all_threads_agree(stride, value):
    rng = seeded("strided", *stride)
    x, weight = (rng.standard_normal(s).astype(np.float32) for s in ((1, 17, 41, 260), (700, 17, 3, 4)))
    weight[3, 5, 0, 1] = value
    options = {"stride": stride, "padding": ((0, 2), (3, 1))}
    g = rng.standard_normal(CPU.conv2d(x, weight, **options).shape).astype(np.float32)
    got = CPU.conv2d_x_backward(x, weight, g, **options)
    np.testing.assert_array_equal(got, Eager(3).conv2d_x_backward(x, weight, g, **options))
    turn = (0, 2, 3, 1)
    last = CPU.conv2d_x_backward(
        x.transpose(turn).copy(), weight.transpose(2, 3, 1, 0).copy(), g.transpose(turn).copy(), layout="NHWC", **options
    )
    np.testing.assert_allclose(got.transpose(turn), last, rtol=2e-5, atol=2e-5 * np.abs(last[np.isfinite(last)]).max())


# the gradient to x by shares of x's channels, the weight gradient read in place, small images of many channels
@pytest.mark.parametrize(
    ("batch", "cin", "cout", "size", "kernel", "stride"),
    [(2, 250, 500, 5, 3, 2), (3, 24, 90, 28, 1, 1), (2, 24, 40, 57, 3, 2), (2, 130, 260, 11, 1, 1)],
)
def test_shares_and_chunks_of_both_layouts_and_all_threads_agree(dtype, batch, cin, cout, size, kernel, stride):
    rng = seeded("shares", cin, cout)
    shapes = ((batch, cin, size, size), (cout, cin, kernel, kernel), (cout,))
    x, weight, bias = (rng.standard_normal(s).astype(dtype) for s in shapes)
    options = {"stride": stride, "padding": kernel // 2}
    g = rng.standard_normal(CPU.conv2d(x, weight, **options).shape).astype(dtype)
    got = results(CPU, x, weight, bias, g, **options)
    for mine, other in zip(got, results(Eager(3), x, weight, bias, g, **options), strict=True):
        np.testing.assert_array_equal(mine, other)
    last = (x.transpose(0, 2, 3, 1), weight.transpose(2, 3, 1, 0), bias, g.transpose(0, 2, 3, 1))
    forward, to_x, to_weight = results(CPU, *map(np.ascontiguousarray, last), layout="NHWC", **options)
    back = (forward.transpose(0, 3, 1, 2), to_x.transpose(0, 3, 1, 2), to_weight.transpose(3, 2, 0, 1))
    tolerance = 2e-5 if np.dtype(dtype).itemsize == 4 else 1e-11
    for mine, other in zip(got, back, strict=True):
        np.testing.assert_allclose(mine, other, rtol=tolerance, atol=tolerance * np.abs(other).max())
