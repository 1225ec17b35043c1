"""The calls whose instructions are counted; run under callgrind by instructions.py.

Between the calls stands os.getppid(), which the tool dumps and resets its counts at.
"""

import os
import sys

import cpuops

from .workloads import WORKLOADS

__all__ = ["CALLS", "REPEATS"]

# a dozen calls that take every road: overhead, vector math, rows, products of several shapes, windows, scatter
CALLS = (
    "relu/64", "add/64", "exp/1e3", "mul/rows-1000x1000", "gelu_backward/1e5", "reduce_sum/rows-1000x1000",
    "softmax/attention-96x128x128", "matmul/64", "matmul/256", "conv2d/lenet-5x5-6to16@14",
    "conv2d_x_backward/lenet-5x5-6to16@14", "conv2d_weight_backward/lenet-5x5-6to16@14", "max_pool2d_with_indices/vgg-2x2",
    "layer_norm_backward/transformer-512x768", "cross_entropy/digits-4096x10",
)  # fmt: skip
REPEATS = 3


def main():
    backend = cpuops.CpuBackend()
    for name in sys.argv[1:]:
        workload = WORKLOADS[name]
        job = workload.job(backend)
        call = workload.call(job, backend)
        call()
        call()  # the second finds its memory in the pool
        os.getppid()
        for _ in range(REPEATS):
            call()
        os.getppid()


if __name__ == "__main__":
    main()
