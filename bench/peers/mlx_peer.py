"""MLX on the CPU, where it is installed: channels last, evaluated at once.

MLX runs one operation on one stream and reads no thread count: the process is bound to as many CPUs as it may use threads.
"""

import os

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from ..engine import Contestant, Engine

__all__ = ["MlxPeer"]

FORWARD = {
    "add": mx.add, "sub": mx.subtract, "mul": mx.multiply, "div": mx.divide, "maximum": mx.maximum, "minimum": mx.minimum,
    "exp": mx.exp, "log": mx.log, "sqrt": mx.sqrt, "erf": mx.erf, "relu": nn.relu, "sigmoid": mx.sigmoid, "tanh": mx.tanh,
    "silu": nn.silu, "elu": nn.elu,
    "gelu": lambda x, approximate="none": nn.gelu(x) if approximate == "none" else nn.gelu_approx(x),
    "reduce_sum": mx.sum, "reduce_mean": mx.mean, "reduce_max": mx.max, "argmax": mx.argmax, "logsumexp": mx.logsumexp,
    "softmax": lambda x, axis=-1: mx.softmax(x, axis), "log_softmax": lambda x, axis=-1: nn.log_softmax(x, axis),
    "cross_entropy": lambda logits, targets: nn.losses.cross_entropy(logits, targets, reduction="mean"),
    "matmul": mx.matmul, "linear": lambda x, weight, bias: mx.addmm(bias, x, weight),
    "embedding": lambda weights, indices: weights[indices],
    "layer_norm": mx.fast.layer_norm, "rms_norm": mx.fast.rms_norm,
}  # fmt: skip


UNLIKE = ("linear",)  # gradients that do not take all operands of their forward


def to_last(a):
    """Channels from the second axis to the last, in memory too."""
    return np.ascontiguousarray(np.moveaxis(a, 1, -1))


class MlxPeer(Engine):
    name = "mlx"

    def __init__(self, threads):
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
        mx.set_default_device(mx.cpu)

    def version(self):
        return mx.__version__

    def contestants(self, job):
        method = job.workload.method
        if job.into or job.workload.dtype == "float64":
            return []
        if method in ("conv1d", "conv2d", "conv3d"):
            return [self._convolution(job)]
        if method in FORWARD:
            operands = [mx.array(v) if isinstance(v, np.ndarray) else v for v in job.args.values()]
            return [evaluated(lambda: FORWARD[method](*operands, **job.options))]
        return self._gradient(job)

    def _convolution(self, job):
        x, weight = mx.array(to_last(job.args["x"])), mx.array(to_last(job.args["weight"]))
        options = {k: job.options[k] for k in ("stride", "padding", "groups") if k in job.options}
        if "dilation" in job.options:
            options["kernel_dilation"] = job.options["dilation"]

        def read(result):
            return (np.moveaxis(np.asarray(result), -1, 1),)

        return evaluated(lambda: mx.conv_general(x, weight, **options), read)

    def _gradient(self, job):
        operation = job.workload.method.removesuffix("_backward")
        taken = {k: v for k, v in job.args.items() if k != "output_grad"}
        simple = all(isinstance(v, np.ndarray) and v.dtype.kind == "f" for v in taken.values())
        if operation not in FORWARD or operation in UNLIKE or not simple or "output" in taken:
            return []
        g, operands = mx.array(job.args["output_grad"]), [mx.array(v) for v in taken.values()]

        def forward(*values):
            return FORWARD[operation](*values, **job.options)

        return [evaluated(lambda: mx.vjp(forward, operands, [g])[1])]


def evaluated(function, read=None):
    """MLX is lazy: a call ends when its result is there."""

    def call():
        result = function()
        mx.eval(result)
        return result

    return Contestant("", call, read) if read else Contestant("", call)
