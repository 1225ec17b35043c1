"""The rules of out=: the array given is the one returned, filled, and nothing around it is touched; refusals write nothing."""

import numpy as np
import pytest
from support import Failures, Mine, different_bits, result_of, seeded
from table.base import parts

import cpuops

GUARD = 16
POISON = 123


def one_array_methods(row, call, backend, rng):
    """(method, call, operands that out may be) of those methods that return one array."""
    results = parts(call.on(backend, row.name))
    output_grad = np.asarray(rng.standard_normal(results[0].shape), np.float32)
    found = [] if row.result else [(row.name, call, row.inplace)]
    for gradient, gcall in row.gradient_calls(call, results, output_grad):
        if len(gradient.gives) == 1:
            found.append((gradient.name, gcall, tuple(gcall.args) if row.elementwise else ()))
    return found


def chosen(row):
    rng = seeded("out", row.name)
    calls = [c for c in row.calls(rng) if all(a.size > 2 for a in c.arrays.values())]
    return [c.cast(np.float32) for c in calls[:: max(1, len(calls) // 6)]], rng


def guarded(shape, dtype):
    """(whole block, C-contiguous array in the midst of it, off every alignment but its own)."""
    size = int(np.prod(shape))
    fill = np.nan if np.dtype(dtype).kind == "f" else POISON
    block = np.full(size + 2 * GUARD, fill, dtype)
    return block, block[GUARD - 3 : GUARD - 3 + size].reshape(shape)


def untouched(block, size):
    around = np.concatenate([block[: GUARD - 3], block[GUARD - 3 + size :]])
    return bool(np.isnan(around).all()) if block.dtype.kind == "f" else bool((around == POISON).all())


def test_out_is_filled_and_returned(row, backend):
    failures = Failures()
    calls, rng = chosen(row)
    for call in calls:
        for method, its_call, _ in result_of(failures, str(call), one_array_methods, row, call, backend, rng) or []:
            want = its_call.on(backend, method)
            block, out = guarded(want.shape, want.dtype)
            got = result_of(failures, f"{method}{its_call}", its_call.on, backend, method, out=out)
            failures.check(got is out, f"{method}: another object than out came back")
            message = different_bits(want, out)
            failures.check(message is None, f"{method}{its_call} with out=: {message}")
            failures.check(untouched(block, want.size), f"{method}{its_call}: cells around out were written")
    if any(not r for r in (row.result,)) or any(len(g.gives) == 1 for g in row.gradients):
        failures.raise_any()


def test_in_place(row, backend):
    """Elementwise: out may be an operand, whichever."""
    failures = Failures()
    calls, rng = chosen(row)
    for call in calls:
        for method, its_call, allowed in result_of(failures, str(call), one_array_methods, row, call, backend, rng) or []:
            want = its_call.on(backend, method)
            for name in allowed:
                value = its_call.args[name]
                if not isinstance(value, np.ndarray) or value.shape != want.shape:
                    continue
                own = value.copy()
                mine = its_call.map(lambda k, v, name=name, own=own: own if k == name else v)
                got = result_of(failures, f"{method}{its_call} into {name}", mine.on, backend, method, out=own)
                failures.check(got is own, f"{method}: another object than out came back")
                message = different_bits(want, own)
                failures.check(message is None, f"{method}{its_call} into {name}: {message}")
    failures.raise_any()


test_in_place.rows = lambda row: bool(row.inplace)


def refused(failures, what, method, its_call, backend, out, error, whole=None, **more):
    whole = out if whole is None else whole
    before = whole.tobytes() if isinstance(whole, np.ndarray) else repr(whole)
    try:
        its_call.on(backend, method, out=out)
        failures.check(False, f"{method}: out {what} was accepted")
    except error as refusal:
        text = str(refusal)
        failures.check("out" in text and method in text, f"{method}, out {what}: the message names not both: {text}")
    except Exception as other:
        failures.check(False, f"{method}, out {what}: {type(other).__name__}: {other}")
    after = whole.tobytes() if isinstance(whole, np.ndarray) else repr(whole)
    failures.check(before == after, f"{method}: out {what} was written")


def test_refusals(row, backend):
    failures = Failures()
    shape_error, dtype_error, argument_error = cpuops.ShapeError, cpuops.DTypeError, cpuops.ArgumentError
    calls, rng = chosen(row)
    for call in calls[:3]:
        for method, its_call, allowed in result_of(failures, str(call), one_array_methods, row, call, backend, rng) or []:
            want = its_call.on(backend, method)
            fresh = np.full(want.shape, POISON, want.dtype)

            def no(what, out, error, whole=None, method=method, its_call=its_call):
                refused(failures, what, method, its_call, backend, out, error, whole)

            no("with an axis more", np.full((*want.shape, 1), POISON, want.dtype), shape_error)
            no("that is longer", np.full(want.size + 1, POISON, want.dtype), shape_error)
            other = np.float64 if want.dtype != np.float64 else np.float32
            no("of another dtype", fresh.astype(other), dtype_error)
            no("in the other byte order", fresh.astype(want.dtype.newbyteorder("S")), (dtype_error, argument_error))
            no("that is a list", [1.0, 2.0], (argument_error, dtype_error))
            no("that is a number", 1.0, (argument_error, dtype_error))
            frozen = fresh.copy()
            frozen.setflags(write=False)
            no("that is read-only", frozen, argument_error)
            raw = np.zeros(fresh.nbytes + 1, np.uint8)
            no("that is misaligned", raw[1:].view(want.dtype).reshape(want.shape), argument_error, raw)
            if want.ndim and want.shape[-1] > 1:
                wide = np.full((*want.shape[:-1], 2 * want.shape[-1]), POISON, want.dtype)
                no("with gaps", wide[..., ::2], argument_error, wide)
            if want.ndim > 1 and min(want.shape) > 1:
                no("in Fortran order", np.asfortranarray(fresh), argument_error)
            for name, value in its_call.arrays.items():
                if value.dtype != want.dtype or min(want.size, value.size) < 2:
                    continue
                block = np.zeros(max(value.size, want.size) + 1, value.dtype)
                operand = block[: value.size].reshape(value.shape)
                operand[...] = value
                overlapping = its_call.map(lambda k, v, name=name, operand=operand: operand if k == name else v)
                no(
                    f"that overlaps {name}",
                    block[1 : 1 + want.size].reshape(want.shape),
                    argument_error,
                    block,
                    its_call=overlapping,
                )
                if name not in allowed and value.shape == want.shape:
                    own = value.copy()
                    same = its_call.map(lambda k, v, name=name, own=own: own if k == name else v)
                    no(f"that is {name} itself", own, argument_error, its_call=same)
    if not row.result or any(len(g.gives) == 1 for g in row.gradients):
        failures.raise_any()


def test_out_is_keyword_only(row, serial):
    import inspect

    for method in row.methods():
        parameters = inspect.signature(getattr(serial, method)).parameters
        several = bool(row.result) if method == row.name else len(next(g for g in row.gradients if g.name == method).gives) > 1
        if several:
            assert "out" not in parameters, f"{method} returns several arrays and has out="
        else:
            assert parameters["out"].kind is inspect.Parameter.KEYWORD_ONLY and parameters["out"].default is None, method
            assert list(parameters)[-1] == "out", f"{method}: out= is not the last"


def test_embedding_gradient_is_added_to_out(dtype, backend):
    """With `accumulate` the rows that no index names are not written, the others as if out had been a first gradient."""
    rng = seeded("accumulate", dtype)
    for v, d, n in ((7, 5, 40), (300, 33, 500), (2000, 130, 90), (3, 0, 2), (5, 4, 0)):
        weights, indices = np.zeros((v, d), dtype), rng.integers(0, v, n)
        grads = np.asarray(rng.standard_normal((2, n, d)), dtype)
        block, out = guarded((v, d), dtype)
        out[...] = np.inf
        out[np.unique(indices)] = 0
        assert backend.embedding_backward(weights, grads[0], indices, accumulate=True, out=out) is out
        first = backend.embedding_backward(weights, grads[0], indices)
        unnamed = np.setdiff1d(np.arange(v), indices)
        assert np.isinf(out[unnamed]).all() and untouched(block, out.size)
        out[unnamed] = 0
        assert out.tobytes() == first.tobytes()
        both = backend.embedding_backward(weights, np.concatenate([*grads]), np.concatenate([indices, indices]))
        default = cpuops.BackwardOps.embedding_backward(Mine(), weights, grads[1], indices, accumulate=True, out=out.copy())
        backend.embedding_backward(weights, grads[1], indices, accumulate=True, out=out)
        assert out.tobytes() == both.tobytes() == default.tobytes()


def test_a_table_beyond_the_caches_is_cleared(backend):
    """Zeros then go past the caches, in whole lines between two ends."""
    weights, indices = np.zeros((300_001, 7), np.float32), np.array([0, 300_000, 5])
    block, out = guarded(weights.shape, weights.dtype)
    backend.embedding_backward(weights, np.ones((3, 7), np.float32), indices, out=out)
    assert untouched(block, out.size) and (out[indices] == 1).all() and out.sum() == 21


def test_nothing_to_accumulate_into(backend):
    operands = np.zeros((3, 2)), np.ones((1, 2)), np.array([0])
    for flag in (True, 1, None, "yes"):
        with pytest.raises(cpuops.ArgumentError, match=r"embedding_backward.*accumulate"):
            backend.embedding_backward(*operands, accumulate=flag)
    out = np.zeros((3, 2))
    with pytest.raises(cpuops.IndexRangeError):
        backend.embedding_backward(*operands[:2], np.array([3]), accumulate=True, out=out)
    assert not out.any()
