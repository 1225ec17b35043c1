"""Fused operations beside the operations that they fuse: the same bits, and what arrives at every result."""

import numpy as np
import pytest
from support import Mine, seeded
from table import ROWS

import cpuops

NORMS = ("layer_norm", "rms_norm")


def operands(name, rng, dtype, shape):
    x, residual, g, more = (np.asarray(rng.standard_normal(shape), dtype) for _ in range(4))
    gamma, beta = (np.asarray(rng.standard_normal(shape[-1]), dtype) for _ in range(2))
    return x, residual, g, more, (gamma, beta) if name == "layer_norm" else (gamma,)


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("shape", [(3, 5), (9, 64), (4, 768), (2, 9001), (5, 1), (0, 4), (7,)], ids=str)
def test_residual_and_norm(name, shape, dtype, backend, eager):
    """add_layer_norm is add and layer_norm; sum_grad is added to both gradients, also in the readable default."""
    x, residual, g, more, parameters = operands(name, seeded("fused", name, shape), dtype, shape)
    norm, fused = getattr(backend, name), f"add_{name}"
    output, total = getattr(backend, fused)(x, residual, *parameters, 1e-3)
    assert total.tobytes() == backend.add(x, residual).tobytes()
    assert output.tobytes() == norm(total, *parameters, epsilon=1e-3).tobytes()
    alone = getattr(backend, f"{name}_backward")(total, parameters[0], 1e-3, g)
    grads = getattr(backend, f"{fused}_backward")(total, parameters[0], 1e-3, g, more)
    assert grads.x_grad is grads.residual_grad
    assert grads.x_grad.tobytes() == (alone.x_grad + more).tobytes()
    assert [a.tobytes() for a in grads[2:]] == [a.tobytes() for a in alone[1:]]
    assert getattr(eager, f"{fused}_backward")(total, parameters[0], 1e-3, g, more).x_grad.tobytes() == grads.x_grad.tobytes()
    default = getattr(Mine(), f"{fused}_backward")(total, parameters[0], 1e-3, g, more)
    tolerance = 8 * ROWS[fused].rtol[dtype]
    for got, want in zip(default, grads, strict=True):
        size = 1 + np.abs(want).max(initial=0.0)
        assert np.abs(got - want).max(initial=0.0) <= tolerance * size * (1 + 1000 * (shape[-1] == 1))


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((5, 7), 1), ((40, 3), 1), ((3, 900), 1), ((1, 200_001), 1), ((9, 50), 0), ((30_000, 9), 0), ((2, 30, 70), 1), ((1500, 64), 0)],
    ids=str,
)
def test_scaled_softmax(name, shape, axis, dtype, backend, eager):
    """It is mul and softmax, whichever way an array is walked; and its gradient, times the scale."""
    rng = seeded("scaled", name, shape)
    x, g = (np.asarray(rng.standard_normal(shape), dtype) for _ in range(2))
    for scale in (0.125, -1.7, 0.0):
        plain = getattr(backend, name)(backend.mul(x, scale), axis=axis)
        assert getattr(backend, name)(x, axis=axis, scale=scale).tobytes() == plain.tobytes()
        assert getattr(eager, name)(x, axis=axis, scale=scale).tobytes() == plain.tobytes()
        slope = getattr(backend, f"{name}_backward")(g, plain, axis=axis)
        scaled = getattr(backend, f"{name}_backward")(g, plain, axis=axis, scale=scale)
        assert scaled.tobytes() == backend.mul(slope, scale).tobytes()


@pytest.mark.parametrize("method", ["softmax", "log_softmax", "softmax_backward", "log_softmax_backward"])
def test_scale_is_a_finite_number(method, backend):
    x = np.ones((2, 3), np.float32)
    operands = (x, x) if method.endswith("_backward") else (x,)
    for scale in (np.nan, np.inf, -np.inf, None, "1", True, x):
        with pytest.raises(cpuops.ArgumentError, match=f"{method}.*scale"):
            getattr(backend, method)(*operands, axis=1, scale=scale)
