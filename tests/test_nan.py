"""NaN, infinities, subnormals and the floating-point mode, as the contract's table says."""

import math
import subprocess
import sys
import threading

import numpy as np
import pytest
from support import Failures, all_differences, different_bits, result_of, seeded
from table.base import is_floating, parts

COUNT = 67  # more than four vectors of any width and type, and a tail


def hit(values, index, value=np.nan):
    values = values.copy()
    values[index] = value
    return values


def others_equal(first, second, where):
    return first.shape == second.shape and first[~where].tobytes() == second[~where].tobytes()


# ---------------------------------------------------------------- the oracle knows where NaN and infinities arrive

# infinities inside exp-and-divide or normalising formulas depend on the formula; there only NaN is asked for
NAN_ONLY = "mish hard_swish glu softsign tanhshrink celu elu selu softmax log_softmax logsumexp cross_entropy batch_norm".split()


def test_special_values_arrive_where_they_must(row, dtype, serial, eager):
    """One NaN or infinity in one operand: the same cells become NaN or infinite as in IEEE arithmetic, and no other."""
    failures = Failures()
    rng = seeded("special", row.name)
    calls = [c for c in row.calls(rng) if all(0 < a.size < 3000 for a in c.arrays.values())]
    nan_only = row.name in NAN_ONLY or "norm" in row.name
    for call in calls[:: max(1, len(calls) // 12)]:
        call = call.cast(dtype)
        for name, value in call.arrays.items():
            if not is_floating(value) or (name == "variance"):
                continue
            for special in (np.nan,) if nan_only else (np.nan, np.inf, -np.inf):
                at = np.unravel_index(int(rng.integers(value.size)), value.shape)
                poisoned = call.map(lambda k, v, name=name, at=at, special=special: hit(v, at, special) if k == name else v)
                exact = poisoned.cast(np.float64)
                with np.errstate(all="ignore"):
                    wanted = row.wanted(exact)
                    scales = [
                        np.abs(s[np.isfinite(s)]).max(initial=0.0) if np.size(s) else 0.0
                        for s in map(np.asarray, row.scale(call.cast(np.float64), wanted))
                    ]
                what = f"{row.name}{call}, {special} in {name} at {list(map(int, at))}"
                got = result_of(failures, what, poisoned.on, serial, row.name)
                if got is None:
                    continue
                message = all_differences(got, wanted, scales, row.rtol[dtype], dtype, row.exact)
                failures.check(message is None, f"{what}: {message}")
                message = different_bits(got, poisoned.on(eager, row.name))
                failures.check(message is None, f"{what} on three threads: {message}")
    failures.raise_any()


LINEAR = (
    "neg add sub mul matmul linear conv1d conv2d conv3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_avg_pool3d interpolate embedding reduce_sum reduce_mean"
).split()


def test_a_nan_gradient_arrives_where_it_must(row, dtype, serial, eager):
    """Where the gradient is a plain sum of products, NaN in any operand or in output_grad spreads as in the oracle."""
    failures = Failures()
    rng = seeded("nan gradient", row.name)
    calls = [c for c in row.calls(rng) if all(0 < a.size < 3000 for a in c.arrays.values())]
    for call in calls[:: max(1, len(calls) // 10)]:
        call = call.cast(dtype)
        results = parts(call.on(serial, row.name))
        output_grad = np.asarray(rng.standard_normal(results[0].shape), dtype)
        for gradient, gcall in row.gradient_calls(call, results, output_grad):
            for name, value in gcall.arrays.items():
                if not is_floating(value) or not value.size:
                    continue
                at = np.unravel_index(int(rng.integers(value.size)), value.shape)
                poisoned = gcall.map(lambda k, v, name=name, at=at: hit(v, at) if k == name else v)
                wanted = gradient.wanted(poisoned.cast(np.float64))
                scales = [
                    0.0 if s is None else np.abs(s).max(initial=0.0)
                    for s in gradient.scale(gcall.cast(np.float64), gradient.wanted(gcall.cast(np.float64)))
                ]
                what = f"{gradient.name}{gcall}, NaN in {name} at {list(map(int, at))}"
                got = result_of(failures, what, poisoned.on, serial, gradient.name)
                if got is None:
                    continue
                message = all_differences(got, wanted, scales, row.rtol[dtype], dtype)
                failures.check(message is None, f"{what}: {message}")
                message = different_bits(got, poisoned.on(eager, gradient.name))
                failures.check(message is None, f"{what} on three threads: {message}")
    failures.raise_any()


test_a_nan_gradient_arrives_where_it_must.rows = lambda row: row.name in LINEAR


# ---------------------------------------------------------------- elementwise


def test_elementwise_nan(row, dtype, backend):
    """At every place of an array, and nowhere else."""
    failures = Failures()
    operands = 2 if "lhs" in row.differentiable else 1
    values = [np.linspace(0.1, 5, COUNT).astype(dtype), np.linspace(3, 0.2, COUNT).astype(dtype)][:operands]
    function = getattr(backend, row.name)
    plain = function(*values)
    for which in range(operands):
        for i in range(COUNT):
            got = function(*(hit(v, i) if k == which else v for k, v in enumerate(values)))
            here = np.arange(COUNT) == i
            failures.check(np.isnan(got[i]), f"the NaN at {i} of operand {which} became {got[i]!r}")
            failures.check(others_equal(got, plain, here), f"the NaN at {i} of operand {which} changed another cell")
    failures.raise_any()


test_elementwise_nan.rows = lambda row: row.elementwise


def test_elementwise_gradient_at_nan(row, dtype, backend):
    """A NaN operand makes its own gradient NaN, and no other."""
    failures = Failures()
    gradient = row.gradients[0]
    operands = len(gradient.takes.split())
    values = [np.linspace(a, b, COUNT).astype(dtype) for a, b in ((1, 2), (0.1, 5), (3, 0.2))][:operands]
    function = getattr(backend, gradient.name)
    plain = parts(function(*values))
    for i in range(COUNT):
        got = parts(function(*(hit(v, i) if k == 1 else v for k, v in enumerate(values))))
        here = np.arange(COUNT) == i
        if row.name not in ("add", "sub", "maximum", "minimum"):  # slopes that are constants
            failures.check(any(np.isnan(g[i]) for g in got), f"the NaN at {i} gave {[g[i] for g in got]}")
        for g, p in zip(got, plain, strict=True):
            failures.check(others_equal(g, p, here), f"the NaN at {i} changed another cell")
    failures.raise_any()


test_elementwise_gradient_at_nan.rows = lambda row: row.elementwise


def test_relu_backward(dtype, backend):
    x = np.array([-1, -0.0, 0.0, 1, np.nan, np.inf, -np.inf], dtype)
    g = np.full(7, 3, dtype)
    got = backend.relu_backward(g, x)
    assert got[[0, 1, 2, 3, 5, 6]].tolist() == [0, 0, 0, 3, 3, 0] and np.isnan(got[4])
    # what arrives does not matter where the slope is 0
    assert backend.relu_backward(np.full(7, np.inf, dtype), x)[[0, 1, 2, 6]].tolist() == [0, 0, 0, 0]


def test_equal_operands_share_the_gradient(dtype, backend):
    a = np.tile(np.array([1, 2, 0, -0.0], dtype), COUNT)
    for name in ("maximum_backward", "minimum_backward"):
        lhs, rhs = getattr(backend, name)(np.full(a.size, 3, dtype), a, a.copy())
        assert (lhs == 1.5).all() and (rhs == 1.5).all()


def test_signs_of_zero(dtype, backend):
    """-0 stays -0 where the function is odd."""
    x = np.array([-0.0, 0.0] * COUNT, dtype)
    for name in ("neg", "erf", "tanh", "expm1", "log1p", "sqrt", "silu", "gelu", "softsign", "leaky_relu", "hardtanh"):
        got = np.signbit(getattr(backend, name)(x)[:2]).tolist()
        assert got == ([False, True] if name == "neg" else [True, False]), name


def test_limits(dtype, backend):
    """Values at the infinities."""
    inf, x = np.inf, np.array([np.inf, -np.inf], dtype)
    for name, want in {
        "exp": (inf, 0), "expm1": (inf, -1), "log": (inf, np.nan), "log1p": (inf, np.nan), "sqrt": (inf, np.nan),
        "reciprocal": (0, 0), "abs": (inf, inf), "erf": (1, -1),
        "sigmoid": (1, 0), "tanh": (1, -1), "relu": (inf, 0), "relu6": (6, 0), "softplus": (inf, 0), "hardtanh": (1, -1),
        "log_sigmoid": (0, -inf), "hard_sigmoid": (1, 0),
        "elu": (inf, -1), "celu": (inf, -1), "square": (inf, inf), "neg": (-inf, inf),
    }.items():  # fmt: skip
        got = getattr(backend, name)(x)
        assert all(g == w or (math.isnan(w) and np.isnan(g)) for g, w in zip(got, want, strict=True)), (name, got)
    for name in ("log", "sqrt"):
        assert np.isnan(getattr(backend, name)(np.full(COUNT, -1, dtype))).all(), name
    assert (backend.log(np.zeros(COUNT, dtype)) == -inf).all()
    assert (backend.log1p(np.full(COUNT, -1, dtype)) == -inf).all()


# ---------------------------------------------------------------- rows, windows, sums


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_rows(name, dtype, backend):
    """A NaN or +inf makes its own row NaN, at any place; a row of -inf is NaN; [0, -inf] is [1, 0]."""
    x = seeded("rows").standard_normal((5, COUNT)).astype(dtype)
    function = getattr(backend, name)
    plain = function(x)
    for i in range(COUNT):
        for value in (np.nan, np.inf):
            got = function(hit(x, (2, i), value))
            assert np.isnan(got[2]).all(), (i, value)
            assert others_equal(got, plain, np.arange(5)[:, None] == np.full((1, COUNT), 2))
            got = function(np.ascontiguousarray(hit(x, (2, i), value).T), axis=0)
            assert np.isnan(got[:, 2]).all() and np.isfinite(got[:, [0, 1, 3, 4]]).all(), (i, value)
    rows = function(np.array([[0, -np.inf], [-np.inf, -np.inf], [1, 1]], dtype))
    assert rows[0].tolist() == ([1, 0] if name == "softmax" else [0, -np.inf])
    assert np.isnan(rows[1]).all() and np.isfinite(rows[2]).all()


def test_softmax_backward_of_a_hidden_cell(dtype, backend):
    """A probability of 0 has gradient 0."""
    s = backend.softmax(np.array([[0, -np.inf, 1]], dtype))
    assert backend.softmax_backward(np.array([[1, 2, 3]], dtype), s, axis=-1)[0, 1] == 0


def test_logsumexp_of_infinities(dtype, backend):
    x = np.array([[-np.inf, -np.inf], [np.inf, 0], [0, -np.inf], [np.inf, np.inf]], dtype)
    assert backend.logsumexp(x, axis=1).tolist() == [-np.inf, np.inf, 0, np.inf]
    assert float(backend.logsumexp(np.zeros(0, dtype))) == -np.inf


@pytest.mark.parametrize("name", ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "logsumexp"])
def test_reductions_keep_nan(name, dtype, backend, eager):
    x = seeded(name).standard_normal(COUNT).astype(dtype)
    for b in (backend, eager):
        function = getattr(b, name)
        for i in range(COUNT):
            poisoned = hit(x, i)
            assert np.isnan(function(poisoned)), i
            columns = function(np.stack([poisoned, x], 1), axis=0)
            assert np.isnan(columns[0]) and not np.isnan(columns[1]), i
            rows = function(np.stack([poisoned, x]), axis=1)
            assert np.isnan(rows[0]) and not np.isnan(rows[1]), i
        long = np.tile(x, 3000)
        long[-1] = np.nan
        assert np.isnan(function(long))


def test_argmax(dtype, backend):
    """The first of equals; the first NaN wins."""
    x = seeded("argmax").standard_normal(COUNT).astype(dtype)
    for i in range(COUNT):
        j = (i + 9) % COUNT
        assert int(backend.argmax(hit(x, i))) == i
        assert int(backend.argmax(hit(hit(x, i), j))) == min(i, j)
        assert backend.argmax(hit(x, i)[:, None] * np.ones(3, dtype), axis=0).tolist() == [i] * 3
        assert int(backend.argmax(hit(np.zeros(COUNT, dtype), i, 5))) == i
        assert int(backend.argmax(np.full(i + 1, -np.inf, dtype))) == 0


def test_maxima_share_nothing(dtype, backend):
    """The gradient of a tie goes to the first, in row-major order."""
    x = np.array([[1, 3, 3], [3, 0, 3]], dtype)
    assert backend.reduce_max_backward(np.ones((), dtype), x).tolist() == [[0, 1, 0], [0, 0, 0]]
    assert backend.reduce_max_backward(np.ones(3, dtype), x, axis=0).tolist() == [[0, 1, 1], [1, 0, 0]]
    assert backend.reduce_min_backward(np.ones(2, dtype), -x, axis=1).tolist() == [[0, 1, 0], [1, 0, 0]]
    nan = np.array([1, np.nan, 3, np.nan], dtype)
    assert backend.reduce_max_backward(np.ones((), dtype), nan)[[0, 1, 2, 3]].tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    "name", ["max_pool1d", "max_pool1d_with_indices", "avg_pool1d", "adaptive_max_pool1d", "adaptive_avg_pool1d"]
)
def test_windows_keep_nan(name, dtype, backend):
    """A NaN reaches every window that sees it, at any place, and no other."""
    x = seeded(name).standard_normal((1, 3, COUNT)).astype(dtype)
    if name.startswith("adaptive"):
        args, options = (13,), {}
        spans = [(k * COUNT // 13, -(-(k + 1) * COUNT // 13)) for k in range(13)]
    else:
        args, options = (3,), {"stride": 2, "padding": 1}
        spans = [(2 * k - 1, 2 * k + 2) for k in range(34)]
    function = getattr(backend, name)
    plain = parts(function(x, *args, **options))[0]
    for i in range(COUNT):
        got = parts(function(hit(x, (0, 1, i)), *args, **options))
        seen = np.zeros(plain.shape, bool)
        seen[0, 1] = [low <= i < high for low, high in spans]
        assert np.isnan(got[0][seen]).all() and others_equal(got[0], plain, seen), i
        if len(got) > 1:
            assert (got[1][seen] == i).all(), i


def test_max_pool_of_minus_infinity(dtype, backend):
    """A cell of the padding never wins, and an index is always a cell."""
    low = np.full((1, 1, 9), -np.inf, dtype)
    got = backend.max_pool1d_with_indices(low, 3, padding=1, stride=1)
    assert (got.output == -np.inf).all()
    assert got.indices.reshape(-1).tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 7]
    plane = np.full((1, 2, 5, 6), -np.inf, dtype)
    got = backend.max_pool2d_with_indices(plane, 3, padding=1, stride=2)
    assert got.indices[0, 0].tolist() == [[0, 1, 3], [6, 7, 9], [18, 19, 21]]


def test_products_with_nan_and_infinity(dtype, backend, eager):
    """0·NaN and 0·inf are NaN, in any column of any tile."""
    for b in (backend, eager):
        for i in range(COUNT):
            got = b.matmul(hit(np.zeros((3, COUNT), dtype), (1, i)), np.zeros((COUNT, 5), dtype))
            assert np.isnan(got[1]).all() and (got[[0, 2]] == 0).all(), i
            got = b.matmul(np.zeros((3, COUNT), dtype), hit(np.zeros((COUNT, 5), dtype), (i, 2), np.inf))
            assert np.isnan(got[:, 2]).all() and (got[:, [0, 1, 3, 4]] == 0).all(), i


def test_padding_is_skipped(dtype, backend, eager):
    """A NaN or infinite weight over the padding does not matter, and is not lost over a cell."""
    for b in (backend, eager):
        for special in (np.nan, np.inf):
            w = np.ones((1, 2, 3), dtype)
            w[0, 0, 0] = special
            got = b.conv1d(np.ones((1, 2, 9), dtype), w, padding=1)
            assert got[0, 0, 0] == 4 and not np.isfinite(got[0, 0, 1:]).any()
            for channels, groups in ((1, 1), (16, 1), (8, 8)):
                w = np.ones((channels, channels // groups, 3, 3), dtype)
                w[0, 0, 0, 1] = special
                got = b.conv2d(np.ones((2, channels, 20, 21), dtype), w, padding=1, groups=groups)
                inner = 6 * (channels // groups)
                assert (got[:, 0, 0, 1:-1] == inner).all() and not np.isfinite(got[:, 0, 1:]).any()
                if channels > 1:
                    assert np.isfinite(got[:, 1:]).all()
                got = b.conv2d(
                    np.ones((2, 20, 21, channels), dtype), w.transpose(2, 3, 1, 0), padding=1, groups=groups, layout="NHWC"
                )
                assert (got[:, 0, 1:-1, 0] == inner).all() and not np.isfinite(got[:, 1:, :, 0]).any()
            g = np.zeros((1, 1, 9), dtype)
            grad = b.conv1d_weight_backward(
                hit(np.zeros((1, 2, 9), dtype), (0, 0, 0), special), np.ones((1, 2, 3), dtype), g, padding=1
            )
            assert np.isnan(grad[0, 0, :2]).all() and grad[0, 0, 2] == 0 and (grad[0, 1] == 0).all()


def test_cross_entropy_of_hidden_classes(dtype, backend):
    """A class at -inf costs nothing unless it is the label."""
    logits = np.array([[0, -np.inf, 0], [0, -np.inf, 0]], dtype)
    losses = backend.cross_entropy(logits, np.array([0, 1]), reduction="none")
    assert abs(losses[0] - math.log(2)) < 1e-6 and losses[1] == np.inf
    grad = backend.cross_entropy_backward(np.ones(2, dtype), logits, np.array([0, 0]), reduction="none")
    assert np.allclose(grad, [[-0.5, 0, 0.5]] * 2)


# ---------------------------------------------------------------- subnormals and the floating-point mode


def test_subnormals(dtype, backend):
    info = np.finfo(dtype)
    v = np.full(4099, info.tiny / 8, dtype)
    half, two, one = np.full_like(v, 0.5), np.full_like(v, 2), np.ones_like(v)
    for name, got, want in (
        ("relu", backend.relu(v), v), ("add", backend.add(v, v), v * 2), ("sub", backend.sub(v, half), -half),
        ("mul", backend.mul(v, half), v / 2), ("neg", backend.neg(v), -v),
        ("abs", backend.abs(-v), v), ("leaky_relu", backend.leaky_relu(-v, negative_slope=0.5), -v / 2),
        ("maximum", backend.maximum(v, -v), v), ("div", backend.div(v, two), v / 2),
        ("tanh", backend.tanh(v), v), ("expm1", backend.expm1(v), v), ("log1p", backend.log1p(v), v),
        ("relu_backward", backend.relu_backward(v, one), v),
        ("softsign", backend.softsign(v), v), ("elu", backend.elu(-v), -v), ("silu", backend.silu(v), v / 2),
        ("reduce_max", backend.reduce_max(v, keepdims=True), v[:1]),
        ("max_pool1d", backend.max_pool1d(v.reshape(1, 1, -1), 3)[0, 0], v[:1366]),
    ):  # fmt: skip
        assert np.asarray(got).tobytes() == want.astype(dtype).tobytes(), name
    low = -100 if dtype == "float32" else -740
    got = backend.exp(np.full(COUNT, low, dtype))
    assert (got > 0).all() and (got < info.tiny).all()
    least = info.smallest_subnormal
    assert float(backend.reduce_sum(np.full(3, least, dtype))) == 3 * float(least)
    assert (backend.matmul(np.full((3, 1), info.tiny, dtype), np.full((1, 5), 0.25, dtype)) == info.tiny / 4).all()
    assert (backend.conv1d(np.full((1, 1, 40), info.tiny, dtype), np.full((1, 1, 1), 0.25, dtype)) == info.tiny / 4).all()
    assert 0 < float(backend.softmax(np.array([[0, low]], dtype))[0, 1]) < info.tiny


def keeps_subnormals():
    return bool(
        (np.full(64, 1e-40, np.float32) * np.float32(0.5) != 0).all()
        and (np.full(64, 1e-310) * 0.5 != 0).all()
        and 5e-324 / 1 != 0
    )


MODE = """
import threading
import numpy as np
from test_nan import keeps_subnormals, in_a_thread
assert keeps_subnormals() and in_a_thread()
import cpuops
from support import Eager
for backend in (cpuops.CpuBackend(), Eager(3)):
    x = np.linspace(-1, 1, 5000, dtype=np.float32)
    assert (backend.add(np.full(9, 1e-45, np.float32), np.zeros(9, np.float32)) == np.float32(1e-45)).all()
    assert (backend.relu(np.full(9, 5e-324)) == 5e-324).all()
    backend.gelu(x), backend.softmax(x[None]), backend.matmul(x[:64].reshape(8, 8), x[:64].reshape(8, 8))
    assert keeps_subnormals() and in_a_thread()
print("kept")
"""


def in_a_thread():
    found = []
    worker = threading.Thread(target=lambda: found.append(keeps_subnormals()))
    worker.start()
    worker.join()
    return found[0]


def test_the_floating_point_mode_is_left_alone():
    import os

    import cpuops

    path = [os.path.dirname(__file__), os.path.dirname(os.path.dirname(cpuops.__file__))]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run([sys.executable, "-c", MODE], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.strip() == "kept", done.stderr[-800:]


def test_no_floating_point_warning_leaks(backend):
    """Kernels raise no flag that NumPy would report in a later, innocent call."""
    x = np.array([-1.0, 0.0, np.inf, np.nan, 1e308] * 20)
    with np.errstate(all="raise"):
        backend.log(x), backend.exp(x), backend.mul(x, x), backend.sqrt(x), backend.softmax(x[None])
        np.add(np.ones(20), np.ones(20))
