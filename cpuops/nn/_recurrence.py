"""A recurrent layer's loop over the steps as one recorded operation.

The products of all steps with the input are made before, at once; the gradients of the weights are made after, at once; only what
depends on the step before is in the loops. Arrays are [L, B, …] in the order of the loop.

Only second derivatives take those products again. `again`, a function that makes them anew, is kept in their place where it is given.
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
from ..autograd._parts import Several
from ..autograd._second_composed import through
from ..autograd._shapes import operand
from ..autograd._var import attached
from ..errors import DTypeError, message
from . import _recurrence_loops as loops

__all__ = ["gru_sequence", "lstm_sequence"]


def recorded(
    node: type[_Sequence], run: Callable[..., tuple[list[Array], tuple[Any, ...]]], values: tuple[Any, ...], again: Callable[[], Var] | None
) -> list[Var]:
    """The results of `run` on a backend, the arrays of `values`, and whether a gradient is needed, as one operation on the tape."""
    pairs = [operand(node.op, name, value) for name, value in zip(node.operands, values, strict=True)]
    settings = current()
    backend = settings.backend or default_backend()
    edges = [edge for _, edge in pairs]
    needed = settings.recording and any(edge is not None for edge in edges)
    results, saved = run(backend, *(a for a, _ in pairs), needed)
    made = node(backend, edges, (again or saved[0], *saved[1:])) if needed else None
    return [attached(result, made and made._result(i)) for i, result in enumerate(results)]


class _Sequence(GradFn):
    """A loop whose second derivatives go through its steps, one by one on the tape."""

    __slots__ = ()

    def _gradient_vars(self, g: Var, needs: Any) -> Any:
        saved = dict(zip(self.saved_names, self._kept(), strict=True))
        if callable(saved["projected"]):
            with F.using(self._backend), F.no_grad():
                saved["projected"] = saved["projected"]().array
        operands = [attached(saved[name], edge) for name, edge in zip(self.operands, self._edges, strict=True)]
        with F.using(self._backend), F.enable_grad():
            return through(self.steps, operands, self.whole(g, operands))

    @staticmethod
    def whole(g: Any, operands: list[Var]) -> Var:
        """The gradient to what `steps` returns."""
        return g  # type: ignore[no-any-return]

    operands: tuple[str, ...]

    @staticmethod
    def steps(*operands: Var) -> Var:
        """The same in operations on the tape; every kind of sequence defines it."""
        raise NotImplementedError


# ---------------------------------------------------------------- LSTM


def run_lstm(ops: Any, projected: Array, h0: Array, c0: Array, w_hh: Array, keep: bool) -> tuple[list[Array], tuple[Any, ...]]:
    length, batch, width = projected.shape
    n = width // 4
    projected, h0, c0, w_hh = loops.checked(
        "lstm_sequence", {"projected": projected, "h0": h0, "c0": c0, "w_hh": w_hh},
        projected=(length, batch, 4 * n), h0=(batch, n), c0=(batch, n), w_hh=(n, 4 * n),
    )  # fmt: skip
    states, gates, cells, bent = loops.lstm(ops, projected, h0, c0, w_hh, keep)
    return [states[1:], cells[-1]], (projected, h0, c0, w_hh, gates, cells, bent, states)


class LstmBackward(_Sequence):
    __slots__ = ()
    op = "lstm_sequence"
    saved_names = ("projected", "h0", "c0", "w_hh", "gates", "cells", "bent", "states")
    operands = ("projected", "h0", "c0", "w_hh")

    @staticmethod
    def _compute(ops: Any, output_grad: Any, needs: Any, saved: Any) -> Any:
        *_, w_hh, gates, cells, bent, states = saved
        h, c = parted(output_grad)
        g = _alloc.zeros(bent.shape, bent.dtype) if h is None else arrived("lstm_sequence", h, bent)
        c_grad = _alloc.zeros(cells.shape[1:], cells.dtype)
        if c is not None:
            c_grad[...] = arrived("lstm_sequence", c, c_grad)
        p_grad, h_grad, c_grad = loops.lstm_backward(ops, g, c_grad, w_hh, gates, cells, bent)
        return p_grad, h_grad, c_grad, weight_gradient(ops, needs[3], states, p_grad)

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

    @staticmethod
    def whole(g: Any, operands: list[Var]) -> Var:
        h, c = parted(g)
        projected, _, c0, _ = operands
        if h is None:
            h = Var(np.zeros((len(projected), *c0.shape), c0.dtype), requires_grad=False)
        if c is None:
            c = Var(np.zeros_like(c0.array), requires_grad=False)
        return F.concat([h, F.expand_dims(c, 0)])


def lstm_sequence(projected: Var, h0: Var, c0: Var, w_hh: Var, again: Callable[[], Var] | None = None) -> tuple[Var, Var]:
    """h of every step [L, B, H] and the last c [B, H], of projected [L, B, 4·H], h0 and c0 [B, H], w_hh [H, 4·H]."""
    outputs, c = recorded(LstmBackward, run_lstm, (projected, h0, c0, w_hh), again)
    return outputs, c


# ---------------------------------------------------------------- GRU


def run_gru(ops: Any, projected: Array, h0: Array, w_hh: Array, b_hh: Array, keep: bool) -> tuple[list[Array], tuple[Any, ...]]:
    length, batch, width = projected.shape
    n = width // 3
    projected, h0, w_hh, b_hh = loops.checked(
        "gru_sequence", {"projected": projected, "h0": h0, "w_hh": w_hh, "b_hh": b_hh},
        projected=(length, batch, 3 * n), h0=(batch, n), w_hh=(n, 3 * n), b_hh=(3 * n,),
    )  # fmt: skip
    states, gates, news, asked = loops.gru(ops, projected, h0, w_hh, b_hh, keep)
    return [states[1:]], (projected, h0, w_hh, b_hh, gates, news, asked, states)


class GruBackward(_Sequence):
    __slots__ = ()
    op = "gru_sequence"
    saved_names = ("projected", "h0", "w_hh", "b_hh", "gates", "news", "asked", "states")
    operands = ("projected", "h0", "w_hh", "b_hh")

    @staticmethod
    def _compute(ops: Any, output_grad: Any, needs: Any, saved: Any) -> Any:
        _, _, w_hh, _, gates, news, asked, states = saved
        output_grad = arrived("gru_sequence", output_grad, states[1:])
        p_grad, q_grad, h_grad = loops.gru_backward(ops, output_grad, w_hh, gates, news, asked, states)
        bias_grad = None if needs[3] is None else ops.reduce_sum(q_grad, axis=(0, 1))
        return p_grad, h_grad, weight_gradient(ops, needs[2], states, q_grad), bias_grad

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


def gru_sequence(projected: Var, h0: Var, w_hh: Var, b_hh: Var, again: Callable[[], Var] | None = None) -> Var:
    """[L, B, H] of projected [L, B, 3·H], h0 [B, H], w_hh [H, 3·H], b_hh [3·H]: h of every step."""
    return recorded(GruBackward, run_gru, (projected, h0, w_hh, b_hh), again)[0]


# ---------------------------------------------------------------- both


def parted(output_grad: Any) -> tuple[Any, Any]:
    """The gradients that arrive at the two results, None where none does."""
    return (output_grad.first, output_grad.rest.get(1)) if isinstance(output_grad, Several) else (output_grad, None)


def arrived(op: str, output_grad: Any, output: Array) -> Array:
    """The gradient as a kernel takes it."""
    (g,) = loops.checked(f"{op}_backward", {"output_grad": output_grad}, output_grad=output.shape)
    if g.dtype != output.dtype:
        raise DTypeError(message(f"{op}_backward", "output_grad", f"of dtype {g.dtype}", f"the output's, {output.dtype}"))
    return g


def weight_gradient(ops: Any, need: Any, states: Array, grads: Array) -> Array | None:
    """Σ over the steps of (h before the step)ᵀ · gradient, in one product."""
    if need is None:
        return None
    length, batch, width = grads.shape
    return ops.matmul(states[:length].reshape(length * batch, states.shape[2]).T, grads.reshape(length * batch, width))  # type: ignore[no-any-return]
