"""Train a convolutional network on handwritten digits with nothing but a backend's own methods.

    python examples/train_digits.py
    python examples/train_digits.py --data fashion --backend threaded --epochs 3

The network is conv, batch_norm, relu, max_pool, all that once more, linear and cross_entropy; SGD with momentum trains
it. There is no automatic differentiation here: a layer's backward calls, in reverse, the names that its forward called,
with _backward added. By default the same training runs on CpuBackend and then on ThreadedCpuBackend, and the weights
must come out equal to the last bit.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

import digits_data
import numpy as np

import cpuops

try:
    import digits_plot
    from tqdm import tqdm
except ImportError as missing:
    sys.exit(f"train_digits.py: {missing}; get it with: pip install tqdm matplotlib")

CHANNELS = (16, 32)      # output channels of the two convolutions
EPSILON = 1e-5           # of the batch norms
STATISTICS_MEMORY = 0.9  # what the running mean and variance keep of themselves at a step
LEARNING_RATE = 0.1      # at the start; falls to 0 along a half cosine
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-3


# ---- layers: a forward returns its output and what its backward needs ----

def block_forward(ops, x, params, name):
    """3x3 convolution, batch norm, relu, 2x2 max pooling: [B, Cin, H, W] to [B, Cout, H // 2, W // 2]."""
    conv = ops.conv2d(x, params[f"{name}.weight"], padding=1)
    norm = ops.batch_norm_train(conv, params[f"{name}.gamma"], params[f"{name}.beta"], EPSILON)
    relu = ops.relu(norm.output)
    pool = ops.max_pool2d_with_indices(relu, 2)
    return pool.output, (x, conv, norm, relu, pool.indices)


def block_backward(ops, output_grad, saved, params, name, grads, *, x_grad=True):
    """Put the gradients of the block's parameters into grads; return the gradient of its input, if that is wanted."""
    x, conv, norm, relu, indices = saved
    g = ops.max_pool2d_with_indices_backward(relu, 2, output_grad, indices)
    g = ops.relu_backward(g, norm.output)
    g, grads[f"{name}.gamma"], grads[f"{name}.beta"] = ops.batch_norm_train_backward(
        conv, params[f"{name}.gamma"], norm.mean, norm.variance, EPSILON, g)
    grads[f"{name}.weight"] = ops.conv2d_weight_backward(x, params[f"{name}.weight"], g, padding=1)
    return ops.conv2d_x_backward(x, params[f"{name}.weight"], g, padding=1) if x_grad else None


def head_forward(ops, x, labels, params):
    """Mean cross entropy of one linear layer on the flattened channels."""
    flat = x.reshape(len(x), -1)
    logits = ops.linear(flat, params["linear.weight"], params["linear.bias"])
    return ops.cross_entropy(logits, labels), (x.shape, flat, labels, logits)


def head_backward(ops, output_grad, saved, params, grads):
    x_shape, flat, labels, logits = saved
    g = ops.cross_entropy_backward(output_grad, logits, labels)
    g, grads["linear.weight"], grads["linear.bias"] = ops.linear_backward(flat, params["linear.weight"], g)
    return g.reshape(x_shape)


# ---- the network ----

def new_parameters(rng, image_shape, classes):
    """Draw the weights (He: variance 2 / fan in); the running statistics start as those of a standard normal."""
    params, statistics = {}, {}
    c_in, h, w = image_shape
    for name, c_out in zip(("block1", "block2"), CHANNELS, strict=True):
        params[f"{name}.weight"] = rng.normal(0, (2 / (c_in * 9)) ** 0.5, (c_out, c_in, 3, 3))
        params[f"{name}.gamma"], params[f"{name}.beta"] = np.ones(c_out), np.zeros(c_out)
        statistics[f"{name}.mean"], statistics[f"{name}.variance"] = np.zeros(c_out), np.ones(c_out)
        c_in, h, w = c_out, h // 2, w // 2
    features = c_in * h * w
    params["linear.weight"] = rng.normal(0, (1 / features) ** 0.5, (features, classes))
    params["linear.bias"] = np.zeros(classes)
    return [{name: value.astype(np.float32) for name, value in group.items()} for group in (params, statistics)]


def loss_and_gradients(ops, params, images, labels):
    """One pass forward and back: the loss, every parameter's gradient and the statistics of this batch."""
    x1, saved1 = block_forward(ops, images, params, "block1")
    x2, saved2 = block_forward(ops, x1, params, "block2")
    loss, saved3 = head_forward(ops, x2, labels, params)

    grads = {}
    g = head_backward(ops, np.ones_like(loss), saved3, params, grads)
    g = block_backward(ops, g, saved2, params, "block2", grads)
    block_backward(ops, g, saved1, params, "block1", grads, x_grad=False)

    norms = {"block1": saved1[2], "block2": saved2[2]}
    statistics = {f"{name}.{field}": getattr(norm, field)
                  for name, norm in norms.items() for field in ("mean", "variance")}
    return float(loss), grads, statistics


def predict(ops, params, statistics, images, batch=500):
    """Class probabilities with the running statistics in place of the batch's: [N, classes]."""
    def probabilities(x):
        for name in ("block1", "block2"):
            x = ops.conv2d(x, params[f"{name}.weight"], padding=1)
            x = ops.batch_norm(x, params[f"{name}.gamma"], params[f"{name}.beta"],
                               statistics[f"{name}.mean"], statistics[f"{name}.variance"], EPSILON)
            x = ops.max_pool2d(ops.relu(x), 2)
        return ops.softmax(ops.linear(x.reshape(len(x), -1), params["linear.weight"], params["linear.bias"]))
    return np.concatenate([probabilities(images[i:i + batch]) for i in range(0, len(images), batch)])


# ---- training ----

class Run(NamedTuple):
    """What one backend's training leaves behind; seconds are those of the training steps alone."""

    backend: object
    params: dict
    statistics: dict
    losses: list       # a number a step
    accuracies: list   # a number an epoch, on the held-out images
    probabilities: np.ndarray
    images: int
    seconds: float


def train(ops, data, epochs, batch, seed):
    """Train a new network; the order of the images and the first weights depend on the seed alone."""
    rng = np.random.default_rng(seed)
    params, statistics = new_parameters(rng, data.train_images.shape[1:], len(data.classes))
    velocity = {name: np.zeros_like(value) for name, value in params.items()}
    steps_per_epoch = len(data.train_images) // batch
    losses, accuracies, seconds = [], [], 0.0

    with tqdm(total=epochs * steps_per_epoch * batch, desc=label(ops), unit=" images", unit_scale=True) as bar:
        for _ in range(epochs):
            for chosen in rng.permutation(len(data.train_images))[:steps_per_epoch * batch].reshape(-1, batch):
                start = time.perf_counter()
                rate = LEARNING_RATE * (1 + np.cos(np.pi * len(losses) / (epochs * steps_per_epoch))) / 2
                loss, grads, batch_statistics = loss_and_gradients(
                    ops, params, data.train_images[chosen], data.train_labels[chosen])
                sgd_step(params, grads, velocity, np.float32(rate))
                for name, value in batch_statistics.items():
                    statistics[name] += np.float32(1 - STATISTICS_MEMORY) * (value - statistics[name])
                seconds += time.perf_counter() - start
                losses.append(loss)
                bar.update(batch)
                bar.set_postfix(loss=f"{np.mean(losses[-20:]):.3f}", refresh=False,
                                accuracy=f"{accuracies[-1]:.2%}" if accuracies else "")
            probabilities = predict(ops, params, statistics, data.test_images)
            accuracies.append(float((probabilities.argmax(axis=1) == data.test_labels).mean()))
        bar.set_postfix(loss=f"{np.mean(losses[-20:]):.3f}", accuracy=f"{accuracies[-1]:.2%}")
    return Run(ops, params, statistics, losses, accuracies, probabilities, len(losses) * batch, seconds)


def sgd_step(params, grads, velocity, rate):
    """v = momentum v + g + decay w; w = w - rate v, in place."""
    for name, w in params.items():
        v = velocity[name]
        v *= np.float32(MOMENTUM)
        v += grads[name]
        if name.endswith("weight"):
            v += np.float32(WEIGHT_DECAY) * w
        w -= rate * v
