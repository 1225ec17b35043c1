"""Whole training steps: forward, loss, and the gradient of every parameter, by a backend's own methods.

A step is written over `ops`, which is a backend or the float64 oracle.
"""

from itertools import pairwise

import digits_network  # of examples/
import numpy as np

from .base import StepWorkload, normal

EPSILON = 1e-5


def he(rng, *shape, fan_in):
    return normal(rng, *shape, spread=(2 / fan_in) ** 0.5)


def one_like(loss):
    return np.ones_like(np.asarray(loss))


# ---------------------------------------------------------------- MLP: 784 - 512 - 256 - 10, relu, cross entropy

MLP = (784, 512, 256, 10)


def draw_mlp(batch):
    def draw(rng):
        arrays = {"x": normal(rng, batch, MLP[0]), "labels": rng.integers(0, MLP[-1], batch)}
        for i, (d_in, d_out) in enumerate(pairwise(MLP)):
            arrays |= {f"w{i}": he(rng, d_in, d_out, fan_in=d_in), f"b{i}": normal(rng, d_out, spread=0.1)}
        return arrays

    return draw


def mlp_step(ops, x, labels, **params):
    layers = len(MLP) - 1
    inputs, sums = [x], []
    for i in range(layers):
        sums.append(ops.linear(inputs[-1], params[f"w{i}"], params[f"b{i}"]))
        if i < layers - 1:
            inputs.append(ops.relu(sums[-1]))
    loss = ops.cross_entropy(sums[-1], labels)
    grads = []
    g = ops.cross_entropy_backward(one_like(loss), sums[-1], labels)
    for i in reversed(range(layers)):
        grads = [ops.linear_weight_backward(inputs[i], g), ops.linear_bias_backward(g), *grads]
        if i:
            g = ops.relu_backward(ops.linear_x_backward(params[f"w{i}"], g), sums[i - 1])
    return loss, *grads


def mlp_products(x, **_):
    layers = [2 * len(x) * d_in * d_out for d_in, d_out in pairwise(MLP)]
    return 3 * sum(layers) - layers[0]  # no gradient to the first input


# ---------------------------------------------------------------- LeNet-5 with relu and max pooling


def draw_lenet(batch):
    def draw(rng):
        return {
            "x": normal(rng, batch, 1, 28, 28), "labels": rng.integers(0, 10, batch),
            "k0": he(rng, 6, 1, 5, 5, fan_in=25), "k1": he(rng, 16, 6, 5, 5, fan_in=150),
            "w0": he(rng, 400, 120, fan_in=400), "b0": normal(rng, 120, spread=0.1),
            "w1": he(rng, 120, 84, fan_in=120), "b1": normal(rng, 84, spread=0.1),
            "w2": he(rng, 84, 10, fan_in=84), "b2": normal(rng, 10, spread=0.1),
        }  # fmt: skip

    return draw


def lenet_step(ops, x, labels, k0, k1, w0, b0, w1, b1, w2, b2):
    c0 = ops.conv2d(x, k0, padding=2)
    r0 = ops.relu(c0)
    p0, i0 = ops.max_pool2d_with_indices(r0, 2)
    c1 = ops.conv2d(p0, k1)
    r1 = ops.relu(c1)
    p1, i1 = ops.max_pool2d_with_indices(r1, 2)
    flat = p1.reshape(len(x), -1)
    s0 = ops.linear(flat, w0, b0)
    h0 = ops.relu(s0)
    s1 = ops.linear(h0, w1, b1)
    h1 = ops.relu(s1)
    logits = ops.linear(h1, w2, b2)
    loss = ops.cross_entropy(logits, labels)

    g = ops.cross_entropy_backward(one_like(loss), logits, labels)
    w2_grad, b2_grad = ops.linear_weight_backward(h1, g), ops.linear_bias_backward(g)
    g = ops.relu_backward(ops.linear_x_backward(w2, g), s1)
    w1_grad, b1_grad = ops.linear_weight_backward(h0, g), ops.linear_bias_backward(g)
    g = ops.relu_backward(ops.linear_x_backward(w1, g), s0)
    w0_grad, b0_grad = ops.linear_weight_backward(flat, g), ops.linear_bias_backward(g)
    g = ops.linear_x_backward(w0, g).reshape(p1.shape)
    g = ops.relu_backward(ops.max_pool2d_with_indices_backward(r1, 2, g, i1), c1)
    k1_grad = ops.conv2d_weight_backward(p0, k1, g)
    g = ops.conv2d_x_backward(p0, k1, g)
    g = ops.relu_backward(ops.max_pool2d_with_indices_backward(r0, 2, g, i0), c0)
    k0_grad = ops.conv2d_weight_backward(x, k0, g, padding=2)
    return loss, k0_grad, k1_grad, w0_grad, b0_grad, w1_grad, b1_grad, w2_grad, b2_grad


def lenet_products(x, **_):
    first = 2 * 6 * 28 * 28 * 25
    rest = 2 * 16 * 10 * 10 * 150 + 2 * (400 * 120 + 120 * 84 + 84 * 10)
    return len(x) * (2 * first + 3 * rest)


# ---------------------------------------------------------------- a basic block of ResNet: two 3x3 convolutions and the sum


def draw_block(batch, c, size):
    def draw(rng):
        arrays = {"x": normal(rng, batch, c, size, size), "target": normal(rng, batch, c, size, size)}
        for i in (0, 1):
            arrays |= {f"k{i}": he(rng, c, c, 3, 3, fan_in=9 * c), f"gamma{i}": normal(rng, c) + 1.5, f"beta{i}": normal(rng, c)}
        return arrays

    return draw


def block_step(ops, x, target, k0, gamma0, beta0, k1, gamma1, beta1):
    c0 = ops.conv2d(x, k0, padding=1)
    n0, mean0, variance0 = ops.batch_norm_train(c0, gamma0, beta0, EPSILON)
    r0 = ops.relu(n0)
    c1 = ops.conv2d(r0, k1, padding=1)
    n1, mean1, variance1 = ops.batch_norm_train(c1, gamma1, beta1, EPSILON)
    s = ops.add(n1, x)
    y = ops.relu(s)
    loss = ops.mse_loss(y, target)

    g, _ = ops.mse_loss_backward(one_like(loss), y, target)
    shortcut = ops.relu_backward(g, s)
    g, gamma1_grad, beta1_grad = ops.batch_norm_train_backward(c1, gamma1, mean1, variance1, EPSILON, shortcut)
    k1_grad = ops.conv2d_weight_backward(r0, k1, g, padding=1)
    g = ops.relu_backward(ops.conv2d_x_backward(r0, k1, g, padding=1), n0)
    g, gamma0_grad, beta0_grad = ops.batch_norm_train_backward(c0, gamma0, mean0, variance0, EPSILON, g)
    k0_grad = ops.conv2d_weight_backward(x, k0, g, padding=1)
    x_grad = ops.add(shortcut, ops.conv2d_x_backward(x, k0, g, padding=1))
    return loss, x_grad, k0_grad, gamma0_grad, beta0_grad, k1_grad, gamma1_grad, beta1_grad


def block_products(x, k0, **_):
    return 2 * 3 * 2 * x.size * k0[0].size


# ---------------------------------------------------------------- the feed-forward half of a transformer block

WIDTH, HIDDEN = 256, 1024


def draw_feed_forward(tokens):
    def draw(rng):
        return {
            "x": normal(rng, tokens, WIDTH), "target": normal(rng, tokens, WIDTH),
            "gamma": normal(rng, WIDTH) + 1.5, "beta": normal(rng, WIDTH),
            "w0": he(rng, WIDTH, HIDDEN, fan_in=WIDTH), "b0": normal(rng, HIDDEN, spread=0.1),
            "w1": he(rng, HIDDEN, WIDTH, fan_in=HIDDEN), "b1": normal(rng, WIDTH, spread=0.1),
        }  # fmt: skip

    return draw


def feed_forward_step(ops, x, target, gamma, beta, w0, b0, w1, b1):
    n = ops.layer_norm(x, gamma, beta, EPSILON)
    s = ops.linear(n, w0, b0)
    h = ops.gelu(s)
    y = ops.add(x, ops.linear(h, w1, b1))
    loss = ops.mse_loss(y, target)

    g_y, _ = ops.mse_loss_backward(one_like(loss), y, target)
    g, w1_grad, b1_grad = ops.linear_backward(h, w1, g_y)
    g, w0_grad, b0_grad = ops.linear_backward(n, w0, ops.gelu_backward(g, s))
    g, gamma_grad, beta_grad = ops.layer_norm_backward(x, gamma, EPSILON, g)
    return loss, ops.add(g_y, g), gamma_grad, beta_grad, w0_grad, b0_grad, w1_grad, b1_grad


def feed_forward_products(x, w0, **_):
    return 3 * 2 * 2 * len(x) * w0.size


# ---------------------------------------------------------------- the network of examples/train_digits.py


def draw_digits(batch):
    def draw(rng):
        params, _ = digits_network.new_parameters(rng, (1, 28, 28), 10)
        return {"images": normal(rng, batch, 1, 28, 28), "labels": rng.integers(0, 10, batch), **params}

    return draw


def digits_step(ops, images, labels, **params):
    loss, grads, _ = digits_network.loss_and_gradients(ops, params, images, labels)
    return loss, *(grads[name] for name in params)


def digits_products(images, **params):
    first, second = params["block1.weight"].size * 28 * 28, params["block2.weight"].size * 14 * 14
    return len(images) * 2 * (2 * first + 3 * second + 3 * params["linear.weight"].size)


# ---------------------------------------------------------------- all of them

LINEAR = ("linear", "linear_x_backward", "linear_weight_backward", "linear_bias_backward")
CROSS_ENTROPY = ("cross_entropy", "cross_entropy_backward")
CONV = ("conv2d", "conv2d_x_backward", "conv2d_weight_backward")
POOL = ("max_pool2d_with_indices", "max_pool2d_with_indices_backward")
NORM = ("batch_norm_train", "batch_norm_train_backward")
MSE = ("mse_loss", "mse_loss_backward")
RELU = ("relu", "relu_backward")


def step(network, size, draw, function, products, *methods):
    more = {"network": network, "draw": draw, "step": function, "products": products, "methods": methods}
    return StepWorkload("step", "step", f"{network}-{size}", **more)


WORKLOADS = [
    step("mlp", "batch32", draw_mlp(32), mlp_step, mlp_products, *LINEAR, *RELU, *CROSS_ENTROPY),
    step("mlp", "batch256", draw_mlp(256), mlp_step, mlp_products, *LINEAR, *RELU, *CROSS_ENTROPY),
    step(
        "digits", "batch50", draw_digits(50), digits_step, digits_products,
        "linear", "linear_backward", *RELU, *CROSS_ENTROPY, *CONV, *POOL, *NORM,
    ),
    step("lenet", "batch64", draw_lenet(64), lenet_step, lenet_products, *LINEAR, *RELU, *CROSS_ENTROPY, *CONV, *POOL),
    step("resnet-block", "4x64x28x28", draw_block(4, 64, 28), block_step, block_products, *CONV, *NORM, *RELU, *MSE, "add"),
    step(
        "feed-forward", "512x256", draw_feed_forward(512), feed_forward_step, feed_forward_products,
        "linear", "linear_backward", "layer_norm", "layer_norm_backward", "gelu", "gelu_backward", "add", *MSE,
    ),
]  # fmt: skip
