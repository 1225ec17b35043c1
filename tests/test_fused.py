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


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
@pytest.mark.parametrize("shape", [(3, 5, 7), (40, 300, 65), (600, 100, 17), (5, 900, 70), (300, 9, 1), (0, 4, 3), (30, 500, 200)], ids=str)
def test_linear_and_activation(activation, shape, dtype, backend, eager):
    """linear_activation is linear and the activation, on every path of the product; its gradient is theirs."""
    rows, d_in, d_out = shape
    rng = seeded("linear", activation, shape)
    x, weight, bias, g = (np.asarray(rng.standard_normal(s), dtype) for s in ((rows, d_in), (d_in, d_out), (d_out,), (rows, d_out)))
    name, options = ("gelu", {"approximate": "tanh"}) if activation == "gelu_tanh" else (activation, {})
    for b in (bias, None):
        total = backend.linear(x, weight, b)
        wanted = getattr(backend, name)(total, **options)
        for ops in (backend, eager):
            fused = ops.linear_activation_with_sum(x, weight, b, activation=activation)
            assert fused.sum.tobytes() == total.tobytes()
            assert fused.output.tobytes() == wanted.tobytes()
            assert ops.linear_activation(x, weight, b, activation=activation).tobytes() == wanted.tobytes()
            out = np.empty_like(wanted)
            assert ops.linear_activation(x, weight, b, activation=activation, out=out) is out
            assert out.tobytes() == wanted.tobytes()
        d = getattr(backend, f"{name}_backward")(g, total, **options)
        alone = backend.linear_backward(x, weight, d)
        grads = backend.linear_activation_backward(x, weight, b, total, g, activation=activation)
        assert grads.x_grad.tobytes() == alone.x_grad.tobytes()
        assert grads.weight_grad.tobytes() == alone.weight_grad.tobytes()
        assert grads.bias_grad is None if b is None else grads.bias_grad.tobytes() == alone.bias_grad.tobytes()
        assert backend.linear_activation_backward(x, weight, b, total, g, activation=activation, x_grad=False).x_grad is None


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
