"""The network of train_digits.py, written with nothing but a backend's own methods.

Conv, batch_norm, relu, max_pool, all that once more, linear and cross_entropy. There is no automatic differentiation here:
a layer's backward calls, in reverse, the names that its forward called, with _backward added. `ops` is a backend,
`params` a dict of its float32 parameters; dims: B batch, C channels, H W image.
"""

import numpy as np

CHANNELS = (16, 32)  # output channels of the two convolutions
EPSILON = 1e-5  # of the batch norms
STATISTICS_MEMORY = 0.9  # what the running mean and variance keep of themselves at a step
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
    gamma = params[f"{name}.gamma"]
    norm_grads = ops.batch_norm_train_backward(conv, gamma, norm.mean, norm.variance, EPSILON, g)
    g, grads[f"{name}.gamma"], grads[f"{name}.beta"] = norm_grads
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
    """One pass forward and back: the loss, every parameter's gradient, and the batch norms' results."""
    x1, saved1 = block_forward(ops, images, params, "block1")
    x2, saved2 = block_forward(ops, x1, params, "block2")
    loss, saved3 = head_forward(ops, x2, labels, params)

    grads = {}
    g = head_backward(ops, np.ones_like(loss), saved3, params, grads)
    g = block_backward(ops, g, saved2, params, "block2", grads)
    block_backward(ops, g, saved1, params, "block1", grads, x_grad=False)

    return float(loss), grads, {"block1": saved1[2], "block2": saved2[2]}


# ---- a training step ----


def sgd_step(params, grads, velocity, rate):
    """v = momentum v + grad + decay w, then w = w - rate v, in place; only weights decay."""
    for name, w in params.items():
        v = velocity[name]
        v *= np.float32(MOMENTUM)
        v += grads[name]
        if name.endswith("weight"):
            v += np.float32(WEIGHT_DECAY) * w
        w -= rate * v


def follow(statistics, norms):
    """Move the running mean and variance of each batch norm towards those of the last batch."""
    for name, norm in norms.items():
        for field in ("mean", "variance"):
            running = statistics[f"{name}.{field}"]
            running += np.float32(1 - STATISTICS_MEMORY) * (getattr(norm, field) - running)
