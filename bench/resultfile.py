"""The JSON file of a run: how it is written, read and checked. The schema is described in docs/benchmarks.md."""

import json
import os
import platform
import subprocess
import time
from pathlib import Path

from . import statistics
from .control import FEWEST_QUIET, quiet
from .errors import BenchError
from .limits import bound
from .workloads.base import Cost

__all__ = ["SCHEMA", "document", "read", "write"]

SCHEMA = "cpuops-bench/1"
# key -> type, of the file and of each of its results
TOP = {
    "schema": str, "created": str, "command": str, "revision": str, "machine": dict, "contestants": dict, "settings": dict,
    "limits": dict, "noise": float, "missing": dict, "wrong": dict, "unmeasured": dict, "results": list,
}  # fmt: skip
RESULT = {
    "workload": str, "family": str, "dtype": str, "threads": int, "contestant": str, "variant": str, "rounds_ns": list,
    "control_ns": list, "drift": list, "control_usual_ns": float, "quiet": int, "median_ns": float, "mad_ns": float, "flops": float,
    "bytes_read": int, "bytes_written": int, "limit_ns": float, "limit": str, "fraction": float,
}  # fmt: skip


def document(command, found, settings, unmeasured):
    """The contents of a result file from a Measurement."""
    return {
        "schema": SCHEMA,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": command,
        "revision": revision(),
        "machine": machine(),
        "contestants": {
            name: {"version": version, "config": found.config[name]} for name, version in found.versions.items()
        },
        "settings": {"threads": list(settings.threads), "launches": settings.launches, "rounds": settings.rounds},
        "limits": {str(threads): values for threads, values in found.limits.items()},
        "noise": found.noise() if found.series else 0.0,
        "missing": dict(found.missing),
        "wrong": {f"{name} {contestant} {variant}".strip(): why for (name, contestant, variant), why in found.wrong.items()},
        "unmeasured": unmeasured,
        "results": [_result(series, found) for series in found.series.values()],
    }  # fmt: skip


def _result(series, found):
    workload = series.workload
    cost = Cost(**found.costs[workload.name])
    binding = bound(cost, workload.dtype, found.limits[series.threads])
    usual = found.usual_control(series)
    rounds = quiet(series.rounds_ns, series.control_ns, series.drift, usual)
    counted = rounds if len(rounds) >= FEWEST_QUIET else series.rounds_ns
    median = statistics.median(counted)
    return {
        "workload": workload.name, "family": workload.family, "dtype": workload.dtype, "threads": series.threads,
        "contestant": series.contestant, "variant": series.variant, "rounds_ns": series.rounds_ns,
        "control_ns": series.control_ns, "drift": series.drift, "control_usual_ns": usual, "quiet": len(rounds), "median_ns": median,
        "mad_ns": statistics.mad(counted), "flops": cost.flops, "bytes_read": cost.bytes_read,
        "bytes_written": cost.bytes_written, "limit_ns": binding.ns, "limit": binding.name, "fraction": binding.ns / median,
    }  # fmt: skip


def write(path, contents):
    try:
        Path(path).absolute().parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(contents, indent=1) + "\n")
    except OSError as error:
        raise BenchError(f"{path} cannot be written: {error.strerror}") from None


def read(path):
    """The contents of a result file, checked."""
    try:
        contents = json.loads(Path(path).read_text())
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise BenchError(f"{path} is no JSON file") from None
    schema = contents.get("schema") if isinstance(contents, dict) else None
    if schema != SCHEMA:
        raise BenchError(f"{path}: schema {schema!r}, expected {SCHEMA!r}")
    _check(path, contents, TOP)
    for number, result in enumerate(contents["results"]):
        _check(f"{path}, result {number}", result, RESULT)
        lengths = [len(result[key]) for key in ("rounds_ns", "control_ns", "drift")]
        if not lengths[0] or len(set(lengths)) > 1:
            raise BenchError(f"{path}, result {number}: {lengths[0]} rounds, {lengths[1]} controls and {lengths[2]} drifts")
    return contents


def _check(where, record, kinds):
    if not isinstance(record, dict):
        raise BenchError(f"{where} is no object")
    for key, kind in kinds.items():
        if key not in record:
            raise BenchError(f"{where} has no {key!r}")
        allowed = (float, int) if kind is float else kind
        if not isinstance(record[key], allowed) or isinstance(record[key], bool):
            raise BenchError(f"{where}: {key!r} is a {type(record[key]).__name__}, expected {kind.__name__}")


def revision():
    """The commit that was measured, with a plus sign when files differ from it; empty outside of a repository."""
    root = Path(__file__).resolve().parent.parent

    def git(*words):
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "cpuops", "setup.py") else "")
    except OSError:
        return ""


def machine():
    """What the numbers were measured on."""
    return {
        "cpu": _first("/proc/cpuinfo", "model name") or platform.processor(),
        "architecture": platform.machine(),
        "cpus": os.cpu_count() or 1,
        "caches": _caches(),
        "memory_gb": round(int((_first("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) / 2**20),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _first(path, key):
    try:
        with open(path) as file:
            return next((line.partition(":")[2].strip() for line in file if line.startswith(key)), "")
    except OSError:
        return ""


def _caches():
    """{"L1d": bytes, "L2": ..., "L3": ...} of the first CPU, where the system tells."""
    found = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        if kind != "Instruction":
            found[f"L{level}" + ("d" if kind == "Data" else "")] = int(size.rstrip("K")) * 1024
    return found
