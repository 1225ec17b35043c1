"""JAX on the CPU: every workload is one jitted function, a gradient one through jax.vjp.

XLA has no reliable thread count of its own: the process is bound to as many CPUs as it may use threads.
"""

import os

import numpy as np

from ..engine import Contestant, Engine

__all__ = ["JaxPeer"]


class JaxPeer(Engine):
    name = "jax"

    def __init__(self, threads):
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
        os.environ["JAX_PLATFORMS"] = "cpu"
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=" + ("false" if threads == 1 else "true")
        import jax

        jax.config.update("jax_enable_x64", True)
        self.jax = jax

    def version(self):
        return self.jax.__version__

    def contestants(self, job):
        from .jax_ops import function_of

        if job.into:
            return []  # arrays of JAX cannot be written to
        made = function_of(job.workload.method, job.args, job.options)
        if made is None:
            return []
        function, operands = made
        jitted = self.jax.jit(function)
        arrays = [self.jax.device_put(v) for v in operands]

        def call():
            return self.jax.block_until_ready(jitted(*arrays))

        return [Contestant("jit", call, read)]


def read(result):
    several = result if isinstance(result, tuple | list) else (result,)
    return tuple(None if r is None else np.asarray(r) for r in several)
