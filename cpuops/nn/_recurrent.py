"""Recurrent layers: LSTM (Hochreiter and Schmidhuber 1997, with a forget gate) and GRU (Cho et al. 2014)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .. import _check
from .. import autograd as F
from .._types import Operand
from ..autograd import Var
from ..errors import ArgumentError, DTypeError, ShapeError, message
from . import init
from ._dropout import Dropout
from ._module import Module, Parameter, generator_of
from ._recurrence import gru_sequence, lstm_sequence

__all__ = ["GRU", "LSTM"]


class _Recurrent(Module, ABC):
    """Layers of a recurrent network over [L, B, C], or [B, L, C] with `batch_first`."""

    gates: ClassVar[int]

    def __init__(
        self,
        d_in: int,
        d_hidden: int,
        *,
        layers: int = 1,
        bidirectional: bool = False,
        batch_first: bool = False,
        dropout: float = 0.0,
        seed: int | None = None,
        generator: np.random.Generator | int | None = None,
        dtype: Any = np.float32,
    ):
        op = type(self).__name__
        self.d_in, self.d_hidden = _check.integer(op, "d_in", d_in, 1), _check.integer(op, "d_hidden", d_hidden, 1)
        self.layers = _check.integer(op, "layers", layers, 1)
        self.directions = 2 if _check.flag(op, "bidirectional", bidirectional) else 1
        self.batch_first = _check.flag(op, "batch_first", batch_first)
        self.dropout = Dropout(dropout, seed=seed) if dropout else None
        random, bound = generator_of(generator), 1.0 / math.sqrt(d_hidden)
        for layer in range(self.layers):
            width = d_in if layer == 0 else d_hidden * self.directions
            for side in ("", "_reverse")[: self.directions]:
                for name, shape in (
                    ("weight_ih", (width, self.gates * d_hidden)),
                    ("weight_hh", (d_hidden, self.gates * d_hidden)),
                    ("bias_ih", (self.gates * d_hidden,)),
                    ("bias_hh", (self.gates * d_hidden,)),
                ):
                    setattr(self, f"{name}_{layer}{side}", Parameter(init.uniform(random, shape, dtype, bound)))

    def describe(self) -> str:
        more = [f"layers={self.layers}"] if self.layers > 1 else []
        more += ["bidirectional=True"] if self.directions > 1 else []
        return ", ".join([f"{self.d_in}, {self.d_hidden}", *more])

    def _weights(self, layer: int, side: str) -> tuple[Parameter, Parameter, Parameter, Parameter]:
        w_ih, w_hh, b_ih, b_hh = (getattr(self, f"{n}_{layer}{side}") for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        return w_ih, w_hh, b_ih, b_hh

    def _sequence(self, x: Var | Operand) -> Var:
        op = type(self).__name__
        v = x if isinstance(x, Var) else Var(_check.floating(op, "x", x), requires_grad=False)
        if v.ndim != 3 or v.shape[2] != self.d_in:
            wanted = "[B, L, " if self.batch_first else "[L, B, "
            raise ShapeError(message(op, "x", f"of shape {v.shape}", f"{wanted}{self.d_in}]"))
        v = F.transpose(v, (1, 0, 2)) if self.batch_first else v
        if not v.shape[0]:
            raise ShapeError(message(op, "x", f"of shape {v.shape}", "at least one step"))
        return v

    def _start(self, name: str, value: Var | Operand | None, x: Var) -> list[Var]:
        """The initial state of every layer and direction, [B, d_hidden] each; zeros when none is given."""
        op, count = type(self).__name__, self.layers * self.directions
        shape = (count, x.shape[1], self.d_hidden)
        if value is None:
            return [Var(np.zeros(shape[1:], x.dtype), requires_grad=False)] * count
        v = value if isinstance(value, Var) else Var(_check.floating(op, name, value), requires_grad=False)
        if v.shape != shape:
            raise ShapeError(message(op, name, f"of shape {v.shape}", f"{shape}"))
        if v.dtype != x.dtype:
            raise DTypeError(message(op, name, f"{v.dtype}, and x {x.dtype}", "one dtype"))
        return [v[i] for i in range(count)]

    def _layers(self, x: Var, states: list[Any]) -> tuple[Var, list[Any]]:
        """Run every layer; `states` are the initial ones, the result the outputs [L, B, …] and the last states."""
        last = []
        for layer in range(self.layers):
            outputs = []
            for d, side in enumerate(("", "_reverse")[: self.directions]):
                w_ih, w_hh, b_ih, b_hh = self._weights(layer, side)
                sequence, state = self._run(x[::-1] if side else x, states[layer * self.directions + d], w_ih, w_hh, b_ih, b_hh)
                outputs.append(sequence[::-1] if side else sequence)
                last.append(state)
            x = outputs[0] if self.directions == 1 else F.concat(outputs, 2)
            if self.dropout is not None and layer + 1 < self.layers:
                x = self.dropout(x)
        return F.transpose(x, (1, 0, 2)) if self.batch_first else x, last

    @abstractmethod
    def _run(self, x: Var, state: Any, w_ih: Var, w_hh: Var, b_ih: Var, b_hh: Var) -> tuple[Var, Any]:
        """(outputs [L, B, d_hidden], last state) of one layer in one direction."""


PARAMETERS = """
    Parameters
    ----------
    d_in, d_hidden : int
        Features of the input and of the state.
    layers : int
        Of which each takes the outputs of the one below.
    bidirectional : bool
        A second set of weights reads the sequence backwards; outputs have both, [L, B, 2·d_hidden].
    batch_first : bool
        x and the outputs are [B, L, …].
    dropout, seed : float, int
        Of the outputs of every layer but the last.
    generator, dtype
        As in :class:`Linear`; all weights uniform within 1/√d_hidden.
"""


class LSTM(_Recurrent):
    __doc__ = f"""Long short-term memory: (i, f, g, o) = x·W + h·U + b; c' = σ(f) c + σ(i) tanh(g); h' = σ(o) tanh(c').
{PARAMETERS}
    Notes
    -----
    Called with x, and (h, c) of [layers·directions, B, d_hidden] each if not zero, it returns ``(outputs, (h, c))``. Weights are
    `weight_ih_0` [d_in, 4·d_hidden], `weight_hh_0` [d_hidden, 4·d_hidden], `bias_ih_0`, `bias_hh_0`; the backward ones end in `_reverse`.
    """
    gates = 4

    def forward(self, x: Var | Operand, state: tuple[Var | Operand, Var | Operand] | None = None) -> tuple[Var, tuple[Var, Var]]:
        v = self._sequence(x)
        if state is not None and not (isinstance(state, list | tuple) and len(state) == 2):
            raise ArgumentError(message("LSTM", "state", f"a {type(state).__name__}", "a pair (h, c)"))
        h, c = (self._start(name, state and state[i], v) for i, name in enumerate("hc"))
        outputs, last = self._layers(v, list(zip(h, c, strict=True)))
        return outputs, (F.stack([h for h, _ in last]), F.stack([c for _, c in last]))

    def _run(self, x: Var, state: Any, w_ih: Var, w_hh: Var, b_ih: Var, b_hh: Var) -> tuple[Var, Any]:
        h, c = state
        project = partial(F.linear, x, w_ih, b_ih + b_hh)
        found, c = lstm_sequence(project(), h, c, w_hh, project)
        return found, (found[-1], c)


class GRU(_Recurrent):
    __doc__ = f"""Gated recurrent unit: r, z = σ(x·W + h·U + b); n = tanh(x·Wn + bn + r (h·Un + un)); h' = (1 − z) n + z h.
{PARAMETERS}
    Notes
    -----
    Called with x, and h of [layers·directions, B, d_hidden] if not zero, it returns ``(outputs, h)``. The reset gate acts on the product
    with the state, as in cuDNN and PyTorch. Weights are named as in :class:`LSTM`, with 3·d_hidden columns: r, z, n.
    """
    gates = 3

    def forward(self, x: Var | Operand, state: Var | Operand | None = None) -> tuple[Var, Var]:
        v = self._sequence(x)
        outputs, last = self._layers(v, self._start("state", state, v))
        return outputs, F.stack(last)

    def _run(self, x: Var, state: Any, w_ih: Var, w_hh: Var, b_ih: Var, b_hh: Var) -> tuple[Var, Any]:
        project = partial(F.linear, x, w_ih, b_ih)
        found = gru_sequence(project(), state, w_hh, b_hh, project)
        return found, found[-1]
