"""Matrix products, linear layers, embedding."""

import numpy as np

from oracle.elementwise import unbroadcast


def matmul(lhs, rhs):
    """NumPy's rules."""
    return np.matmul(lhs, rhs)


def matmul_backward(output_grad, lhs, rhs):
    """(g·rhsᵀ, lhsᵀ·g), summed over repeated batch axes; vectors stand for matrices with one row or column."""
    a = lhs[None, :] if lhs.ndim == 1 else lhs
    b = rhs[:, None] if rhs.ndim == 1 else rhs
    g = output_grad
    if rhs.ndim == 1:
        g = np.expand_dims(g, -1)
    if lhs.ndim == 1:
        g = np.expand_dims(g, -2)
    lhs_grad = unbroadcast(np.matmul(g, b.swapaxes(-1, -2)), a.shape)
    rhs_grad = unbroadcast(np.matmul(a.swapaxes(-1, -2), g), b.shape)
    return lhs_grad.reshape(lhs.shape), rhs_grad.reshape(rhs.shape)


def linear(x, weight, bias=None):
    """x·weight + bias."""
    y = np.matmul(x, weight)
    return y if bias is None else y + bias


def linear_x_backward(weight, output_grad):
    """g·weightᵀ."""
    return np.matmul(output_grad, weight.T)


def linear_weight_backward(x, output_grad):
    """xᵀ·g over every leading axis."""
    leading = list(range(x.ndim - 1))
    return np.tensordot(x, output_grad, (leading, leading))


def linear_bias_backward(output_grad):
    """Σ g over every leading axis."""
    return output_grad.sum(tuple(range(output_grad.ndim - 1)))


def linear_backward(x, weight, output_grad):
    """All three."""
    return (
        linear_x_backward(weight, output_grad),
        linear_weight_backward(x, output_grad),
        linear_bias_backward(output_grad),
    )


def embedding(weights, indices):
    """Rows of weights."""
    return weights[indices]


def embedding_backward(weights, output_grad, indices):
    """Each row of the gradient is added to the row it came from."""
    grad = np.zeros(weights.shape)
    for at in np.ndindex(indices.shape):
        grad[indices[at]] += output_grad[at]
    return grad
