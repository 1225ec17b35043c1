"""Several results come as NamedTuples of cpuops.results, with the names and fields of the contract."""

import copy
import pickle

import numpy as np
import pytest
from support import seeded
from table import ROWS
from table.base import parts

import cpuops

SEVERAL = [(row.result, row.results) for row in ROWS.values() if row.result]
SEVERAL += [
    (g.result, g.fields or tuple(f"{n}_grad" for n in g.gives)) for row in ROWS.values() for g in row.gradients if len(g.gives) > 1
]


@pytest.mark.parametrize(("name", "fields"), SEVERAL, ids=[name for name, _ in SEVERAL])
def test_fields(name, fields):
    kind = getattr(cpuops.results, name)
    assert issubclass(kind, tuple) and kind._fields == fields
    assert kind.__doc__ and not kind.__doc__.startswith(f"{name}("), f"{name} has no docstring of its own"
    value = kind(*range(len(fields)))
    assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
    assert type(pickle.loads(pickle.dumps(value))) is kind


def first_call(row):
    calls = [c for c in row.calls(seeded("results", row.name)) if all(a.size > 1 for a in c.arrays.values())]
    full = [c for c in calls if set(row.optional) <= {k for k, v in c.args.items() if v is not None}]
    return (full or calls)[0].cast(np.float32)


def test_types(row, backend):
    call = first_call(row)
    results = call.on(backend, row.name)
    assert type(results) is (getattr(cpuops.results, row.result) if row.result else np.ndarray)
    output_grad = np.ones(parts(results)[0].shape, np.float32)
    for gradient, gcall in row.gradient_calls(call, parts(results), output_grad):
        grads = gcall.on(backend, gradient.name)
        if len(gradient.gives) == 1:
            assert type(grads) is np.ndarray, gradient.name
        else:
            assert type(grads) is getattr(cpuops.results, gradient.result), gradient.name
        for name, grad in zip(gradient.gives, parts(grads), strict=True):
            if call.args.get(name) is not None:
                assert grad.shape == call.args[name].shape and grad.dtype == np.float32, (gradient.name, name)


def test_results_of_integers(backend):
    x = np.linspace(0, 1, 24, dtype=np.float32).reshape(1, 2, 12)
    assert backend.argmax(x, axis=2).dtype == np.int64
    for dtype in (np.int32, np.int64):
        assert backend.max_pool1d_with_indices(x, 2, indices_dtype=dtype).indices.dtype == dtype
        assert backend.adaptive_max_pool1d_with_indices(x, 3, indices_dtype=dtype).indices.dtype == dtype
    assert backend.max_pool1d_with_indices(x, 2).indices.dtype == np.int64


def test_bias_grad_is_none_when_not_asked_for(backend):
    for n in (1, 2, 3):
        x, w = np.ones((1, 2, *[4] * n)), np.ones((3, 2, *[2] * n))
        grads = getattr(backend, f"conv{n}d_backward")(x, w, np.ones((1, 3, *[3] * n)), bias=False)
        assert grads.bias_grad is None and grads.x_grad.shape == x.shape


def test_empty_batches(row, dtype, backend):
    """Empty outputs; gradients of parameters are zeros."""
    calls = [
        c
        for c in row.calls(seeded("empty", row.name))
        if any(k in ("x", "lhs", "logits", "indices") and v.size == 0 and v.ndim and v.shape[0] == 0 for k, v in c.arrays.items())
    ]
    if not calls:
        pytest.skip("the operation has no batch axis that may be empty")
    for call in calls:
        call = call.cast(dtype)
        results = parts(call.on(backend, row.name))
        output_grad = np.ones(results[0].shape, dtype)
        for gradient, gcall in row.gradient_calls(call, results, output_grad):
            for name, grad in zip(gradient.gives, parts(gcall.on(backend, gradient.name)), strict=True):
                operand = call.args.get(name)
                if operand is not None:
                    assert grad.shape == operand.shape and not grad.any(), (gradient.name, name, str(call))
