"""The loops of LSTM and GRU: kernels against the same in NumPy, whatever the rows, the threads, and what is kept."""

import numpy as np
import pytest
from support import seeded

import cpuops
from cpuops import autograd, nn
from cpuops.autograd import Var
from cpuops.errors import DTypeError, ShapeError
from cpuops.nn import _recurrence, _recurrence_loops


def lstm_sequence(*operands):
    """Both results as one: h of every step, and then the last c."""
    h, c = _recurrence.lstm_sequence(*operands)
    return autograd.concat([h, autograd.expand_dims(c, 0)])


KINDS = {
    "lstm": (lstm_sequence, ("projected", "h0", "c0", "w_hh"), 4),
    "gru": (_recurrence.gru_sequence, ("projected", "h0", "w_hh", "b_hh"), 3),
}
# steps, rows, width: one of each; tails; more rows than a task has; sums of several parts, and rows 2 KB apart
SIZES = [(1, 1, 1), (4, 3, 5), (3, 0, 4), (3, 70, 17), (2, 300, 3), (2, 5, 400), (2, 15, 512)]
TOLERANCE = {"float32": 2e-6, "float64": 4e-15}


class NoKernels:
    """Operations and gradients, but no Backend."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._inner, name)


def operands(kind, size, dtype):
    length, batch, n = size
    gates = KINDS[kind][2]
    rng = seeded(kind, size)
    shapes = {"projected": (length, batch, gates * n), "h0": (batch, n), "c0": (batch, n), "w_hh": (n, gates * n), "b_hh": (gates * n,)}
    return [(rng.standard_normal(shapes[name]) / (n**0.5 if name == "w_hh" else 1)).astype(dtype) for name in KINDS[kind][1]]


def run(kind, backend, arrays, seed):
    """The result, and the gradients to all operands along random ones from above."""
    variables = [Var(a) for a in arrays]
    with autograd.using(backend):
        y = KINDS[kind][0](*variables)
        y.backward(seeded(seed).standard_normal(y.shape).astype(y.dtype))
    return [y.array, *(v.grad for v in variables)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_against_numpy(kind, size, dtype, serial, monkeypatch):
    arrays = operands(kind, size, dtype)
    called = []
    with monkeypatch.context() as patch:
        plain = cpuops.CpuBackend._run
        patch.setattr(cpuops.CpuBackend, "_run", lambda self, name, *args: (called.append(name), plain(self, name, *args))[1])
        got = run(kind, serial, arrays, size)
        kernels = {name for name in called if name.startswith("recurrent.")}
        assert kernels == {f"recurrent.{kind}", f"recurrent.{kind}_backward"}
        called.clear()
        want = run(kind, NoKernels(serial), [a.astype(np.float64) for a in arrays], size)
        assert not any(name.startswith("recurrent.") for name in called)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == dtype and a.shape == b.shape
        scale = max(1.0, np.abs(b).max(initial=0.0)) * (1 + size[2] ** 0.5)
        np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE[dtype] * scale)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_bits_depend_on_neither_threads_nor_rows_nor_what_is_kept(kind, size, dtype, serial, eager):
    arrays = operands(kind, size, dtype)
    one, many = run(kind, serial, arrays, size), run(kind, eager, arrays, size)
    for a, b in zip(one, many, strict=True):
        assert a.tobytes() == b.tobytes()
    with autograd.using(serial), autograd.no_grad():
        assert KINDS[kind][0](*arrays).array.tobytes() == one[0].tobytes()
        per_row = [a.ndim > 1 and name != "w_hh" for name, a in zip(KINDS[kind][1], arrays, strict=True)]
        for row in range(min(size[1], 3)):
            alone = [np.ascontiguousarray(a[..., row : row + 1, :]) if rows else a for a, rows in zip(arrays, per_row, strict=True)]
            assert np.array_equal(KINDS[kind][0](*alone).array[:, 0], one[0][:, row])


@pytest.mark.parametrize("kind", KINDS)
def test_a_nan_stays_in_its_row(kind, serial):
    arrays = operands(kind, (3, 4, 5), "float32")
    arrays[0][1, 2] = np.nan
    y, p_grad, *_ = run(kind, serial, arrays, 0)
    assert np.isnan(y[1:, 2]).all() and np.isfinite(y[0]).all() and np.isfinite(np.delete(y, 2, axis=1)).all()
    assert np.isnan(p_grad[:2, 2]).all() and np.isfinite(np.delete(p_grad, 2, axis=1)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_refusals(kind, serial):
    """A kernel reads what the shapes promise, so they are checked."""
    sequence, names, _ = KINDS[kind]
    arrays = operands(kind, (3, 4, 5), "float32")
    with autograd.using(serial):
        for place, name in enumerate(names[1:], 1):
            for wrong, error in ((arrays[place][:-1], ShapeError), (arrays[place].astype(np.float64), DTypeError)):
                with pytest.raises(error, match=rf"{kind}_sequence.*{name}"):
                    sequence(*arrays[:place], wrong, *arrays[place + 1 :])
        function = {"lstm": _recurrence.lstm_sequence, "gru": _recurrence.gru_sequence}[kind]
        y = function(*(Var(a) for a in arrays))
        node = (y[0] if kind == "lstm" else y).grad_fn
        for g, error in ((np.zeros((2, 4, 5), np.float32), ShapeError), (np.zeros((3, 4, 5)), DTypeError)):
            with pytest.raises(error, match=f"{kind}_sequence_backward.*output_grad"):
                node.backward(g)
        layer = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](5, 5)
        layer.weight_hh_0.array = layer.weight_hh_0.array[:3]
        with pytest.raises(ShapeError, match="w_hh"):
            layer(np.zeros((3, 4, 5), np.float32))


def test_inference_keeps_one_step():
    """Without a gradient the gates are not stored."""
    projected, h0, c0, w_hh = operands("lstm", (6, 4, 5), "float32")
    found = _recurrence_loops.lstm(cpuops.CpuBackend(), projected, h0, c0, w_hh, False)
    assert [a.shape if a is not None else None for a in found] == [(7, 4, 5), None, (1, 4, 5), None]


@pytest.mark.parametrize("kind", KINDS)
def test_products_with_the_input_are_made_again(kind, serial):
    """A layer keeps none of them; its second derivatives are those of a sequence that keeps them."""
    layer = {"lstm": nn.LSTM, "gru": nn.GRU}[kind](3, 5, generator=0, dtype=np.float64)
    x = Var(seeded("again", kind).standard_normal((4, 2, 3)))
    w_ih, w_hh, b_ih, b_hh = layer.weight_ih_0, layer.weight_hh_0, layer.bias_ih_0, layer.bias_hh_0
    zeros = np.zeros((2, 5))
    with autograd.using(serial):
        if kind == "lstm":
            projected = autograd.linear(x, w_ih, b_ih + b_hh)
            kept = _recurrence.lstm_sequence(projected, zeros, zeros, w_hh)[0]
        else:
            projected = autograd.linear(x, w_ih, b_ih)
            kept = _recurrence.gru_sequence(projected, zeros, w_hh, b_hh)
        made = layer(x)[0]
        holds = [any(np.array_equal(a, projected.array) for a in v.grad_fn.saved_tensors()) for v in (kept, made)]
        assert holds == [True, False]
    seconds = []
    for y in (kept, made):
        (first,) = autograd.grad(autograd.square(y).sum(), x, create_graph=True)
        seconds.append(autograd.grad(autograd.square(first).sum(), [x, w_ih, w_hh, b_hh]))
    for a, b in zip(*seconds, strict=True):
        assert np.abs(a).max() > 0 and a.tobytes() == b.tobytes()
