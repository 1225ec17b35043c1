"""Dropout with random numbers of its own."""

from __future__ import annotations

import secrets

import numpy as np

from .. import _check
from .. import autograd as F
from .._types import Operand
from ..autograd import Var
from ._module import Buffer, Module, fraction

__all__ = ["Dropout"]


class Dropout(Module):
    """In training, zero elements with probability p and divide the others by 1 − p (Srivastava et al. 2014).

    Parameters
    ----------
    p : float
        From 0 to 1.
    axes : sequence of int, optional
        Axes along which one decision holds: (2, 3) drops whole channels of images.
    seed : int, optional
        What the decisions follow from, together with the number of the call; unpredictable when None.

    Notes
    -----
    Which elements are dropped depends on seed, number of the call and shape alone: not on the backend or its threads, nor on other
    layers. The number of the call and the seed are in `state_dict`, so that a training that is resumed goes on as it would have.
    """

    def __init__(self, p: float = 0.5, *, axes: tuple[int, ...] = (), seed: int | None = None):
        self.p = fraction("Dropout", "p", p)
        self.axes = tuple(_check.integer("Dropout", "axes", a) for a in axes)
        start = secrets.randbits(62) if seed is None else _check.integer("Dropout", "seed", seed, 0)
        self.calls = Buffer(np.array([start, 0], np.int64))

    def describe(self) -> str:
        return f"{self.p}" + (f", axes={self.axes}" if self.axes else "")

    @property
    def state(self) -> int:
        """int: the number of the next call."""
        return int(self.calls.array[1])

    @state.setter
    def state(self, value: int) -> None:
        self.calls.array[1] = value

    def forward(self, x: Var | Operand) -> Var:
        if not isinstance(x, Var):
            x = Var(_check.floating("Dropout", "x", x), requires_grad=False)
        if not self.training or self.p == 0:
            return x
        F.drawing_from(self)
        seed, call = (int(v) for v in self.calls.array)
        self.state = call + 1
        alike = {_check.axis("Dropout", a, x.ndim) for a in self.axes}
        shape = tuple(1 if a in alike else n for a, n in enumerate(x.shape))
        # a generator that can start anywhere: one stream a call
        random = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, call]))
        kept = random.random(shape, np.float32) >= self.p
        scale = 1 / (1 - self.p) if self.p < 1 else 0.0
        return F.mul(x, kept * x.dtype.type(scale))
