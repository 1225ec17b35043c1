"""Normalisation: x̂ = (x − mean)/√(variance + ε) over some axes, then gamma·x̂ + beta.

A gradient g·gamma =: h reaches x as (h − mean h − x̂·mean(h·x̂))/√(variance + ε) when the statistics are x's own.
"""

import numpy as np


def across(values, x):
    """One value a channel (axis 1), shaped to meet x."""
    return values.reshape((1, -1) + (1,) * (x.ndim - 2))


def other_axes(x):
    return (0, *tuple(range(2, x.ndim)))


def own_x_grad(h, hat, root, axes):
    centred = h - h.mean(axes, keepdims=True) - hat * (h * hat).mean(axes, keepdims=True)
    return centred / root


def batch_norm(x, gamma, beta, mean, variance, epsilon):
    """Given statistics."""
    root = np.sqrt(across(variance, x) + epsilon)
    return (x - across(mean, x)) / root * across(gamma, x) + across(beta, x)


def batch_norm_backward(x, gamma, mean, variance, epsilon, output_grad):
    """The statistics are constants."""
    root = np.sqrt(across(variance, x) + epsilon)
    hat = (x - across(mean, x)) / root
    axes = other_axes(x)
    return output_grad * across(gamma, x) / root, (output_grad * hat).sum(axes), output_grad.sum(axes)


def batch_norm_train(x, gamma, beta, epsilon):
    """The batch's own statistics, which are returned too."""
    if x.size == 0:
        return x.copy(), np.zeros(gamma.shape), np.zeros(gamma.shape)
    axes = other_axes(x)
    mean = x.mean(axes)
    variance = ((x - across(mean, x)) ** 2).mean(axes)
    return batch_norm(x, gamma, beta, mean, variance, epsilon), mean, variance


def batch_norm_train_backward(x, gamma, mean, variance, epsilon, output_grad):
    """The statistics depend on x."""
    if x.size == 0:
        return x.copy(), np.zeros(gamma.shape), np.zeros(gamma.shape)
    root = np.sqrt(across(variance, x) + epsilon)
    hat = (x - across(mean, x)) / root
    axes = other_axes(x)
    x_grad = own_x_grad(output_grad * across(gamma, x), hat, root, axes)
    return x_grad, (output_grad * hat).sum(axes), output_grad.sum(axes)


def layer_norm(x, gamma, beta=None, epsilon=1e-5):
    """Over the last axis."""
    centred = x - x.mean(-1, keepdims=True)
    y = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * gamma
    return y if beta is None else y + beta


def layer_norm_backward(x, gamma, epsilon, output_grad):
    """Gradients to x, gamma, beta."""
    centred = x - x.mean(-1, keepdims=True)
    root = np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    hat, rows = centred / root, tuple(range(x.ndim - 1))
    return own_x_grad(output_grad * gamma, hat, root, -1), (output_grad * hat).sum(rows), output_grad.sum(rows)


def rms_norm(x, gamma, epsilon=1e-5):
    """x over its root mean square."""
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * gamma


def rms_norm_backward(x, gamma, epsilon, output_grad):
    """Gradients to x and gamma."""
    root = np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)
    hat, h = x / root, output_grad * gamma
    x_grad = (h - hat * (h * hat).mean(-1, keepdims=True)) / root
    return x_grad, (output_grad * hat).sum(tuple(range(x.ndim - 1)))


def grouped(x, num_groups):
    """[B, G, everything of a group]."""
    return x.reshape(x.shape[0], num_groups, -1) if x.size else x.reshape(x.shape[0], num_groups, 0)


def group_norm(x, num_groups, gamma=None, beta=None, epsilon=1e-5):
    """Over the channels of a group and all spatial axes."""
    if x.size == 0:
        return x.copy()
    rows = grouped(x, num_groups)
    centred = rows - rows.mean(-1, keepdims=True)
    y = (centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)).reshape(x.shape)
    y = y if gamma is None else y * across(gamma, x)
    return y if beta is None else y + across(beta, x)


def group_norm_backward(x, num_groups, gamma, epsilon, output_grad):
    """Gradients to x, gamma, beta."""
    if x.size == 0:
        return x.copy(), np.zeros(x.shape[1]), np.zeros(x.shape[1])
    rows = grouped(x, num_groups)
    centred = rows - rows.mean(-1, keepdims=True)
    root = np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    hat = centred / root
    h = output_grad if gamma is None else output_grad * across(gamma, x)
    x_grad = own_x_grad(grouped(h, num_groups), hat, root, -1).reshape(x.shape)
    axes = other_axes(x)
    return x_grad, (output_grad * hat.reshape(x.shape)).sum(axes), output_grad.sum(axes)


def instance_norm(x, gamma=None, beta=None, epsilon=1e-5):
    """One group a channel."""
    return group_norm(x, x.shape[1], gamma, beta, epsilon)


def instance_norm_backward(x, gamma, epsilon, output_grad):
    """Gradients to x, gamma, beta."""
    return group_norm_backward(x, x.shape[1], gamma, epsilon, output_grad)


def add_layer_norm(x, residual, gamma, beta=None, epsilon=1e-5):
    """The sum normalised, and the sum."""
    return layer_norm(x + residual, gamma, beta, epsilon), x + residual


def add_layer_norm_backward(sum, gamma, epsilon, output_grad, sum_grad=None):
    """Gradients to x and residual (the same), gamma, beta."""
    grad, gamma_grad, beta_grad = layer_norm_backward(sum, gamma, epsilon, output_grad)
    grad = grad if sum_grad is None else grad + sum_grad
    return grad, grad, gamma_grad, beta_grad


def add_rms_norm(x, residual, gamma, epsilon=1e-5):
    """The sum over its root mean square, and the sum."""
    return rms_norm(x + residual, gamma, epsilon), x + residual


def add_rms_norm_backward(sum, gamma, epsilon, output_grad, sum_grad=None):
    """Gradients to x and residual (the same) and gamma."""
    grad, gamma_grad = rms_norm_backward(sum, gamma, epsilon, output_grad)
    grad = grad if sum_grad is None else grad + sum_grad
    return grad, grad, gamma_grad
