"""The training steps of workloads/step.py in eager torch: forward, loss, and autograd's gradients of every parameter."""

from functools import partial

import torch
import torch.nn.functional as F

__all__ = ["STEPS"]

EPSILON = 1e-5


def trainable(arrays, frozen):
    """The tensors, of which all but the frozen ones want a gradient."""
    return {k: v if k in frozen else v.detach().requires_grad_() for k, v in arrays.items()}


def step(forward, frozen):
    """The step of a network from its forward pass `forward(**tensors) -> loss`: (loss, gradients in the tensors' order)."""

    def build(arrays):
        tensors = trainable(arrays, frozen)
        leaves = [v for k, v in tensors.items() if k not in frozen]

        def run():
            with torch.enable_grad():
                loss = forward(**tensors)
            return loss, *torch.autograd.grad(loss, leaves)

        return run

    return build


def dense(x, weight, bias):
    return torch.addmm(bias, x, weight)


def mlp(x, labels, w0, b0, w1, b1, w2, b2):
    h = F.relu(dense(x, w0, b0))
    h = F.relu(dense(h, w1, b1))
    return F.cross_entropy(dense(h, w2, b2), labels)


def lenet(x, labels, k0, k1, w0, b0, w1, b1, w2, b2):
    h = F.max_pool2d(F.relu(F.conv2d(x, k0, padding=2)), 2)
    h = F.max_pool2d(F.relu(F.conv2d(h, k1)), 2).flatten(1)
    h = F.relu(dense(h, w0, b0))
    h = F.relu(dense(h, w1, b1))
    return F.cross_entropy(dense(h, w2, b2), labels)


batch_norm = partial(F.batch_norm, running_mean=None, running_var=None, training=True, eps=EPSILON)


def block(x, target, k0, gamma0, beta0, k1, gamma1, beta1):
    h = F.relu(batch_norm(F.conv2d(x, k0, padding=1), weight=gamma0, bias=beta0))
    y = F.relu(batch_norm(F.conv2d(h, k1, padding=1), weight=gamma1, bias=beta1) + x)
    return F.mse_loss(y, target)


def digits(images, labels, **params):
    h = images
    for name in ("block1", "block2"):
        h = F.conv2d(h, params[f"{name}.weight"], padding=1)
        h = F.max_pool2d(F.relu(batch_norm(h, weight=params[f"{name}.gamma"], bias=params[f"{name}.beta"])), 2)
    return F.cross_entropy(dense(h.flatten(1), params["linear.weight"], params["linear.bias"]), labels)


def feed_forward(x, target, gamma, beta, w0, b0, w1, b1):
    n = F.layer_norm(x, (x.shape[-1],), gamma, beta, EPSILON)
    return F.mse_loss(x + dense(F.gelu(dense(n, w0, b0)), w1, b1), target)


# network of a StepWorkload -> its builder
STEPS = {
    "mlp": step(mlp, ("x", "labels")),
    "digits": step(digits, ("images", "labels")),
    "lenet": step(lenet, ("x", "labels")),
    "resnet-block": step(block, ("target",)),
    "feed-forward": step(feed_forward, ("target",)),
}
