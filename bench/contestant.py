"""A worker process seen from the parent."""

import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path

from .errors import BenchError

__all__ = ["Absent", "Process", "environment"]

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 900  # the longest that any answer may take
# what the caller's shell may hold and a measurement must not depend on
SET_BY_US = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "ATEN_", "CPUOPS_NUM_THREADS")


class Absent(Exception):
    """A peer that is not installed."""


def environment(package, threads):
    """Variables of a worker: `threads` for every runtime that reads one, and `package` as the place of cpuops."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(SET_BY_US)}
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        env[name] = str(threads)
    env["PYTHONPATH"] = os.pathsep.join([str(package), str(ROOT)])
    env["PYTHONHASHSEED"] = "0"
    env["PYTHONWARNINGS"] = "ignore"
    return env


class Process:
    """One contestant's process.

    Parameters
    ----------
    engine : str
        A name of engine.ENGINES.
    threads : int
    package : path
        The directory that holds the `cpuops` to import: this tree, or another revision's.
    label : str
        What results call it; the engine's name by default.
    """

    def __init__(self, engine, threads, package=ROOT, label=None):
        self.engine, self.threads, self.label = engine, threads, label or engine
        # a file, because a full pipe would stop a talkative library; it lives as long as the process
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        # -P: nothing is imported from the current directory by accident
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "bench.worker", engine, str(threads)],
            env=environment(package, threads), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
        )  # fmt: skip
        self._started = False

    def wait_until_ready(self):
        """Raise Absent when the library is not installed, BenchError when it cannot be started."""
        if not self._started:
            reply = self._reply()
            if reply.get("absent"):
                raise Absent(reply["error"])
            if "error" in reply:
                raise BenchError(f"{self.label} does not start: {reply['error']}")
            self._started = True
        return self

    def ask(self, do, **more):
        """Send a request and wait for the answer."""
        self.wait_until_ready()
        try:
            self._process.stdin.write(json.dumps({"do": do, **more}) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has ended; the reply tells how
        reply = self._reply()
        if "error" in reply:
            raise BenchError(f"{self.label}, {do} {more.get('workload', '')}: {reply['error']}")
        return reply

    def _reply(self):
        output = self._process.stdout
        ready, _, _ = select.select([output], [], [], SECONDS)
        line = output.readline() if ready else ""
        if line:
            return json.loads(line)
        self._errors.seek(0)
        said = self._errors.read().strip().splitlines()
        self.close()
        how = f"ended with status {self._process.returncode}" if ready else f"gave no answer in {SECONDS} s"
        raise BenchError(f"the process of {self.label} {how}" + (f": {said[-1]}" if said else ""))

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
