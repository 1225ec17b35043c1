"""`ab`: two revisions of cpuops, built side by side and measured in alternation on the same machine at the same time.

Only the package comes from the revision; workloads, oracle and clock are those of this tree for both. What looks slower is
measured a second time, in new processes, and counts only if it is slower again.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
from io import BytesIO

import cpuops

from . import compare, resultfile, schedule
from .contestant import ROOT
from .errors import BenchError
from .progress import Bar
from .run import refuse_busy
from .workloads import BY_NAME, chosen, unmeasured

__all__ = ["ab"]

BUILDS = ROOT / "build" / "bench" / "revisions"
PACKAGED = ("cpuops", "setup.py", "pyproject.toml", "README.md", "LICENSE")


def ab(options):
    """Build, measure, judge; exit status as for compare."""
    entries = [
        schedule.Entry("cpuops", built(revision), label) for revision, label in ((options.base, "base"), (options.new, "new"))
    ]
    workloads = chosen(options.only, cpuops.CpuBackend, options.more)
    contents = measured(options, workloads, entries, "ab")
    if options.json:
        resultfile.write(options.json, contents)
    refuse_busy(contents, options)
    judged = _judged(contents, options)
    slower = [v for v in judged if v.word == "slower"]
    if slower:
        judged = second_look(options, entries, judged, slower)
    return compare.conclude(judged)


def measured(options, workloads, entries, what):
    settings = schedule.Settings(options.threads, options.launches, max(options.rounds, options.launches))
    with Bar(schedule.steps(workloads, settings), what) as bar:
        found = schedule.measure(workloads, entries, settings, bar.step)
    return resultfile.document(" ".join(options.words), found, settings, unmeasured(cpuops.CpuBackend))


def _judged(contents, options):
    return compare.verdicts(contents["results"], contents["results"], options, ("base", "new"), compare.judge_pairs)


def second_look(options, entries, judged, slower):
    """The verdicts, where a "slower" stands only if new processes say so again."""
    again = [BY_NAME[name] for name in dict.fromkeys(v.name for v in slower)]
    contents = measured(options, again, entries, "second look")
    second = _judged(contents, options)
    confirmed = {(v.name, v.threads): v for v in second}
    return [confirmed[v.name, v.threads] if v.word == "slower" else v for v in judged]


# ---------------------------------------------------------------- builds


def built(revision):
    """The directory that holds the revision's compiled cpuops; it is kept, and built only once."""
    archive = working_tree() if revision == "." else committed(revision)
    directory = BUILDS / hashlib.sha256(archive).hexdigest()[:16]
    done = directory / "built"
    if not done.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=BytesIO(archive)) as tar:
            tar.extractall(directory, filter="data")
        print(f"building {revision} ...", file=sys.stderr)
        compile_in(directory, revision)
        done.touch()
    return directory


def committed(revision):
    """A tar archive of the package at a revision."""
    present = git("ls-tree", "--name-only", revision, what=revision).decode().split()
    paths = [p for p in PACKAGED if p in present]
    if "cpuops" not in paths:
        raise BenchError(f"revision {revision!r} holds no cpuops")
    return git("archive", revision, "--", *paths, what=revision)


def working_tree():
    """The same of the files as they are now, tracked or new but not ignored."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *PACKAGED, what=".")
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in sorted(n for n in listed.decode().split("\0") if n):
            if (ROOT / name).is_file():
                entry = tar.gettarinfo(ROOT / name, name)
                entry.mtime = 0  # the same files are the same archive
                with open(ROOT / name, "rb") as file:
                    tar.addfile(entry, file)
    return buffer.getvalue()


def git(*words, what):
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=False)
    except OSError:
        raise BenchError("git is not installed, and revisions come from it") from None
    if done.returncode:
        raise BenchError(f"unknown revision {what!r}: {done.stderr.decode().strip().splitlines()[0]}")
    return done.stdout


def compile_in(directory, revision):
    """Compile for this machine's level, or the one that CPUOPS_ISA asks for."""
    env = os.environ | {"CPUOPS_ISA_LEVELS": os.environ.get("CPUOPS_ISA", "native")}
    words = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(words, cwd=directory, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "rror" in line] or [f"status {done.returncode}"]
        raise BenchError(f"revision {revision!r} does not build: {said[0].strip()}")
