"""Gradients of one operand alone, where `BackwardOps` has them only together.

They are named and read as its methods are, ``<operation>_<operand>_backward``, and take the methods to use first: a backend's,
on arrays, or the differentiable ones, on Vars. ``lhs_shape`` is the shape of the operand `lhs`, which then need not be kept.
"""

from typing import Any

__all__ = ["sum_to"]


def sum_to(ops: Any, grad: Any, shape: tuple[int, ...]) -> Any:
    """`grad` summed over the axes along which an operand of `shape` was broadcast."""
    if grad.shape == shape:
        return grad
    new = grad.ndim - len(shape)
    axes = tuple(a for a in range(grad.ndim) if a < new or shape[a - new] != grad.shape[a])
    return ops.reduce_sum(grad, axis=axes, keepdims=True).reshape(shape)


def add_lhs_backward(ops: Any, output_grad: Any, lhs_shape: tuple[int, ...]) -> Any:
    return sum_to(ops, output_grad, lhs_shape)


def add_rhs_backward(ops: Any, output_grad: Any, rhs_shape: tuple[int, ...]) -> Any:
    return sum_to(ops, output_grad, rhs_shape)


def sub_lhs_backward(ops: Any, output_grad: Any, lhs_shape: tuple[int, ...]) -> Any:
    return sum_to(ops, output_grad, lhs_shape)


def sub_rhs_backward(ops: Any, output_grad: Any, rhs_shape: tuple[int, ...]) -> Any:
    return ops.neg(sum_to(ops, output_grad, rhs_shape))


def mul_lhs_backward(ops: Any, output_grad: Any, rhs: Any, lhs_shape: tuple[int, ...]) -> Any:
    return sum_to(ops, ops.mul(output_grad, rhs), lhs_shape)


def mul_rhs_backward(ops: Any, output_grad: Any, lhs: Any, rhs_shape: tuple[int, ...]) -> Any:
    return sum_to(ops, ops.mul(output_grad, lhs), rhs_shape)


def div_lhs_backward(ops: Any, output_grad: Any, rhs: Any, lhs_shape: tuple[int, ...]) -> Any:
    return sum_to(ops, ops.div(output_grad, rhs), lhs_shape)


def div_rhs_backward(ops: Any, output_grad: Any, output: Any, rhs: Any, rhs_shape: tuple[int, ...]) -> Any:
    # d(l/r)/dr = −(l/r)/r
    return sum_to(ops, ops.neg(ops.div(ops.mul(output_grad, output), rhs)), rhs_shape)


def matmul_lhs_backward(ops: Any, output_grad: Any, rhs: Any, lhs_shape: tuple[int, ...]) -> Any:
    g, rhs = matrices(output_grad, rhs, lhs_shape)
    return sum_to(ops, ops.matmul(g, swapped(rhs)), lhs_shape if len(lhs_shape) > 1 else (1, *lhs_shape)).reshape(lhs_shape)


def matmul_rhs_backward(ops: Any, output_grad: Any, lhs: Any, lhs_shape: tuple[int, ...], rhs_shape: tuple[int, ...]) -> Any:
    g = output_grad
    if len(rhs_shape) == 1:
        g = g.reshape((*g.shape, 1))
    if len(lhs_shape) == 1:
        g = g.reshape((*g.shape[:-1], 1, g.shape[-1]))
        lhs = lhs.reshape((1, *lhs_shape))
    return sum_to(ops, ops.matmul(swapped(lhs), g), rhs_shape if len(rhs_shape) > 1 else (*rhs_shape, 1)).reshape(rhs_shape)


def matrices(g: Any, rhs: Any, lhs_shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The gradient and the right operand with the axes that NumPy's rules add to a vector."""
    if rhs.ndim == 1:
        g, rhs = g.reshape((*g.shape, 1)), rhs.reshape((*rhs.shape, 1))
    if len(lhs_shape) == 1:
        g = g.reshape((*g.shape[:-1], 1, g.shape[-1]))
    return g, rhs


def swapped(matrix: Any) -> Any:
    n = matrix.ndim
    return matrix.transpose((*range(n - 2), n - 1, n - 2))
