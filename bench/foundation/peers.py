"""The libraries that cpuops is compared with: which are installed, how they are limited to some threads."""

import os
import sys
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, version

# Settings that pin NumPy's OpenBLAS to another machine's kernels: a peer must run at its best.
OPENBLAS_PINS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def without_openblas_pins(module):
    """Start this process anew without them (OpenBLAS reads them when it is loaded); returns where there are none."""
    if any(name in os.environ for name in OPENBLAS_PINS):
        environment = {name: value for name, value in os.environ.items() if name not in OPENBLAS_PINS}
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], environment)


class NumpyPeer:
    """NumPy, and with it OpenBLAS."""

    name = "numpy"

    def __init__(self):
        import threadpoolctl

        self._controller = threadpoolctl.ThreadpoolController()
        blas = self._controller.select(user_api="blas").info()
        kernels = ", ".join(f"{b['internal_api']} {b['version']} {b.get('architecture', '')}" for b in blas)
        self.version = f"{version('numpy')} ({kernels})"

    def convert(self, operand):
        return operand

    def to_numpy(self, result):
        return result

    @contextmanager
    def threads(self, count):
        with self._controller.limit(limits=count, user_api="blas"):
            yield


class TorchPeer:
    """PyTorch, eager, on contiguous (NCHW) tensors that share the operands' memory."""

    name = "torch"

    def __init__(self):
        import torch

        self.torch = torch
        self.version = torch.__version__

    def convert(self, operand):
        import numpy as np

        return self.torch.from_numpy(operand) if isinstance(operand, np.ndarray) else operand

    def to_numpy(self, result):
        if isinstance(result, (tuple, list)):
            return [self.to_numpy(part) for part in result]
        return result.detach().numpy() if isinstance(result, self.torch.Tensor) else result

    @contextmanager
    def threads(self, count):
        before = self.torch.get_num_threads()
        self.torch.set_num_threads(count)
        try:
            yield
        finally:
            self.torch.set_num_threads(before)


def installed(classes=(NumpyPeer, TorchPeer)):
    """The peers that are there, by name, and the names of those that are missing."""
    found, missing = {}, []
    for peer in classes:
        try:
            version(peer.name)
        except PackageNotFoundError:
            missing.append(peer.name)
        else:
            found[peer.name] = peer()
    return found, missing


@contextmanager
def limited(peers, threads):
    """Let every peer use that many threads, and no more."""
    with ExitStack() as stack:
        for peer in peers.values():
            stack.enter_context(peer.threads(threads))
        yield
