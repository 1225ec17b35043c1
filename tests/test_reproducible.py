"""The same bits at any thread count, in any run, in any layout; elementwise: at any place and length."""

import threading

import numpy as np
import pytest
from support import LAYOUTS, Eager, Failures, Recording, canonical, different_bits, result_of, seeded
from table import ROWS
from table.base import parts

import cpuops

THREADS = (1, 2, 3, 7)


def with_gradients(row, call, backend, rng):
    """(method, call) of the operation and of its gradients."""
    results = parts(call.on(backend, row.name))
    output_grad = np.asarray(
        rng.standard_normal(results[0].shape), results[0].dtype if results[0].dtype.kind == "f" else np.float32
    )
    return [(row.name, call), *((g.name, c) for g, c in row.gradient_calls(call, results, output_grad))]


def test_threads(row, dtype, serial):
    """Sizes that are worth several threads: serial bits at 1, 2, 3 and 7, and for operands with gaps."""
    failures = Failures()
    rng = seeded("threads", row.name)
    backends = [Recording(n) for n in THREADS]
    threaded = set()
    for call in row.large(rng):
        call = call.cast(dtype)
        for method, its_call in with_gradients(row, call, serial, rng):
            what = f"{method}{its_call}"
            want = result_of(failures, what, its_call.on, serial, method)
            if want is None:
                continue
            for backend in backends:
                backend.worth.clear()
                got = result_of(failures, what, its_call.on, backend, method)
                if got is None:
                    continue
                message = different_bits(want, got)
                failures.check(message is None, f"{what} on {backend.num_threads} threads: {message}")
                threaded |= {method} if any(backend.worth) else set()
            apart = its_call.map(lambda _, v: LAYOUTS["apart"](v))
            got = result_of(failures, what, apart.on, backends[2], method)
            message = None if got is None else different_bits(want, got)
            failures.check(message is None, f"{what} with gaps, threaded: {message}")
    failures.raise_any()
    left = set(row.methods()) - threaded
    assert not left, f"none of the large calls is worth a second thread: {sorted(left)}"


def test_runs(row, serial):
    """Again and again, on one backend and on a new one, with memory that other calls have used."""
    failures = Failures()
    rng = seeded("runs", row.name)
    calls = [c.cast(np.float32) for c in row.calls(rng)]
    for call in calls[:: max(1, len(calls) // 6)]:
        found = result_of(failures, f"{row.name}{call}", with_gradients, row, call, serial, rng)
        for method, its_call in found or []:
            want = result_of(failures, f"{method}{its_call}", its_call.on, serial, method)
            if want is None:
                continue
            for backend in (serial, cpuops.CpuBackend(), Eager(2), Eager(7)):
                for _ in range(4):
                    message = different_bits(want, its_call.on(backend, method))
                    failures.check(message is None, f"{method}{its_call} on {backend!r}, again: {message}")
    failures.raise_any()


def strewn(dtype, rng, count):
    """Values of every size, with the special ones among them."""
    info = np.finfo(dtype)
    values = (rng.standard_normal(count) * rng.choice([1e-6, 0.3, 1, 5, 40, 300], count)).astype(dtype)
    tiny, least = info.tiny, info.smallest_subnormal
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        tiny,
        -tiny,
        least,
        -3 * least,
        info.max,
        info.min,
        info.eps,
        1,
        -1,
        0.5,
        88.5,
        -87,
        -103,
        709,
        -745,
        3,
        -3,
        6,
    ]
    values[rng.permutation(count)[: len(special)]] = special
    return values


def test_position(row, dtype, serial, eager):
    """The bits of f(x)[i] depend neither on i nor on the length nor on the address."""
    failures = Failures()
    rng = seeded("position", row.name, dtype)
    count = 96
    operands = 2 if "lhs" in row.differentiable else 1
    options = [{}, *{str(c.options): c.options for c in row.calls(rng) if c.options}.values()]
    methods = [(row.name, operands)] + [(g.name, len(g.takes.split())) for g in row.gradients]
    for method, arity in methods:
        columns = [strewn(dtype, rng, count) for _ in range(arity)]
        for more in options:

            def run(backend, arrays, method=method, more=more):
                return parts(getattr(backend, method)(*arrays, **more))

            whole = result_of(failures, method, run, serial, columns)
            if whole is None:
                continue
            for length in (*range(1, 70), 83):
                for start in (0, 1, 2, 3, 5, 8, 13)[: 7 if length < 34 else 2]:
                    part = [c[start : start + length] for c in columns]
                    for got, full in zip(run(serial, part), whole, strict=True):
                        same = canonical(got) == canonical(full[start : start + length])
                        failures.check(same, f"{method}{more}: other bits for [{start}:{start + length}]")
            many = [np.tile(c, 400) for c in columns]
            for backend in (serial, eager):
                for got, full in zip(run(backend, many), whole, strict=True):
                    failures.check(
                        canonical(got) == canonical(np.tile(full, 400)),
                        f"{method}{more}: other bits in a long array on {backend!r}",
                    )
            raw = [np.zeros(c.nbytes + 64, np.uint8) for c in columns]
            for shift in (1, 4, 8, 12, 20, 36):
                moved = [r[shift : shift + c.nbytes].view(dtype) for r, c in zip(raw, columns, strict=True)]
                for m, c in zip(moved, columns, strict=True):
                    m[...] = c
                for got, full in zip(run(serial, moved), whole, strict=True):
                    failures.check(canonical(got) == canonical(full), f"{method}{more}: other bits {shift} bytes further")
    failures.raise_any()


test_position.rows = lambda row: row.elementwise


# rows, terms, columns: edges in both directions, few rows, few columns, several chunks of the sum, long sums
PRODUCTS = ((129, 65, 200), (250, 100, 70), (15, 900, 333), (300, 800, 33), (100, 1300, 100), (40, 9000, 50))
# x, weight, groups: too large for other paths, in several images or groups
CONVOLUTIONS = (((3, 300, 20, 30), (450, 300, 1, 1), 1), ((2, 400, 9, 11), (400, 200, 2, 2), 2))


def same_on_threads(serial, calls):
    failures = Failures()
    for what, call in calls.items():
        want = call(serial)
        for threads in (2, 3, 5, 64):
            message = different_bits(want, call(Eager(threads)))
            failures.check(message is None, f"{what} on {threads} threads: {message}")
    failures.raise_any()


@pytest.mark.parametrize("shape", PRODUCTS, ids=str)
def test_products_in_parts(shape, dtype, serial):
    """Rectangles of a product, also at more threads than it has tiles in one direction."""
    m, k, n = shape
    rng = seeded("products", shape)
    lhs, rhs, bias = (rng.standard_normal(s).astype(dtype) for s in ((m, k), (k, n), (n,)))
    calls = {
        "rows": lambda b: b.matmul(lhs, rhs),
        "columns": lambda b: b.matmul(np.asfortranarray(lhs), np.asfortranarray(rhs)),
        "activation": lambda b: b.linear_activation(lhs, rhs, bias, activation="silu"),
    }
    same_on_threads(serial, calls)


@pytest.mark.parametrize(("x", "weight", "groups"), CONVOLUTIONS, ids=str)
def test_convolutions_in_parts(x, weight, groups, serial):
    """Rectangles of the products of several images or groups."""
    rng = seeded("convolutions", x)
    x, weight = (rng.standard_normal(s).astype(np.float32) for s in (x, weight))
    output_grad = rng.standard_normal(serial.conv2d(x, weight, groups=groups).shape).astype(np.float32)
    calls = {
        "forward": lambda b: b.conv2d(x, weight, groups=groups),
        "x": lambda b: b.conv2d_x_backward(x, weight, output_grad, groups=groups),
        "weight": lambda b: b.conv2d_weight_backward(x, weight, output_grad, groups=groups),
    }
    same_on_threads(serial, calls)


def test_python_threads():
    """Four Python threads on one backend, each at its own place in the same list of calls."""
    failures = Failures()
    for backend in (cpuops.CpuBackend(), Eager(3)):
        calls = []
        for name in ("gelu", "reduce_sum", "softmax", "matmul", "conv2d", "max_pool2d", "layer_norm", "batch_norm_train"):
            row, rng = ROWS[name], seeded("python threads", name)
            some = [c.cast(np.float32) for c in row.calls(rng)][3::17]
            for call in some:
                calls += with_gradients(row, call, backend, rng)
        wanted = [call.on(backend, method) for method, call in calls]

        def work(start, backend=backend, calls=calls, wanted=wanted):
            for step in range(2 * len(calls)):
                i = (start + step) % len(calls)
                method, call = calls[i]
                got = result_of(failures, method, call.on, backend, method)
                message = None if got is None else different_bits(wanted[i], got)
                failures.check(message is None, f"{method}{call} in a thread: {message}")

        workers = [threading.Thread(target=work, args=(7 * n,)) for n in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    failures.raise_any()
