"""PyTorch: NCHW and channels_last, `out=` where it has one, gradients by its aten backward functions or by autograd."""

from functools import partial

import numpy as np
import torch

from ..engine import Contestant, Engine
from . import torch_ops, torch_steps, torch_training

__all__ = ["TorchPeer"]


class TorchPeer(Engine):
    name = "torch"

    def __init__(self, threads):
        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)

    def version(self):
        return torch.__version__

    def contestants(self, job):
        method = job.workload.method
        if method == "step":
            build = torch_steps.STEPS.get(job.workload.network)
            return [Contestant("eager", build(tensors(job)), read)] if build else []
        if method == "training":
            return trained(job.workload.network, tensors(job))
        # once for the process: a context manager a call would cost microseconds
        torch.set_grad_enabled(False)
        args = tensors(job)
        if job.into:
            return into(method, args, job.options)
        found = ways("", method, args, job.options)
        if method.startswith(torch_ops.FOUR_AXES):
            found += ways("channels_last", method, {k: channels_last(v) for k, v in args.items()}, job.options)
        return found


def tensors(job):
    """The job's operands as tensors over the same memory."""
    return {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in job.args.items()}


def channels_last(value):
    four = isinstance(value, torch.Tensor) and value.dim() == 4
    return value.contiguous(memory_format=torch.channels_last) if four else value


def ways(variant, method, args, options):
    """The library's own function; autograd where there is none."""
    if method in torch_ops.FUNCTIONS:
        call = partial(torch_ops.FUNCTIONS[method], *args.values(), **options)
    elif method in torch_ops.PREPARED:
        call = torch_ops.PREPARED[method](*args.values(), **options)
    else:
        variant = f"{variant} autograd".strip()
        call = torch_ops.autograd(method, args, options) if "output_grad" in args else None
    return [Contestant(variant, call, read)] if call else []


def trained(network, arrays):
    """Eager, and compiled where torch can compile here: that takes a C++ compiler and a Python that it knows."""
    found = []
    for variant, build in torch_training.steps(network).items():
        call = build(arrays)
        if variant == "compiled":
            try:
                call()
            except Exception:  # whatever a compiler that is missing, or too old, leads to
                continue
        found.append(Contestant(variant, call, read))
    return found


def into(method, args, options):
    if method not in torch_ops.OUT:
        return []
    call, out = torch_ops.OUT[method](args, options)
    return [Contestant("out", call, lambda _: read(out))]


def read(result):
    several = result if isinstance(result, tuple | list) else (result,)
    return tuple(None if r is None else r.detach().contiguous().numpy() for r in several)
