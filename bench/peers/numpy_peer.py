"""NumPy with its OpenBLAS: functions that NumPy has itself, into memory that exists where a function has `out=`, and the
expression of a workload that has one.

The parent clears every variable that OpenBLAS reads (core type and cache size among them), so that it chooses its kernels
for this CPU by itself.
"""

from functools import partial

import numpy as np

from ..engine import Contestant, Engine

__all__ = ["NumpyPeer"]

# method -> a function of the operands; all take out=
UFUNCS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum, "minimum": np.minimum,
    "exp": np.exp, "log": np.log, "expm1": np.expm1, "log1p": np.log1p, "sqrt": np.sqrt, "tanh": np.tanh, "abs": np.abs,
    "square": np.square, "neg": np.negative, "reciprocal": np.reciprocal, "matmul": np.matmul, "exp_backward": np.multiply,
}  # fmt: skip
REDUCTIONS = {"reduce_sum": np.sum, "reduce_mean": np.mean, "reduce_max": np.max, "reduce_min": np.min, "argmax": np.argmax}


def relu(x, out=None):
    return np.maximum(x, np.float32(0) if x.dtype == np.float32 else 0.0, out=out)


def matmul_backward(output_grad, lhs, rhs):
    return np.matmul(output_grad, rhs.swapaxes(-1, -2)), np.matmul(lhs.swapaxes(-1, -2), output_grad)


def linear(x, weight, bias):
    y = np.matmul(x, weight)
    y += bias
    return y


def linear_backward(x, weight, output_grad):
    return output_grad @ weight.T, x.T @ output_grad, output_grad.sum(0)


FUNCTIONS = {
    "matmul_backward": matmul_backward,
    "linear": linear,
    "linear_x_backward": lambda weight, output_grad: output_grad @ weight.T,
    "linear_weight_backward": lambda x, output_grad: x.T @ output_grad,
    "linear_bias_backward": lambda output_grad: output_grad.sum(0),
    "linear_backward": linear_backward,
    "embedding": lambda weights, indices: weights[indices],
}


class NumpyPeer(Engine):
    name = "numpy"

    def __init__(self, threads):
        from threadpoolctl import threadpool_info, threadpool_limits

        threadpool_limits(threads)
        self.blas = next((i for i in threadpool_info() if i["user_api"] == "blas"), {})

    def version(self):
        blas = " ".join(str(self.blas[k]) for k in ("internal_api", "version", "architecture") if self.blas.get(k))
        return f"{np.__version__} {blas}".strip()

    def contestants(self, job):
        expression = getattr(job.workload, "expression", None)
        if expression is not None:
            return [Contestant("expression", partial(expression, *job.arrays.values()))]
        method, operands = job.workload.method, list(job.args.values())
        if method == "relu":
            function = relu
        elif method in UFUNCS:
            function = UFUNCS[method]
        elif method in REDUCTIONS:
            return [Contestant("", partial(REDUCTIONS[method], *operands, **job.options))]
        elif method in FUNCTIONS:
            return [] if job.into else [Contestant("", partial(FUNCTIONS[method], *operands))]
        else:
            return []
        if job.into:
            out = np.zeros_like(function(*operands))
            return [Contestant("out", partial(function, *operands, out=out))]
        return [Contestant("", partial(function, *operands))]
