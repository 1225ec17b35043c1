"""Memory that a call needs beside its operands and its output, as the high water of the process."""

from pathlib import Path

import numpy as np

PROCESS = Path("/proc/self")
SHAPES = {"x": (8, 64, 224, 224), "weight": (64, 64, 3, 3), "output_grad": (8, 64, 224, 224)}
MEGABYTE = 1 << 20
DEMAND = 8 * MEGABYTE  # a thread


def resident(field):
    """VmRSS or VmHWM of this process, in bytes."""
    line = next(line for line in (PROCESS / "status").read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


def scratch_of(call):
    """How far the resident memory rises above its level before the call; the output must have its pages already."""
    (PROCESS / "clear_refs").write_text("5")  # the high water falls to the present level
    before = resident("VmRSS")
    call()
    return max(0, resident("VmHWM") - before)


def measure(backends):
    """Yield (name, threads, bytes, demand in bytes) of conv2d 64-64 3x3 on 8x64x224x224, forward and gradients.

    Every call is measured first with an empty pool, so that no scratch comes from a block that is resident already.
    """
    import cpuops

    rng = np.random.default_rng(0)
    x, weight, g = (rng.standard_normal(shape, dtype=np.float32) for shape in SHAPES.values())
    calls = {
        "conv2d": (x, (x, weight)),
        "conv2d_x_backward": (x, (x, weight, g)),
        "conv2d_weight_backward": (weight, (x, weight, g)),
        "conv2d_bias_backward": (weight[:, 0, 0, 0], (x, np.zeros(64, np.float32), g)),
    }
    for backend in backends:
        for method, (like, operands) in calls.items():
            options = {} if method == "conv2d_bias_backward" else {"padding": 1}
            out = np.ones(like.shape, np.float32)
            cpuops.memory.trim()
            call = partial_out(getattr(backend, method), operands, options, out)
            yield method, backend.num_threads, scratch_of(call), DEMAND * backend.num_threads


def partial_out(method, operands, options, out):
    return lambda: method(*operands, **options, out=out)
