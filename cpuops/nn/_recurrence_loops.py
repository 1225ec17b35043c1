"""The loops of LSTM and GRU over the steps, forwards and backwards: by a kernel on a `Backend`, else in NumPy and products.

Arrays are [L, B, …] in the order of the loop. States begin with the initial one: what a step starts from stands at its own place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _alloc, _check, _threads
from .._types import Array
from ..backend import Backend

__all__ = ["gru", "gru_backward", "lstm", "lstm_backward"]


def checked(op: str, operands: dict[str, Array], **shapes: tuple[int, ...]) -> list[Array]:
    """The operands as a kernel takes them, of one dtype and the named shapes."""
    arrays: list[Array] = _check.floatings(op, tuple(operands), tuple(operands.values()))
    for name, a in zip(operands, arrays, strict=True):
        _check.shape(op, name, a, shapes[name])
    return arrays


def run(ops: Backend, kernel: str, arrays: tuple[Array | None, ...], length: int, batch: int, n: int, gates: int) -> None:
    """A kernel of `recurrent`: the products of all steps, and some 4 ns a cell for its exponentials."""
    cells = length * batch * n
    cost = _threads.work(flops=2 * cells * gates * n) + 4 * cells
    ops._run(f"recurrent.{kernel}", next(a for a in arrays if a is not None).dtype, cost, *arrays, length, batch, n)


# ---------------------------------------------------------------- LSTM


def lstm(ops: Any, projected: Array, h0: Array, c0: Array, w_hh: Array, keep: bool) -> tuple[Array, Array | None, Array, Array | None]:
    """i, f, g, o = projected + h·w; c' = σ(f) c + σ(i) tanh(g); h' = σ(o) tanh(c').

    Returns states [L + 1, B, H], the initial h and that of every step; cells [L + 1, B, H] likewise; and the gates [L, B, 4·H] and
    tanh(c') of every step. Where nothing is to be kept, cells are the last ones only.
    """
    length, batch, width = projected.shape
    n, dtype = width // 4, projected.dtype
    gates = _alloc.empty((length, batch, width), dtype) if keep else None
    bent = _alloc.empty((length, batch, n), dtype) if keep else None
    cells = _alloc.empty((length + 1 if keep else 1, batch, n), dtype)
    states = _alloc.empty((length + 1, batch, n), dtype)
    states[0] = h0
    if isinstance(ops, Backend):
        run(ops, "lstm", (projected, h0, c0, w_hh, gates, cells, bent, states[1:]), length, batch, n, 4)
        return states, gates, cells, bent
    cells[0] = c0
    for t in range(length):
        z = ops.matmul(states[t], w_hh) + projected[t]
        s = ops.sigmoid(z)
        s[:, 2 * n : 3 * n] = ops.tanh(z[:, 2 * n : 3 * n])
        i, f, g, o = np.split(s, 4, axis=1)
        c = f * cells[t if keep else 0] + i * g
        tc = ops.tanh(c)
        states[t + 1] = o * tc
        cells[t + 1 if keep else 0] = c
        if gates is not None and bent is not None:
            gates[t], bent[t] = s, tc
    return states, gates, cells, bent


def lstm_backward(
    ops: Any, output_grad: Array, c_grad: Array, w_hh: Array, gates: Array, cells: Array, bent: Array
) -> tuple[Array, Array, Array]:
    """Gradients to projected, h0 and c0, from those to h of every step and to the last c; that one is overwritten."""
    length, batch, width = gates.shape
    n, dtype = width // 4, gates.dtype
    p_grad, h_grad = _alloc.empty(gates.shape, dtype), _alloc.empty((batch, n), dtype)
    if isinstance(ops, Backend):
        run(ops, "lstm_backward", (output_grad, w_hh, gates, cells, bent, p_grad, h_grad, c_grad), length, batch, n, 4)
        return p_grad, h_grad, c_grad
    h_grad[...] = 0
    for t in range(length - 1, -1, -1):
        (i, f, g, o), tc = np.split(gates[t], 4, axis=1), bent[t]
        h_grad += output_grad[t]
        c_grad += h_grad * o * (1 - tc * tc)
        p_grad[t] = np.concatenate(
            [c_grad * g * i * (1 - i), c_grad * cells[t] * f * (1 - f), c_grad * i * (1 - g * g), h_grad * tc * o * (1 - o)], axis=1
        )
        c_grad *= f
        h_grad = ops.matmul(p_grad[t], w_hh.T)
    return p_grad, h_grad, c_grad


# ---------------------------------------------------------------- GRU


def gru(ops: Any, projected: Array, h0: Array, w_hh: Array, b_hh: Array, keep: bool) -> tuple[Array, Array | None, Array | None, Array | None]:
    """r, z = σ(projected + q), q = h·w + b; m = tanh(projected + r q); h' = m + z (h − m).

    Returns states [L + 1, B, H], the initial h and that of every step; and, where they are to be kept, the gates [L, B, 2·H], m and
    the last third of q [L, B, H].
    """
    length, batch, width = projected.shape
    n, dtype = width // 3, projected.dtype
    gates = _alloc.empty((length, batch, 2 * n), dtype) if keep else None
    news, asked = (_alloc.empty((length, batch, n), dtype) if keep else None for _ in range(2))
    states = _alloc.empty((length + 1, batch, n), dtype)
    states[0] = h0
    if isinstance(ops, Backend):
        run(ops, "gru", (projected, h0, w_hh, b_hh, gates, news, asked, states[1:]), length, batch, n, 3)
        return states, gates, news, asked
    for t in range(length):
        p, q, h = projected[t], ops.linear(states[t], w_hh, b_hh), states[t]
        s = ops.sigmoid(p[:, : 2 * n] + q[:, : 2 * n])
        m = ops.tanh(p[:, 2 * n :] + s[:, :n] * q[:, 2 * n :])
        states[t + 1] = m + s[:, n:] * (h - m)
        if gates is not None and news is not None and asked is not None:
            gates[t], news[t], asked[t] = s, m, q[:, 2 * n :]
    return states, gates, news, asked


def gru_backward(
    ops: Any, output_grad: Array, w_hh: Array, gates: Array, news: Array, asked: Array, states: Array
) -> tuple[Array, Array, Array]:
    """Gradients to projected, to q of every step, and to h0."""
    length, batch, n = news.shape
    p_grad, q_grad = (_alloc.empty((length, batch, 3 * n), gates.dtype) for _ in range(2))
    h_grad = _alloc.empty((batch, n), gates.dtype)
    if isinstance(ops, Backend):
        arrays = (output_grad, states[0], w_hh, gates, news, asked, states[1:], p_grad, q_grad, h_grad)
        run(ops, "gru_backward", arrays, length, batch, n, 3)
        return p_grad, q_grad, h_grad
    h_grad[...] = 0
    for t in range(length - 1, -1, -1):
        r, z, m = gates[t, :, :n], gates[t, :, n:], news[t]
        h_grad += output_grad[t]
        m_grad = h_grad * (1 - z) * (1 - m * m)
        p_grad[t] = np.concatenate([m_grad * asked[t] * r * (1 - r), h_grad * (states[t] - m) * z * (1 - z), m_grad], axis=1)
        q_grad[t] = p_grad[t]
        q_grad[t, :, 2 * n :] *= r
        h_grad = h_grad * z + ops.matmul(q_grad[t], w_hh.T)
    return p_grad, q_grad, h_grad
