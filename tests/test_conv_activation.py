"""A convolution and its activation in one pass beside the two after each other: the same bits, on every path of the kernels."""

import numpy as np
import pytest
from support import Eager, Mine, seeded
from table import ROWS

import cpuops

CPU = cpuops.CpuBackend()
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")
# x [B, Cin, …], outputs, kernel, options: each is met in both layouts where it has two axes
CASES = [
    ((2, 3, 20, 37), 19, (3, 3), {"padding": 1}),  # a band, tiles over the ends of rows
    ((2, 5, 12, 150), 16, (3, 3), {"padding": ((1, 0), (2, 1))}),  # tiles inside rows
    ((1, 2, 50, 70), 3, (3, 3), {"padding": 1}),  # few outputs: by rows
    ((1, 300, 20, 17), 6, (3, 3), {"padding": 1}),  # bands of some of the channels: sums in several parts
    ((2, 32, 13, 29), 40, (1, 1), {}),  # read in place
    ((2, 8, 300, 9), 30, (5, 3), {"stride": (2, 3), "padding": 2, "groups": 2}),
    ((2, 6, 30, 31), 12, (3, 2), {"dilation": (2, 3), "groups": 3}),
    ((2, 3, 33, 35), 64, (7, 7), {"stride": 2, "padding": 3}),
    ((2, 256, 16, 16), 33, (1, 1), {}),  # products, of all images
    ((2, 300, 24, 25), 20, (1, 1), {"stride": (1, 1)}),  # of each image
    ((1, 700, 1, 1), 40, (1, 1), {}),  # of few cells: sums in several parts
    ((2, 200, 9, 9), 130, (3, 3), {"stride": 2, "padding": 1}),
    ((2, 64, 15, 15), 256, (3, 3), {"stride": 2, "padding": 1, "groups": 2}),
    ((2, 32, 14, 15), 33, (3, 3), {"padding": 1}),  # Winograd, weights shared
    ((1, 32, 8, 4), 32, (3, 3), {}),  # whose tiles are small
    ((1, 176, 12, 13), 170, (3, 3), {"padding": ((1, 1), (0, 2))}),  # tiles shared
    ((2, 33, 15, 40), 33, (3, 3), {"padding": 1, "groups": 33}),  # depthwise
    ((2, 20, 23, 61), 20, (3, 3), {"padding": 1, "stride": 2, "groups": 20}),
    ((2, 17, 9, 9), 17, (5, 5), {"padding": 2, "groups": 17}),
    ((1, 3, 301, 263), 3, (5, 5), {"padding": 2, "stride": 2, "groups": 3}),
    ((1, 2, 261, 263), 2, (3, 3), {"padding": 1, "groups": 2}),  # planes in several bands
    ((2, 9, 8, 17), 9, (2, 7), {"padding": (0, 3), "groups": 9, "dilation": (1, 2)}),
    ((2, 6, 40), 9, (3,), {"padding": 1}),
    ((2, 1, 400), 32, (80,), {"stride": 4}),
    ((1, 4, 9, 10, 11), 18, (3, 2, 3), {"padding": 1, "stride": (1, 2, 1)}),
    ((1, 4, 5, 6, 7), 4, (3, 3, 3), {"padding": 1, "groups": 4}),
]


def in_layouts():
    for x_shape, outputs, kernel, options in CASES:
        weight_shape = (outputs, x_shape[1] // options.get("groups", 1), *kernel)
        yield x_shape, weight_shape, options
        if len(kernel) == 2:
            turned = tuple(x_shape[a] for a in (0, 2, 3, 1)), tuple(weight_shape[a] for a in (2, 3, 1, 0))
            yield *turned, {**options, "layout": "NHWC"}


def name_of(case):
    x_shape, weight_shape, options = case
    return f"{list(x_shape)} {list(weight_shape)} {options}"


ALL = list(in_layouts())


def path_of(case, dtype="float32"):
    x_shape, weight_shape, options = case
    return cpuops.explain(f"conv{len(x_shape) - 2}d", x_shape, weight_shape, dtype=dtype, num_threads=1, **options)["path"]


def test_every_path_is_met():
    met = {path_of(case) for case in ALL}
    planes = {"planes"} if cpuops.show_config("dicts")["isa"] != "v2" else set()
    assert met >= {"direct", "product", "depthwise", "winograd F(4x4, 3x3)", "winograd F(2x2, 3x3)"} | planes


def operands(case, dtype):
    x_shape, weight_shape, options = case
    rng = seeded("conv activation", name_of(case))
    terms = int(np.prod(weight_shape)) / weight_shape[-1 if "layout" in options else 0]
    x, weight = rng.standard_normal(x_shape), rng.standard_normal(weight_shape) * 3 * terms**-0.5
    bias = rng.standard_normal(weight_shape[-1 if "layout" in options else 0])
    return [np.asarray(a, dtype) for a in (x, weight, bias)]


def activate(backend, activation, total):
    return backend.gelu(total, approximate="tanh") if activation == "gelu_tanh" else getattr(backend, activation)(total)


def compare(case, x, weight, bias, activation):
    op = f"conv{x.ndim - 2}d"
    options = case[2]
    total = getattr(CPU, op)(x, weight, bias, **options)
    wanted = activate(CPU, activation, total)
    for ops in (CPU, Eager(3)):
        fused = getattr(ops, f"{op}_activation")
        assert fused(x, weight, bias, activation=activation, **options).tobytes() == wanted.tobytes()
        both = getattr(ops, f"{op}_activation_with_sum")(x, weight, bias, activation=activation, **options)
        assert both.sum.tobytes() == total.tobytes()
        assert both.output.tobytes() == wanted.tobytes()
    out = np.full_like(wanted, 7)
    assert fused(x, weight, bias, activation=activation, out=out, **options) is out
    assert out.tobytes() == wanted.tobytes()
    return total


@pytest.mark.parametrize("case", ALL, ids=name_of)
def test_the_bits_are_those_of_both(case, dtype):
    x, weight, bias = operands(case, dtype)
    for i, activation in enumerate(ACTIVATIONS):
        compare(case, x, weight, bias if i % 2 else None, activation)


@pytest.mark.parametrize("case", [case for case in ALL if np.prod(case[0]) * np.prod(case[1]) < 2e8][::2], ids=name_of)
def test_values_that_are_not_finite(case, dtype):
    """They send a call to another path, which computes all of it again: of the definition, which is slow, small calls only."""
    x, weight, bias = operands(case, dtype)
    for spoiled, value in ((x, np.nan), (weight, np.inf), (weight, np.nan)):
        kept = spoiled.flat[spoiled.size // 2]
        spoiled.flat[spoiled.size // 2] = value
        total = compare(case, x, weight, bias, "relu")
        assert not np.isfinite(total).all()
        spoiled.flat[spoiled.size // 2] = kept


@pytest.mark.parametrize("case", ALL[::2], ids=name_of)
def test_the_gradients_are_those_of_both(case, dtype):
    x, weight, bias = operands(case, dtype)
    op = f"conv{x.ndim - 2}d"
    options = case[2]
    total = getattr(CPU, op)(x, weight, bias, **options)
    g = np.asarray(seeded("gradient", name_of(case)).standard_normal(total.shape), dtype)
    tolerance = 8 * ROWS[f"{op}_activation"].rtol[dtype]
    for activation in ("relu", "gelu"):
        d = getattr(CPU, f"{activation}_backward")(g, total)
        alone = getattr(CPU, f"{op}_backward")(x, weight, d, **options)
        method = f"{op}_activation_backward"
        grads = getattr(CPU, method)(x, weight, bias, total, g, activation=activation, **options)
        assert [a.tobytes() for a in grads] == [a.tobytes() for a in alone]
        some = getattr(Eager(3), method)(x, weight, None, total, g, activation=activation, x_grad=False, **options)
        assert some.x_grad is None and some.bias_grad is None
        assert some.weight_grad.tobytes() == alone.weight_grad.tobytes()
    default = getattr(Mine(), method)(x, weight, bias, total, g, activation=activation, **options)
    for got, want in zip(default, grads, strict=True):
        assert np.abs(got - want).max() <= 8 * tolerance * np.abs(want).max()
