"""Operands however they lie in memory give the bits of their contiguous copies, and are left as they were."""

import array

import numpy as np
import pytest
from process import run
from support import LAYOUTS, Failures, different_bits, result_of, seeded
from table.base import parts


def snapshot(call):
    return {
        k: (v.tobytes(), None if v.base is None or not isinstance(v.base, np.ndarray) else v.base.tobytes())
        for k, v in call.arrays.items()
    }


def compare(failures, method, call, wanted, layout, backends, which=None):
    change = LAYOUTS[layout]
    turned = call.map(lambda k, v: change(v) if which in (None, k) else v)
    what = f"{method}{call}, {layout}{'' if which is None else ' ' + which}"
    if layout.endswith("repeated"):
        wanted = result_of(failures, what, turned.map(lambda _, v: v.copy()).on, backends[0], method)
    before = snapshot(turned)
    for backend in backends:
        got = result_of(failures, f"{what} on {backend!r}", turned.on, backend, method)
        if got is not None and wanted is not None:
            message = different_bits(wanted, got)
            failures.check(message is None, f"{what} on {backend!r}: {message}")
    failures.check(snapshot(turned) == before, f"{what}: an operand was changed")


def test_layouts(row, dtype, serial, eager):
    failures = Failures()
    rng = seeded("layouts", row.name)
    calls = [c for c in row.calls(rng) if all(a.size < 3000 for a in c.arrays.values())]
    for call in calls[:: max(1, len(calls) // 10)]:
        call = call.cast(dtype)
        before = snapshot(call)
        results = result_of(failures, f"{row.name}{call}", lambda call=call: parts(call.on(serial, row.name)))
        if results is None:
            continue
        failures.check(snapshot(call) == before, f"{row.name}{call}: an operand was changed")
        output_grad = np.asarray(rng.standard_normal(results[0].shape), dtype)
        todo = [(row.name, call, results)]
        for gradient, gcall in row.gradient_calls(call, results, output_grad):
            before = snapshot(gcall)
            grads = result_of(failures, f"{gradient.name}{gcall}", gcall.on, serial, gradient.name)
            failures.check(snapshot(gcall) == before, f"{gradient.name}{gcall}: an operand was changed")
            if grads is not None:
                todo.append((gradient.name, gcall, parts(grads)))
        for method, its_call, wanted in todo:
            for layout in LAYOUTS:
                compare(failures, method, its_call, wanted, layout, (serial, eager))
            for i, name in enumerate(its_call.arrays):
                for layout in ("negative", "apart", "other_byte_order", "swapped_axes")[i % 2 :: 2]:
                    compare(failures, method, its_call, wanted, layout, (serial,), name)
    failures.raise_any()


class Array:
    """Something with __array__ only."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values


class DLPack:
    """Something with __dlpack__ only."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class Subclass(np.ndarray):
    pass


WRAPPERS = {
    "memoryview": memoryview,
    "bytearray": lambda a: np.frombuffer(bytearray(a.tobytes()), a.dtype).reshape(a.shape),
    "__array__": Array,
    "__dlpack__": DLPack,
    "subclass": lambda a: a.view(Subclass),
    "matrix": lambda a: np.asmatrix(a),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_array_likes(wrapper, dtype, backend):
    """Whatever np.asarray takes without copying serves as an operand; the result is a plain array."""
    wrap = WRAPPERS[wrapper]
    x = np.arange(-6, 6).reshape(3, 4).astype(dtype)
    w = np.arange(8).reshape(4, 2).astype(dtype) / 8
    for call in (
        lambda f: backend.relu(f(x)),
        lambda f: backend.matmul(f(x), f(w)),
        lambda f: backend.softmax(f(x)),
        lambda f: backend.linear_backward(f(x), f(w), f(np.ones((3, 2), dtype))).weight_grad,
        lambda f: backend.add(f(x), 2.5),
    ):
        plain, wrapped = call(lambda a: a), call(wrap)
        assert type(wrapped) is np.ndarray
        assert different_bits(plain, wrapped) is None


def test_array_of_the_standard_library(backend):
    assert backend.relu(array.array("d", [1.0, -2.0, 3.0])).tolist() == [1, 0, 3]
    assert backend.embedding(np.eye(3), array.array("q", [2, 0])).tolist() == [[0, 0, 1], [1, 0, 0]]


def test_scalars_in_a_pair(dtype, backend):
    """A Python number beside an array takes the array's dtype, on either side."""
    x = np.linspace(-2, 2, 9).astype(dtype)
    for number in (3, -0.1, True and 1, np.inf):
        typed = x.dtype.type(number)
        for name in ("add", "sub", "mul", "div", "maximum", "minimum"):
            function = getattr(backend, name)
            full = np.full_like(x, typed)
            with np.errstate(all="ignore"):
                assert different_bits(function(x, number), function(x, full)) is None, (name, number)
                assert different_bits(function(number, x), function(full, x)) is None, (name, number)


def test_products_of_every_height_from_either_layout(dtype, serial):
    """Panels of every width are packed, from rows and from columns, to the same bits."""
    rng = seeded("heights", dtype)
    for m in (*range(1, 33), 57, 127, 128, 143):
        for k, n in ((1, 1), (17, 40), (400, 7)):
            x, g = rng.standard_normal((k, m)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
            got = serial.matmul(x.T, g)
            np.testing.assert_allclose(got, x.T.astype(float) @ g.astype(float), rtol=0, atol=k * 4 * np.finfo(dtype).eps)
            assert got.tobytes() == serial.matmul(np.ascontiguousarray(x.T), g).tobytes()


def test_very_many_rows_of_nothing():
    """2^33 rows without a cell end at once: a walk over the rows of these four would outlast the process's time."""
    run("""
        x = np.empty((2**33, 0), "f4")
        for b in (CpuBackend(), ThreadedCpuBackend(2)):
            for result in (b.softmax(x), b.log_softmax(x), b.softmax_backward(x, x), b.log_softmax_backward(x, x)):
                assert result.shape == x.shape
    """)


@pytest.mark.parametrize("columns", [48, 67, 448])
def test_where_a_cache_line_begins(dtype, serial, eager, columns):
    """A product reads the right operand where it is: its rows begin anywhere in a line, and what lies around them does not matter."""
    rng = seeded("line", dtype, columns)
    lhs = rng.standard_normal((17, 800)).astype(dtype)
    rhs = rng.standard_normal((800, columns)).astype(dtype)
    bias = rng.standard_normal(columns).astype(dtype)
    want = serial.linear(lhs, rhs, bias)
    assert np.allclose(want, lhs.astype(np.float64) @ rhs + bias, rtol=1e-3, atol=1e-3)
    for start in range(64 // rhs.itemsize + 1):
        around = np.full(rhs.size + 128, np.nan, dtype)
        moved = around[start : start + rhs.size].reshape(rhs.shape)
        moved[:] = rhs
        for rows in (3, 9, 15, 17):
            for backend in (serial, eager):
                got = backend.linear(lhs[:rows], moved, bias)
                assert got.tobytes() == want[:rows].tobytes(), (start, rows, backend)
