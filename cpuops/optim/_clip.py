"""Clipping of gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import _check, _threads
from .._kernels import constants
from .._types import Array
from ..autograd import Var
from ..autograd._context import default_backend

__all__ = ["clip_grad_norm", "clip_grad_value"]

BLOCK = constants("optim").SQUARE_BLOCK


def _gradients(parameters: Iterable[Var]) -> list[tuple[Var, Array]]:
    """The parameters that have a gradient, each with it."""
    return [(p, p.grad) for p in parameters if p.requires_grad and p.grad is not None]


def _square_sum(ops: Any, g: Array) -> float:
    """In double: float32 may not hold the square of a norm."""
    sums = np.zeros(-(-g.size // BLOCK))
    ops._run("optim.square_sum", g.dtype, _threads.work(bytes_=g.nbytes), g, sums, g.size)
    return math.fsum(sums)


def clip_grad_norm(parameters: Iterable[Var], max_norm: float, *, backend: Any = None) -> float:
    """Scale all gradients so that together their Euclidean norm is at most `max_norm`.

    Parameters
    ----------
    parameters : iterable of Var
        Those without a gradient are passed over.
    max_norm : float
        Above 0.
    backend : CpuBackend, optional
        Where it runs; None is the tape's default.

    Returns
    -------
    float
        The norm before. When it is not finite, no gradient is changed.

    Raises
    ------
    ArgumentError
        `max_norm` is no number above 0.

    Notes
    -----
    Squares are summed in double. Pascanu et al. 2013.
    """
    max_norm = _check.number("clip_grad_norm", "max_norm", max_norm, low=0, strict=True, finite=False)
    ops, found = default_backend() if backend is None else backend, _gradients(parameters)
    norm = math.sqrt(math.fsum(_square_sum(ops, g) for _, g in found))
    if max_norm < norm < math.inf:
        for p, g in found:
            p.grad = ops.mul(g, max_norm / norm)
    return norm


def clip_grad_value(parameters: Iterable[Var], max_value: float) -> None:
    """Confine every element of the gradients to −`max_value` … `max_value`.

    Raises
    ------
    ArgumentError
        `max_value` is no number above 0.
    """
    max_value = _check.number("clip_grad_value", "max_value", max_value, low=0, strict=True)
    ops = default_backend()
    for p, g in _gradients(parameters):
        p.grad = ops.hardtanh(g, min=-max_value, max=max_value)
