"""Matrix products, linear layers, embedding."""

import numpy as np

from oracle.elementwise import UNARY, gelu_of, gelu_slope, unbroadcast


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


def activated(activation):
    """(function, derivative) of an activation."""
    if activation == "gelu_tanh":
        return lambda x: gelu_of(x, "tanh"), lambda x: gelu_slope(x, "tanh")
    return UNARY[activation]


def linear_activation_with_sum(x, weight, bias=None, *, activation):
    """The activation of the sum, and the sum."""
    total = linear(x, weight, bias)
    return activated(activation)[0](total), total


def linear_activation(x, weight, bias=None, *, activation):
    """The activation of the sum."""
    return linear_activation_with_sum(x, weight, bias, activation=activation)[0]


def linear_activation_backward(x, weight, bias, sum, output_grad, *, activation, x_grad=True):
    """The linear layer's gradients of what arrives at the sum."""
    grads = linear_backward(x, weight, output_grad * activated(activation)[1](sum))
    return grads[0] if x_grad else None, grads[1], None if bias is None else grads[2]


def embedding(weights, indices):
    """Rows of weights."""
    return weights[indices]


def embedding_backward(weights, output_grad, indices):
    """Each row of the gradient is added to the row it came from."""
    grad = np.zeros(weights.shape)
    for at in np.ndindex(indices.shape):
        grad[indices[at]] += output_grad[at]
    return grad
