"""Attention: what a row of the table cannot say: hidden NaN, memory, skipped work, layouts of masks."""

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from support import Failures, all_differences, different_bits, seeded

import cpuops


def draw(dtype, b, h, kv, sq, sk, e, ev):
    rng = seeded("attention", b, h, kv, sq, sk, e, ev)
    return tuple(rng.standard_normal(s).astype(dtype) for s in ((b, h, sq, e), (b, kv, sk, e), (b, kv, sk, ev)))


# few rows and many; several tiles and panels, with tails
SHAPES = [(1, 2, 1, 1, 150, 5, 6), (1, 2, 2, 3, 9, 17, 33), (2, 2, 1, 40, 150, 8, 5), (1, 1, 1, 140, 140, 16, 16)]


def everything(backend, q, k, v, mask, bias, **options):
    """Output, logsumexp and all gradients."""
    output, logsumexp = backend.attention_with_logsumexp(q, k, v, mask, bias, **options)
    g = seeded("gradient").standard_normal(output.shape).astype(q.dtype)
    grads = backend.attention_backward(q, k, v, output, logsumexp, g, mask, bias, bias_grad=bias is not None, **options)
    return (output, logsumexp, *grads)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_hidden_keys_may_hold_anything(shape, dtype, serial, eager):
    """NaN and infinities in a hidden key, its value or its bias change no bit, forward or backward."""
    failures = Failures()
    q, k, v = draw(dtype, *shape)
    b, h, _, sq, sk, _, _ = shape
    rng = seeded("hidden", shape)
    hidden = np.arange(sk) % 5 == 3
    by_key = np.broadcast_to(hidden, (1, 1, 1, sk))
    varied = (rng.random((b, h, sq, sk)) < 0.3) | hidden
    for mask in (by_key, varied, None):
        bias = rng.standard_normal((1, h, 1 if mask is by_key else sq, sk)).astype(dtype)
        if mask is None:
            bias[..., hidden] = -np.inf
        plain = everything(serial, q, k, v, mask, bias)
        for special in (np.nan, np.inf, -np.inf):
            k2, v2, bias2 = k.copy(), v.copy(), bias.copy()
            k2[:, :, hidden] = special
            v2[:, :, hidden] = special
            if mask is not None:
                bias2[..., hidden] = special
            for backend in (serial, eager):
                found = everything(backend, q, k2, v2, mask, bias2)
                close = all_differences(found, plain, [np.abs(p).max(initial=1) for p in plain[:2]] + [10] * 4, 1e-5, dtype)
                failures.check(close is None, f"{special} where {'bias' if mask is None else mask.shape} hides: {close}")
    failures.raise_any()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_keys_beyond_the_causal_limit_may_hold_anything(shape, dtype, serial):
    failures = Failures()
    q, k, v = draw(dtype, *shape)
    sq, sk = shape[3:5]
    plain = everything(serial, q, k, v, None, None, is_causal=True, causal_alignment="top_left")
    for special in (np.nan, np.inf):
        k2, v2 = k.copy(), v.copy()
        last = min(sq, sk) - 1  # only the last queries see it
        k2[:, :, last:], v2[:, :, last:] = special, special
        found = everything(serial, q, k2, v2, None, None, is_causal=True, causal_alignment="top_left")
        for got, want in zip(found[:3], plain[:3], strict=True):
            close = np.allclose(got[:, :, :last], want[:, :, :last], rtol=1e-4, atol=1e-5)
            failures.check(close, f"{special} in key {last} reached queries before it")
            failures.check(last >= sk or np.isnan(got[:, :, last:]).any() or got is found[1], f"{special} in key {last} was lost")
    failures.raise_any()


def test_queries_that_see_nothing_may_hold_anything(dtype, serial, eager):
    """Output 0, logsumexp -inf, gradients 0, though query, output_grad and output are NaN there; other rows as if it was not."""
    for sq in (2, 3, 40):
        q, k, v = draw(dtype, 1, 2, 1, sq, 20, 6, 7)
        mask = np.zeros((1, 2, sq, 1), bool)
        mask[:, 1, 1] = True
        for backend in (serial, eager):
            output, logsumexp = backend.attention_with_logsumexp(q, k, v, mask)
            assert (output[:, 1, 1] == 0).all() and (logsumexp[:, 1, 1] == -np.inf).all() and np.isfinite(output).all()
            g = np.ones_like(output)
            plain = backend.attention_backward(q, k, v, output, logsumexp, g, mask)
            assert all(np.isfinite(a).all() for a in plain) and (plain.query_grad[:, 1, 1] == 0).all()
            q2, g2 = q.copy(), g.copy()
            q2[:, 1, 1], g2[:, 1, 1] = np.nan, np.nan
            again = backend.attention_with_logsumexp(q2, k, v, mask)
            assert different_bits(again, (output, logsumexp)) is None
            found = backend.attention_backward(q2, k, v, output, logsumexp, g2, mask)
            for a, b in zip(found, plain, strict=True):
                assert np.allclose(a, b, rtol=1e-4, atol=1e-5)


def test_nan_that_is_seen_stays(dtype, backend):
    """A NaN goes to the queries that see it, and to no other."""
    for sq in (2, 40):
        for which in range(3):
            operands = list(draw(dtype, 1, 1, 1, sq, 150, 5, 6))
            operands[which] = operands[which].copy()
            operands[which][0, 0, 1, 2] = np.nan
            output = backend.attention(*operands)
            rows = np.isnan(output).any(-1)[0, 0]
            assert rows[1] and rows.sum() == (1 if which == 0 else sq)
            assert which != 2 or np.isnan(output).any((0, 1, 2)).tolist() == [False, False, True, False, False, False]


def test_scores_of_minus_infinity_are_no_mask(dtype, backend):
    """-inf that the data makes is a number like another: all of a row's scores -inf is NaN, one of them is 0."""
    for sq in (1, 40):
        q = np.ones((1, 1, sq, 1), dtype)
        k = np.array([-np.inf, -np.inf], dtype).reshape(1, 1, 2, 1)
        v = np.ones((1, 1, 2, 3), dtype)
        assert np.isnan(backend.attention(q, k, v)).all()
        k[0, 0, 1] = 2
        assert (backend.attention(q, k, v) == 1).all()


def test_masks_are_read_where_they_are(dtype, serial):
    """Broadcast by strides, negative ones, slices of a larger array, and fewer than four axes: one answer."""
    q, k, v = draw(dtype, 2, 4, 2, 37, 70, 8, 8)
    rng = seeded("masks")
    mask = rng.random((37, 70)) < 0.4
    bias = rng.standard_normal((4, 37, 70)).astype(dtype)
    wanted = everything(serial, q, k, v, np.ascontiguousarray(np.broadcast_to(mask, (2, 4, 37, 70))), bias)
    wide = np.zeros((80, 150), bool)
    wide[72 - 2 * np.arange(37)[:, np.newaxis], 149 - 2 * np.arange(70)] = mask
    for m in (mask, mask[np.newaxis], np.broadcast_to(mask, (2, 4, 37, 70)), wide[72::-2, ::-2][:37, :70], np.asfortranarray(mask)):
        for a in (bias, np.asfortranarray(bias), bias[::-1].copy()[::-1]):
            assert different_bits(everything(serial, q, k, v, m, a), wanted) is None


def test_the_gradient_of_a_broadcast_bias_has_its_shape(dtype, serial):
    q, k, v = draw(dtype, 2, 4, 2, 5, 7, 3, 3)
    for shape in ((), (7,), (5, 1), (4, 1, 1), (1, 4, 5, 7), (2, 1, 1, 7), (1, 1, 1, 1)):
        bias = seeded(shape).standard_normal(shape).astype(dtype)
        grads = everything(serial, q, k, v, None, bias)
        assert grads[5].shape == shape
    assert serial.attention_backward(q, k, v, *grads[:2], grads[0], bias_grad=True).bias_grad is None


def test_there_is_a_gradient(backend):
    assert backend.has_attention_backward() is True


MEMORY = """
import resource, sys
import numpy as np, cpuops
length = int(sys.argv[1])
backend = cpuops.ThreadedCpuBackend(2)
rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal((1, 1, length, 8), dtype=np.float32) for _ in range(3))
bias = rng.standard_normal((1, 1, 1, length), dtype=np.float32)
backend.attention(q[:, :, :300], k[:, :, :300], v[:, :, :300])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
output, logsumexp = backend.attention_with_logsumexp(q, k, v, None, bias, is_causal=True)
grads = backend.attention_backward(q, k, v, output, logsumexp, output, None, bias, is_causal=True, bias_grad=True)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss counts other units elsewhere")
def test_memory_grows_with_the_length():
    """At 16,384 the scores would be 1 GB; resident memory grows by less than 40 MB, forward and backward."""
    path = os.path.dirname(os.path.dirname(cpuops.__file__))
    env = {**os.environ, "PYTHONPATH": path}
    run = [sys.executable, "-c", MEMORY, "16384"]
    done = subprocess.run(run, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-800:]
    assert int(done.stdout) < 40_000, done.stdout


def test_no_copy_of_keys_for_grouped_heads(serial):
    """Python allocates nothing of the size of repeated keys, broadcast masks or scores."""
    q, k, v = draw("float32", 1, 16, 1, 64, 20000, 8, 8)
    mask = np.zeros((1, 1, 1, 20000), bool)
    output = np.empty_like(q)
    serial.attention(q, k, v, mask, out=output)
    tracemalloc.start()
    serial.attention(q, k, v, mask, out=output)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < k.nbytes
