"""How exact: units in the last place over the whole range, and sums that must not drown."""

import math

import numpy as np
import oracle
import pytest
from support import Failures, seeded

EPS = np.finfo(np.float32).eps


def units(got, want, dtype):
    """Error in units of the last place of dtype at the exact value; where dtype overflows, infinity is right."""
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.abs(want))[1]
        step = np.ldexp(np.ones((), want.dtype), np.maximum(exponent - 1 - info.nmant, info.minexp - info.nmant))
        error = np.abs(got.astype(want.dtype) - want) / step
        error = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0, error)
        beyond = np.abs(want) > np.asarray(info.max, want.dtype)
        edge = beyond & (np.sign(got) == np.sign(want)) & (np.isinf(got) | (np.abs(got) == info.max))
        near = (
            np.isinf(got)
            & (np.abs(want) > np.asarray(info.max, want.dtype) * (1 - 2 * info.eps))
            & (np.sign(got) == np.sign(want))
        )
        error = np.where(edge, 0, np.where(near, 1, error))
        error = np.where(np.isnan(got) != np.isnan(want), np.inf, error)
    return error.astype(np.float64)


# where a function bends, over- or underflows
EDGES = {
    "exp": (-104, 89), "expm1": (-20, 89), "log": (0, 4), "log1p": (-1, 3), "tanh": (-10, 10), "sigmoid": (-104, 104),
    "erf": (-4.5, 4.5), "gelu": (-15, 8), "silu": (-104, 20), "softplus": (-104, 20),
}  # fmt: skip
EDGES64 = {
    "exp": (-745, 710), "expm1": (-40, 710), "log": (0, 4), "log1p": (-1, 3), "tanh": (-20, 20), "sigmoid": (-745, 710),
    "erf": (-6, 6), "gelu": (-37, 8), "silu": (-745, 40), "softplus": (-745, 40),
}  # fmt: skip


def arguments32(name, rng):
    """Every 6151st bit pattern, the neighbourhood of 0 by exponent, and the range where the function lives."""
    patterns = np.arange(int(rng.integers(6151)), 2**32, 6151, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = (np.exp2(rng.uniform(-149, 1, 100_000)) * rng.choice([-1, 1], 100_000)).astype(np.float32)
    edge = rng.uniform(*EDGES[name], 200_000).astype(np.float32)
    special = np.array([0, -0.0, np.inf, np.nan, 1, -1, np.finfo(np.float32).tiny, 1e-45, 3.4e38, -3.4e38], np.float32)
    return np.concatenate([patterns, near, edge, special])


@pytest.mark.parametrize("options", [{}, {"approximate": "tanh"}], ids=["", "tanh form"])
def test_units_float32(row, options, backend):
    if options and row.name != "gelu":
        options = {}
    x = arguments32(row.name, seeded("units", row.name, options))
    x = x[~np.isneginf(x)] if row.name in ("gelu", "silu") else x  # the limit there is not promised
    want = np.asarray(getattr(oracle, row.name)(x.astype(np.float64), **options))
    error = units(getattr(backend, row.name)(x, **options), want, np.float32)
    worst = int(error.argmax())
    assert error[worst] <= row.ulp["float32"], (
        f"{error[worst]:.3g} units at {x[worst]!r}; {int((error > row.ulp['float32']).sum())} of {x.size} beyond"
    )


test_units_float32.rows = lambda row: row.ulp is not None


def extended(name, x):
    """In long double, where NumPy has the function; else by the C library's erf and erfc, which err by about one unit."""
    wide = x.astype(np.longdouble)
    one = np.longdouble(1)
    if name == "gelu":  # erfc at t = high + low, by its slope
        t = -wide / np.sqrt(np.longdouble(2))
        high = t.astype(np.float64)
        slope = -2 / np.sqrt(np.longdouble(math.pi)) * np.exp(-(high.astype(np.longdouble) ** 2))
        return wide * (oracle.erfc(high) + slope * (t - high)) / 2
    with np.errstate(all="ignore"):
        sigmoid = np.where(wide >= 0, one / (one + np.exp(-np.abs(wide))), np.exp(-np.abs(wide)) / (one + np.exp(-np.abs(wide))))
        if name == "sigmoid":
            return sigmoid
        if name == "silu":
            return wide * sigmoid
        if name == "softplus":
            return np.maximum(wide, 0) + np.log1p(np.exp(-np.abs(wide)))
        if hasattr(np, name):
            return getattr(np, name)(wide)
    return getattr(oracle, name)(x).astype(np.longdouble)


def test_units_float64(row, backend):
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("long double is no wider than double on this platform")
    rng = seeded("units64", row.name)
    near = np.exp2(rng.uniform(-1000, 1, 50_000)) * rng.choice([-1, 1], 50_000)
    x = np.concatenate([rng.uniform(*EDGES64[row.name], 150_000), rng.uniform(-2, 2, 50_000), near])
    x = np.abs(x) if row.name == "log" else x[x > -1] if row.name == "log1p" else x
    want = extended(row.name, x)
    error = units(getattr(backend, row.name)(x), want, np.float64)
    error = np.where(np.abs(want) < 1e-300, 0, error)
    worst = int(error.argmax())
    assert error[worst] <= row.ulp["float64"], f"{error[worst]:.3g} units at {x[worst]!r}"


test_units_float64.rows = test_units_float32.rows


# ---------------------------------------------------------------- sums


def test_more_ones_than_a_float32_counts(backend):
    count = 2**24 + 1004
    ones = np.ones(count, np.float32)
    assert float(backend.reduce_sum(ones)) == count
    assert float(backend.reduce_mean(ones)) == 1
    assert float(backend.reduce_sum(ones.reshape(-1, 1), axis=0)[0]) == count
    assert float(backend.linear_bias_backward(ones.reshape(-1, 1))[0]) == count
    assert (
        float(backend.conv1d_bias_backward(np.ones((1, 1, 1), np.float32), np.ones(1, np.float32), ones.reshape(1, 1, -1))[0])
        == count
    )
    assert float(backend.add_backward(ones, ones, np.ones(1, np.float32))[1][0]) == count


@pytest.mark.parametrize("axis", [0, 1, None])
def test_sums_far_from_zero(axis, backend):
    """Double accumulators or pairwise sums: float32 rounding of the exact sum, give or take one."""
    failures = Failures()
    rng = seeded("far", axis)
    for shape in ((3, 5), (7, 1000), (1000, 7), (3, 100_001), (100_001, 3)):
        for offset, spread in ((10_000, 1), (1e6, 3), (-3e4, 100), (0, 1)):
            x = (offset + spread * rng.random(shape)).astype(np.float32)
            wide = x.astype(np.float64)
            total = np.asarray(wide.sum(axis))
            count = wide.size / total.size
            bound = 2 * EPS * np.abs(wide).sum(axis)
            failures.check(
                (np.abs(backend.reduce_sum(x, axis=axis) - total) <= np.maximum(EPS * np.abs(total), bound * 1e-3)).all(),
                f"reduce_sum {shape} at {offset}",
            )
            failures.check(
                (
                    np.abs(backend.reduce_mean(x, axis=axis) - total / count)
                    <= np.maximum(EPS * np.abs(total), bound * 1e-3) / count
                ).all(),
                f"reduce_mean {shape} at {offset}",
            )
    failures.raise_any()


def test_float64_sums_are_pairwise(backend):
    """The error of a long sum grows like its logarithm, not like its length."""
    x = seeded("pairwise").random(1_000_003)
    exact = math.fsum(x)
    assert abs(float(backend.reduce_sum(x)) - exact) <= 40 * np.finfo(np.float64).eps * exact
    assert (
        abs(float(backend.reduce_sum(np.ascontiguousarray(x[:, None].repeat(2, 1)), axis=0)[1]) - exact)
        <= 40 * np.finfo(np.float64).eps * exact
    )
    assert abs(float(backend.reduce_mean(np.full(999_983, 0.1))) - 0.1) <= 4 * np.finfo(np.float64).eps


def test_sums_that_cancel(backend):
    v = np.where(np.arange(4098) % 2, -1e30, 1e30).astype(np.float32)
    assert float(backend.reduce_sum(v)) == 0 and float(backend.reduce_mean(v)) == 0
    assert float(backend.reduce_mean(np.full(4098, 1e30, np.float32))) == np.float32(1e30)
    # the sum of float32 values overflows only when the exact sum does
    assert np.isfinite(backend.reduce_mean(np.full(1000, 3e38, np.float32)))
    assert float(backend.logsumexp(np.array([-1e30, 1e30, 0], np.float32))) == np.float32(1e30)
    assert float(backend.logsumexp(np.full(2**20, 1e30, np.float32))) == np.float32(1e30)
    assert (backend.softmax(np.zeros((1, 2**20), np.float32)) == np.float32(2**-20)).all()


# ---------------------------------------------------------------- means and variances

ROWS = {
    "mean 10000": 10_000 + 0.001 * np.arange(16),
    "mean 10000, long": 10_000 + 0.001 * (np.arange(4096) % 17),
    "1e6 + {0, 1, 2, 3}": 1e6 + np.arange(4),
    "1e6 + {0, 1, 2, 3}, long": 1e6 + np.arange(4096) % 4,
    "±1e30": np.array([1e30, -1e30]),
    "±1e30, long": np.where(np.arange(4096) % 2, 1e30, -1e30),
    "±1e-30": np.array([1e-30, -1e-30, 3e-30]),
    "constant": np.full(7, 12345.678),
    "constant, long": np.full(4096, 0.1),
    "negative": -40_000 - np.arange(4.0),
    "one outlier": np.concatenate([[3e4], np.sin(np.arange(63))]),
    "1e18": 1e18 + 2e11 * np.arange(8.0),
}
EPSILON = 1e-5


def exact_normal(x, centre=True):
    wide = x.astype(np.longdouble)
    wide = wide - wide.mean(-1, keepdims=True) if centre else wide
    return wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + np.longdouble(EPSILON))


NORMS = {
    "layer_norm": lambda b, x, one, zero: b.layer_norm(x, np.ones(x.shape[1], x.dtype), np.zeros(x.shape[1], x.dtype), EPSILON),
    "rms_norm": lambda b, x, one, zero: b.rms_norm(x, np.ones(x.shape[1], x.dtype), EPSILON),
    "group_norm": lambda b, x, one, zero: b.group_norm(x[:, None, :], 1, one[:1], zero[:1], EPSILON)[:, 0],
    "instance_norm": lambda b, x, one, zero: b.instance_norm(x[None], one, zero, EPSILON)[0],
    "batch_norm_train": lambda b, x, one, zero: b.batch_norm_train(x.T, one, zero, EPSILON).output.T,
}


@pytest.mark.parametrize("data", ROWS)
@pytest.mark.parametrize("name", NORMS)
def test_normalised_rows(name, data, dtype, backend):
    """Right whatever the mean: no one-pass variance, no mean folded into a shift."""
    one_row = ROWS[data].astype(dtype)
    x = np.stack([one_row, one_row[::-1]])
    got = NORMS[name](backend, x, np.ones(2, dtype), np.zeros(2, dtype))
    want = exact_normal(x, name != "rms_norm")
    scale = max(1.0, float(np.abs(want).max()))
    bound = 4e-6 if dtype == "float32" else 4e-14
    if dtype == "float64":  # a double accumulator carries this much of a large mean
        spread = max(float(np.abs(one_row - one_row.mean()).max()), math.sqrt(EPSILON))
        bound = max(bound, 4 * one_row.size * np.finfo(np.float64).eps * float(np.abs(one_row).max()) / spread)
    assert float(np.abs(got - want).max()) <= bound * scale, (got[0, :3], want[0, :3])


@pytest.mark.parametrize("data", ROWS)
def test_batch_statistics(data, dtype, backend):
    x = np.stack([ROWS[data], ROWS[data][::-1]], 1).astype(dtype)
    got = backend.batch_norm_train(x, np.ones(2, dtype), np.zeros(2, dtype), EPSILON)
    wide = x.astype(np.longdouble)
    mean, eps = wide.mean(0), np.finfo(dtype).eps
    variance = ((wide - mean) ** 2).mean(0)
    units = 2 if dtype == "float32" else 16  # a float64 sum has no wider accumulator
    assert (np.abs(got.mean - mean) <= units * eps * (np.abs(mean) + 1e-6 * np.abs(wide).max())).all()
    if variance.max() < np.finfo(dtype).max:
        rounding = (16 * np.finfo(np.float64).eps * np.abs(wide).max()) ** 2
        assert (np.abs(got.variance - variance) <= 1e-5 * variance + rounding + np.finfo(dtype).tiny).all(), (
            got.variance,
            variance,
        )


def test_given_statistics_are_subtracted_first(backend):
    """x·scale + shift would lose all digits here."""
    x = (1e6 + np.arange(4, dtype=np.float32))[:, None]
    got = backend.batch_norm(
        x,
        np.ones(1, np.float32),
        np.zeros(1, np.float32),
        np.array([1e6 + 1.5], np.float32),
        np.array([1.25], np.float32),
        EPSILON,
    )
    assert np.allclose(got[:, 0], [-1.34164, -0.447212, 0.447212, 1.34164], rtol=1e-5)


def test_mse_of_large_operands(backend):
    a = (1e6 + np.arange(1000, dtype=np.float32) % 3).astype(np.float32)
    b = np.full(1000, 1e6, np.float32)
    want = float(((a.astype(np.float64) - b) ** 2).mean())
    assert abs(float(backend.mse_loss(a, b)) - want) <= 2 * EPS * want


def test_cross_entropy_of_large_logits(backend):
    logits = np.array([[1e4, 1e4 - 2, 0], [0, 1e4, 1e4]], np.float32)
    got = backend.cross_entropy(logits, np.array([1, 0]), reduction="none")
    want = [2 + math.log1p(math.exp(-2)), 1e4 + math.log(2)]
    assert np.allclose(got, want, rtol=1e-6)
