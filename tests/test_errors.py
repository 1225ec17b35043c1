"""Bad calls are refused: by the right class, naming operation and argument, before anything is written."""

import re

import numpy as np
import pytest
from support import Failures
from table import common_refusals

import cpuops

LONGEST_MESSAGE = 2000


def names_one_of(text, words):
    return any(re.search(rf"(?<![A-Za-z0-9]){re.escape(w)}(?![a-z])", text) for w in words)


def judge(failures, row, bad, backend):
    method = bad.op or row.name
    what = f"{method}, {bad.why}"
    allowed = tuple(getattr(cpuops, name) for name in bad.errors.split())
    arrays = [v for v in bad.args if isinstance(v, np.ndarray) and v.dtype != object]
    before = [v.tobytes() for v in arrays]
    try:
        result = getattr(backend, method)(*bad.args, **bad.options)
        failures.check(False, f"{what}: accepted, returned {getattr(result, 'shape', type(result).__name__)}")
    except allowed as refusal:
        text = str(refusal)
        failures.check(re.search(rf"\b{method}\b", text), f"{what}: the message does not name the operation: {text}")
        failures.check(names_one_of(text, bad.names.split()), f"{what}: the message names none of {bad.names}: {text}")
        failures.check(len(text) < LONGEST_MESSAGE, f"{what}: a message of {len(text)} characters")
        failures.check(refusal.__cause__ is None or isinstance(refusal.__cause__, Exception), what)
    except Exception as other:
        failures.check(False, f"{what}: {type(other).__name__}, expected {bad.errors}: {str(other)[:200]}")
    failures.check(before == [v.tobytes() for v in arrays], f"{what}: an operand was changed")


def test_bad_calls(row, backend):
    failures = Failures()
    for bad in row.bad():
        judge(failures, row, bad, backend)
    if failures.count:
        failures.raise_any()


def test_bad_operands(row, backend):
    failures = Failures()
    for bad in common_refusals(row):
        judge(failures, row, bad, backend)
    failures.raise_any()


def one_array(row):
    return not row.result


def test_refusals_leave_out_alone(row, backend):
    """With an out= that would fit the good call."""
    call = next(c for c in row.calls(np.random.default_rng(0)) if all(v.size > 1 for v in c.arrays.values())).cast(np.float32)
    shape = np.shape(call.on(backend, row.name))
    failures = Failures()
    for bad in (*row.bad(), *common_refusals(row)):
        if bad.op not in ("", row.name):
            continue
        out = np.full(shape, 7, np.int64 if row.exact else np.float32)
        with pytest.raises(cpuops.KernelError):
            getattr(backend, row.name)(*bad.args, **{**bad.options, "out": out})
        failures.check((out == 7).all(), f"{row.name}, {bad.why}: out was written")
    failures.raise_any()


test_refusals_leave_out_alone.rows = one_array


def test_classes():
    for error, builtin in (
        (cpuops.ShapeError, ValueError),
        (cpuops.ArgumentError, ValueError),
        (cpuops.DTypeError, TypeError),
        (cpuops.IndexRangeError, IndexError),
    ):
        assert issubclass(error, cpuops.KernelError)
        assert issubclass(error, builtin)
        assert getattr(cpuops.errors, error.__name__) is error


def test_a_shape_message_says_given_and_expected(backend):
    with pytest.raises(cpuops.ShapeError, match=r"softmax_backward.*output_grad.*\(2, 4\).*\(2, 3\)"):
        backend.softmax_backward(np.ones((2, 4)), np.ones((2, 3)), axis=-1)


def test_a_dtype_message_says_what_to_cast(backend):
    with pytest.raises(cpuops.DTypeError, match=r"astype"):
        backend.matmul(np.ones((2, 2)), np.ones((2, 2), np.float32))


def test_unknown_options_are_refused(row, backend):
    for method in row.methods():
        with pytest.raises(TypeError):
            getattr(backend, method)(no_such_option=1)


def test_later_calls_are_unharmed(backend):
    """A refusal leaves nothing behind in a backend."""
    x = np.linspace(-1, 1, 77)
    before = backend.gelu(x)
    for _ in range(50):
        with pytest.raises(cpuops.KernelError):
            backend.gelu(x, approximate="?")
        with pytest.raises(cpuops.KernelError):
            backend.gelu([1.0])
    assert backend.gelu(x).tobytes() == before.tobytes()
