"""Python code in a process of its own, with a time limit: what could hang, crash or change a process is tried there."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import cpuops

# what the code may use without saying so
PRELUDE = """
import hashlib, os, signal, sys, threading, time
import numpy as np
import cpuops
from cpuops import CpuBackend, ThreadedCpuBackend, _contention

# these processes are about threads: they use them on a busy machine, too
_contention.Watch.crowded = lambda self, cost_ns: False

def bits(*arrays):
    return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()

def inputs():
    g = np.random.default_rng(7)
    return g.standard_normal((300, 1024), dtype="f4"), g.standard_normal((256, 256), dtype="f4")

X, M = inputs()

def work(b):
    "The bits of a few calls that are worth threads."
    return bits(b.relu(X), b.exp(X), b.add(X, X), b.softmax(X), b.reduce_sum(X, axis=0), b.matmul(M, M))

def os_threads():
    return len(os.listdir("/proc/self/task"))

def forked(function, seconds=30):
    "The exit status of a forked child that runs function(): 0 when it returned True; 'hung' after the time."
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = 0 if function() is True else 1
        finally:
            os._exit(status)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hung"
"""


def environment(**extra):
    """This process's variables without those that set threads, levels or limits, and with the package under test."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("CPUOPS_", "OMP_", "GOMP_", "KMP_"))}
    env["PYTHONPATH"] = str(Path(cpuops.__file__).parent.parent)
    env["OPENBLAS_NUM_THREADS"] = "1"
    env["OMP_WAIT_POLICY"] = "passive"  # so that a busy machine does not stretch the tests; what is tested does not depend on it
    return env | extra


def run(code, *, seconds=60, prelude=True, expect=0, before=None, **env):
    """Run code in a fresh interpreter -> (what it printed, its errors); it must end in time with the expected status."""
    text = (PRELUDE if prelude else "") + textwrap.dedent(code)
    return _ended(["-c", text], seconds, expect, before, env)


def run_script(path, *args, seconds=60, **env):
    """The same for a file, which processes that are spawned can import."""
    return _ended([str(path), *args], seconds, 0, None, env)


def _ended(arguments, seconds, expect, before, env):
    command = [sys.executable, "-X", "faulthandler", *arguments]
    done = subprocess.run(command, env=environment(**env), capture_output=True, text=True, timeout=seconds, preexec_fn=before, check=False)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip(), done.stderr
