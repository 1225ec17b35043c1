"""A recurrent layer's loop over the steps as one recorded operation, with the gradient's loop beside the forward's.

The products of all steps with the input are made before, at once; the gradients of the weights are made after, at once; only what
depends on the step before is in the loops. Arrays are [L, B, …] in the order of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _alloc
from .. import autograd as F
from .._types import Array
from ..autograd import GradFn, Var
from ..autograd._context import current, default_backend
from ..autograd._second_composed import through
from ..autograd._shapes import operand
from ..autograd._var import attached

__all__ = ["gru_sequence", "lstm_sequence"]


def recorded(node: type[GradFn], run: Callable[..., tuple[Array, tuple[Any, ...]]], names: tuple[str, ...], values: tuple[Any, ...]) -> Var:
    """`run` on a backend and the arrays of `values`, as one operation on the tape."""
    pairs = [operand(node.op, name, value) for name, value in zip(names, values, strict=True)]
    settings = current()
    backend = settings.backend or default_backend()
    output, saved = run(backend, *(a for a, _ in pairs))
    edges = [edge for _, edge in pairs]
    needed = settings.recording and any(edge is not None for edge in edges)
    return attached(output, node(backend, edges, saved) if needed else None)


class _Sequence(GradFn):
    """A loop whose second derivatives go through its steps, one by one on the tape."""

    __slots__ = ()

    def _gradient_vars(self, g: Var, needs: Any) -> Any:
        saved = dict(zip(self.saved_names, self._kept(), strict=True))
        operands = [attached(saved[name], edge) for name, edge in zip(self.operands, self._edges, strict=True)]
        with F.using(self._backend), F.enable_grad():
            return through(self.steps, operands, g)

    operands: tuple[str, ...]

    @staticmethod
    def steps(*operands: Var) -> Var:
        """The same in operations on the tape."""
        raise NotImplementedError


# ---------------------------------------------------------------- LSTM


def run_lstm(ops: Any, projected: Array, h0: Array, c0: Array, w_hh: Array) -> tuple[Array, tuple[Any, ...]]:
    """i, f, g, o = projected + h·w; c' = σ(f) c + σ(i) tanh(g); h' = σ(o) tanh(c').

    Returns [L + 1, B, H]: h of every step, and the last c.
    """
    length, batch, width = projected.shape
    n = width // 4
    gates = _alloc.empty((length, batch, width), projected.dtype)
    cells = _alloc.empty((length + 1, batch, n), projected.dtype)
    bent = _alloc.empty((length, batch, n), projected.dtype)  # tanh(c')
    out = _alloc.empty((length + 1, batch, n), projected.dtype)
    z, product = _alloc.empty((batch, width), projected.dtype), _alloc.empty((batch, n), projected.dtype)
    cells[0] = c0
    h = np.ascontiguousarray(h0)
    for t in range(length):
        ops.matmul(h, w_hh, out=z)
        z += projected[t]
        s = ops.sigmoid(z, out=gates[t])
        i, f, g, o = s[:, :n], s[:, n : 2 * n], s[:, 2 * n : 3 * n], s[:, 3 * n :]
        g[...] = ops.tanh(z[:, 2 * n : 3 * n])
        c = np.multiply(f, cells[t], out=cells[t + 1])
        c += np.multiply(i, g, out=product)
        h = np.multiply(o, ops.tanh(c, out=bent[t]), out=out[t])
    out[length] = cells[length]
    return out, (projected.shape, h0, c0, w_hh, gates, cells, bent, out, projected)


class LstmBackward(_Sequence):
    __slots__ = ()
    op = "lstm_sequence"
    saved_names = ("shape", "h0", "c0", "w_hh", "gates", "cells", "bent", "out", "projected")
    operands = ("projected", "h0", "c0", "w_hh")

    @staticmethod
    def _compute(ops: Any, output_grad: Any, needs: Any, saved: Any) -> Any:
        shape, h0, _, w_hh, gates, cells, bent, out, _ = saved
        length, batch, width = shape
        n = width // 4
        z_grad = _alloc.empty(shape, gates.dtype)
        h_grad, c_grad = np.zeros((batch, n), gates.dtype), np.array(output_grad[length])
        back = np.ascontiguousarray(w_hh.T)
        for t in range(length - 1, -1, -1):
            s, tc = gates[t], bent[t]
            i, f, g, o = s[:, :n], s[:, n : 2 * n], s[:, 2 * n : 3 * n], s[:, 3 * n :]
            h_grad += output_grad[t]
            c_grad += h_grad * o * (1 - tc * tc)
            z = z_grad[t]
            z[:, :n] = c_grad * g * (i * (1 - i))
            z[:, n : 2 * n] = c_grad * cells[t] * (f * (1 - f))
            z[:, 2 * n : 3 * n] = c_grad * i * (1 - g * g)
            z[:, 3 * n :] = h_grad * tc * (o * (1 - o))
            c_grad *= f
            ops.matmul(z, back, out=h_grad)
        return z_grad, h_grad, c_grad, weight_gradient(ops, needs[3], h0, out[: length - 1], z_grad)

    @staticmethod
    def steps(*operands: Var) -> Var:
        projected, h, c, w_hh = operands
        n, found = h.shape[1], []
        for t in range(projected.shape[0]):
            z = projected[t] + h @ w_hh
            s = F.sigmoid(z)
            c = s[:, n : 2 * n] * c + s[:, :n] * F.tanh(z[:, 2 * n : 3 * n])
            h = s[:, 3 * n :] * F.tanh(c)
            found.append(h)
        return F.stack([*found, c])


def lstm_sequence(projected: Var, h0: Var, c0: Var, w_hh: Var) -> Var:
    """[L + 1, B, H] of projected [L, B, 4·H], h0 and c0 [B, H], w_hh [H, 4·H]: h of every step, and the last c."""
    return recorded(LstmBackward, run_lstm, LstmBackward.operands, (projected, h0, c0, w_hh))


# ---------------------------------------------------------------- GRU


def run_gru(ops: Any, projected: Array, h0: Array, w_hh: Array, b_hh: Array) -> tuple[Array, tuple[Any, ...]]:
    """r, z = σ(projected + q), q = h·w + b; m = tanh(projected + r q); h' = (1 − z) m + z h.

    Returns [L, B, H]: h of every step.
    """
    length, batch, width = projected.shape
    n = width // 3
    gates = _alloc.empty((length, batch, 2 * n), projected.dtype)
    news = _alloc.empty((length, batch, n), projected.dtype)  # m
    asked = _alloc.empty((length, batch, n), projected.dtype)  # the last third of q
    out = _alloc.empty((length, batch, n), projected.dtype)
    q = _alloc.empty((batch, width), projected.dtype)
    h = np.ascontiguousarray(h0)
    for t in range(length):
        ops.linear(h, w_hh, b_hh, out=q)
        p = projected[t]
        s = ops.sigmoid(p[:, : 2 * n] + q[:, : 2 * n], out=gates[t])
        r, z = s[:, :n], s[:, n:]
        asked[t] = q[:, 2 * n :]
        m = ops.tanh(p[:, 2 * n :] + r * asked[t], out=news[t])
        h = np.add(m, z * (h - m), out=out[t])
    return out, (projected.shape, h0, w_hh, b_hh, gates, news, asked, out, projected)


class GruBackward(_Sequence):
    __slots__ = ()
    op = "gru_sequence"
    saved_names = ("shape", "h0", "w_hh", "b_hh", "gates", "news", "asked", "out", "projected")
    operands = ("projected", "h0", "w_hh", "b_hh")

    @staticmethod
    def _compute(ops: Any, output_grad: Any, needs: Any, saved: Any) -> Any:
        shape, h0, w_hh, _, gates, news, asked, out, _ = saved
        length, batch, width = shape
        n = width // 3
        p_grad, q_grad = _alloc.empty(shape, gates.dtype), _alloc.empty(shape, gates.dtype)
        h_grad, product = np.zeros((batch, n), gates.dtype), _alloc.empty((batch, n), gates.dtype)
        back = np.ascontiguousarray(w_hh.T)
        for t in range(length - 1, -1, -1):
            s, m, before = gates[t], news[t], out[t - 1] if t else h0
            r, z = s[:, :n], s[:, n:]
            p, q = p_grad[t], q_grad[t]
            h_grad += output_grad[t]
            p[:, 2 * n :] = h_grad * (1 - z) * (1 - m * m)
            p[:, :n] = p[:, 2 * n :] * asked[t] * (r * (1 - r))
            p[:, n : 2 * n] = h_grad * (before - m) * (z * (1 - z))
            q[:, : 2 * n] = p[:, : 2 * n]
            q[:, 2 * n :] = p[:, 2 * n :] * r
            h_grad *= z
            h_grad += ops.matmul(q, back, out=product)
        bias_grad = None if needs[3] is None else ops.reduce_sum(q_grad, axis=(0, 1))
        return p_grad, h_grad, weight_gradient(ops, needs[2], h0, out[: length - 1], q_grad), bias_grad

    @staticmethod
    def steps(*operands: Var) -> Var:
        projected, h, w_hh, b_hh = operands
        n, found = h.shape[1], []
        for t in range(projected.shape[0]):
            p, q = projected[t], F.linear(h, w_hh, b_hh)
            s = F.sigmoid(p[:, : 2 * n] + q[:, : 2 * n])
            m = F.tanh(p[:, 2 * n :] + s[:, :n] * q[:, 2 * n :])
            h = m + s[:, n:] * (h - m)
            found.append(h)
        return F.stack(found)


def gru_sequence(projected: Var, h0: Var, w_hh: Var, b_hh: Var) -> Var:
    """[L, B, H] of projected [L, B, 3·H], h0 [B, H], w_hh [H, 3·H], b_hh [3·H]: h of every step."""
    return recorded(GruBackward, run_gru, GruBackward.operands, (projected, h0, w_hh, b_hh))


def weight_gradient(ops: Any, need: Any, h0: Array, states: Array, grads: Array) -> Array | None:
    """Σ over the steps of (h before the step)ᵀ · gradient, in one product."""
    if need is None:
        return None
    before = np.concatenate([h0[np.newaxis], states])
    return ops.matmul(before.reshape(-1, h0.shape[1]).T, grads.reshape(before.shape[0] * before.shape[1], -1))  # type: ignore[no-any-return]
