"""`instructions`: a dozen calls counted by callgrind, against the counts in instructions.json.

The count of a call does not depend on how busy the machine is, so it can gate a change in CI where a time cannot. It does
depend on the compiler and on Python: counts are kept by toolchain, and one that has none cannot be compared.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import cpuops

from . import report
from .contestant import ROOT, environment
from .counted import CALLS, REPEATS
from .errors import BenchError
from .workloads import WORKLOADS

__all__ = ["change", "instructions"]

KEPT = Path(__file__).with_suffix(".json")
LEVEL = "v3"  # the widest that valgrind can run
ALLOWED = 0.03


def instructions(options):
    """Compare with the kept counts, or keep new ones; 1 when a count changed by more than is allowed."""
    if shutil.which("valgrind") is None:
        print("instructions are not counted: valgrind is not installed (Debian: apt-get install valgrind)")
        return 0
    names = [n for n in CALLS if all(hasattr(cpuops.CpuBackend, m) for m in WORKLOADS[n].needs)]
    counts = count(names)
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    toolchain = this_toolchain()
    if options.update:
        kept[toolchain] = counts
        KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
        print(f"{len(counts)} counts kept for {toolchain}")
        return 0
    if toolchain not in kept:
        raise BenchError(f"no counts are kept for {toolchain}, only for {'; '.join(kept) or 'nothing'}; --update keeps them")
    return judge(kept[toolchain], counts)


def judge(kept, counts):
    """Print the changes; 1 when one is too large or a call is not kept."""
    rows = [(name, f"{kept[name]:,}" if name in kept else "-", f"{n:,}", change(kept.get(name), n)) for name, n in counts.items()]
    print(report.table(("call", "kept", "now", "change"), [(*row[:3], text(row[3])) for row in rows]))
    off = [name for name, _, _, by in rows if by is None or abs(by) > ALLOWED]
    off += [name for name in kept if name not in counts]
    if off:
        print(f"changed by more than {ALLOWED:.0%}: {', '.join(off)}; if it is meant, `python -m bench instructions --update`")
    return 1 if off else 0


def change(before, now):
    """Relative change of a count; None when there was none before."""
    return None if not before else now / before - 1


def text(by):
    return "new" if by is None else f"{by:+.1%}"


def this_toolchain():
    """What a count depends on besides this repository."""
    config = cpuops.show_config("dicts")
    python = ".".join(map(str, sys.version_info[:2]))
    return f"{config['compiler']}, Python {python}, NumPy {np.__version__.rpartition('.')[0]}, {LEVEL}"


def count(names):
    """{name: instructions a call} of the named workloads."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--dump-before=getppid"]
        env = environment(ROOT, 1) | {"CPUOPS_ISA": LEVEL, "PYTHONMALLOC": "pymalloc"}
        words = [*command, sys.executable, "-P", "-m", "bench.counted", *names]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if not line.startswith("==")] or ["it said nothing"]
            raise BenchError(f"valgrind ended with status {done.returncode}: {said[-1]}")
        # the dump before the second marker of each pair holds what lies between the two
        parts = sorted(Path(directory).glob("callgrind.out.*"), key=lambda p: int(p.suffix[1:]))
        if len(parts) < 2 * len(names):
            raise BenchError(f"valgrind left {len(parts)} counts for {len(names)} calls")
        return {name: total(parts[2 * i + 1]) // REPEATS for i, name in enumerate(names)}


def total(path):
    """The instructions of one dump."""
    found = re.search(r"^(?:summary|totals): (\d+)", path.read_text(), re.MULTILINE)
    if not found:
        raise BenchError(f"{os.path.basename(path)} holds no total")
    return int(found[1])
