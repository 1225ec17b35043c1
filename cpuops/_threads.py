"""How many threads: the CPUs that may be used, a backend's own number, and whether a call is worth them.

No process-wide setting is touched, and nothing is read before it is needed, but for one number: the OpenMP maximum at
import. A maximum below it, in the calling thread, is a limit that somebody set meanwhile (`threadpoolctl`, OpenMP's
own function), and every call respects it.
"""

import os
import posixpath
import warnings
from operator import index

from . import _omp
from ._contention import crowded
from .errors import ArgumentError, message, shown

__all__ = ["checked_num_threads", "default_num_threads", "threads_for", "usable_cpus", "work"]

MOST_THREADS = 1024

# A region costs 1.5 to 25 us (two threads, measured) and its workers share caches and memory with the rest of the machine.
# Work of 40 us gains from a second thread even at the upper end; below, one thread is as good and disturbs nobody.
THREADING_NS = 40_000

# One thread's rates for `work`: streaming through memory, and multiply-adds of vectors. They differ by a factor of a few
# between machines and ISA levels; only the order of magnitude matters, since the cost is compared with THREADING_NS.
BYTES_PER_NS = 10.0  # 10 GB/s
FLOPS_PER_NS = 50.0  # 50 GFLOP/s

_max_at_load = _omp.max_threads()
_serial_after_fork = False


# ---- the work


def work(bytes_=0, flops=0):
    """Estimate what a call costs on one thread, in nanoseconds, at 10 GB/s and 50 GFLOP/s.

    Only the order of magnitude matters: the estimate decides between one thread and all.

    Parameters
    ----------
    bytes_ : int or float
        Bytes read and written.
    flops : int or float
        Floating-point operations at the rate of a matrix product; a multiply-add counts two.

    Returns
    -------
    float
    """
    return bytes_ / BYTES_PER_NS + flops / FLOPS_PER_NS


def threads_for(cost_ns, num_threads):
    """Return the thread count of a call: 1, or the backend's whole number where the work is worth it.

    Nothing in between: libgomp ends and starts threads whenever the size of a team changes. A limit in force in the
    calling thread (an OpenMP maximum below the one found at load) caps the number, and where other threads have
    taken the CPUs, one thread is faster (`_contention`).
    """
    if cost_ns < THREADING_NS or num_threads == 1 or crowded(cost_ns):
        return 1
    allowed = _omp.max_threads()
    if allowed < _max_at_load and allowed < num_threads:
        return allowed if allowed > 1 else 1
    return 1 if _serial_after_fork else num_threads


# ---- a backend's number


def checked_num_threads(value):
    """Return the number of threads as an int.

    Raises
    ------
    ArgumentError
        Unless `value` is an integer (not a bool) from 1 to 1024.
    """
    if not isinstance(value, bool):
        try:
            number = index(value)
        except Exception:
            number = 0
        if 1 <= number <= MOST_THREADS:
            return int(number)
    raise ArgumentError(message("ThreadedCpuBackend", "num_threads", shown(value), f"an integer from 1 to {MOST_THREADS}, or None"))


def default_num_threads():
    """Return the thread count of ``ThreadedCpuBackend()``.

    ``CPUOPS_NUM_THREADS``, else the first number of ``OMP_NUM_THREADS``, else the usable CPUs; lowered by a limit in
    force in the calling thread. A variable that holds no number from 1 to 1024 is as good as unset;
    ``CPUOPS_NUM_THREADS`` is warned about.
    """
    own = os.environ.get("CPUOPS_NUM_THREADS", "").strip()
    number = _count(own)
    if number is None and own:
        warnings.warn(
            f"CPUOPS_NUM_THREADS is {shown(own)}, expected an integer from 1 to {MOST_THREADS}; it is ignored",
            RuntimeWarning,
            stacklevel=3,
        )
    if number is None:
        number = _count(os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip())
    if number is None:
        number = min(usable_cpus(), MOST_THREADS)
    allowed = _omp.max_threads()
    return max(1, min(number, allowed)) if allowed < _max_at_load else number


def _count(text):
    """The number in a text from 1 to MOST_THREADS, else None."""
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        return None
    number = int(text)
    return number if 1 <= number <= MOST_THREADS else None


# ---- the usable CPUs


def usable_cpus(root="/"):
    """Return how many CPUs this thread may use: the smaller of affinity and cgroup quota, at least 1.

    Parameters
    ----------
    root : str
        Where ``proc/self/cgroup``, ``proc/self/mountinfo`` and the cgroup file systems are looked for.

    Returns
    -------
    int
    """
    return max(1, min(_affinity(), int(min(cgroup_cpus(root), MOST_THREADS * 1024))))


def _affinity():
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cgroup_cpus(root="/"):
    """Return the CPU quota of this process's control groups in CPUs, a float; infinity where there is none.

    The smallest of its own group's and all ancestors' quotas, in version 2 (``cpu.max``) and version 1
    (``cpu.cfs_quota_us``), as far up as the mounted file system shows them. What cannot be read or understood is no
    quota.
    """
    quota = float("inf")
    groups = _own_groups(root)
    for kind, mounted, mount_point in _cgroup_mounts(root):
        read = _quota_v2 if kind == "cgroup2" else _quota_v1
        if kind in groups:
            for group in _upwards(groups[kind], mounted):
                quota = min(quota, read(_under(root, mount_point, group)))
    return quota


def _own_groups(root):
    """{"cgroup2": path, "cgroup": path of the version-1 cpu controller} of this process, as the kernel names them."""
    groups = {}
    for line in _text(_under(root, "proc/self/cgroup")).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            groups["cgroup2"] = path
        elif "cpu" in controllers.split(","):
            groups["cgroup"] = path
    return groups


def _cgroup_mounts(root):
    """(kind, which directory of the hierarchy is mounted, where) of every file system that can tell a CPU quota."""
    for line in _text(_under(root, "proc/self/mountinfo")).splitlines():
        mount, _, system = line.partition(" - ")
        fields, kind_and_options = mount.split(), system.split()
        if len(fields) < 5 or not kind_and_options:
            continue
        kind = kind_and_options[0]
        if kind == "cgroup2" or (kind == "cgroup" and "cpu" in kind_and_options[-1].split(",")):
            yield kind, _unescaped(fields[3]), _unescaped(fields[4])


def _upwards(group, mounted):
    """A group and its ancestors, relative to the mounted directory, down to that directory itself (".")."""
    group, mounted = posixpath.normpath(group or "/"), posixpath.normpath(mounted or "/")
    inside = posixpath.relpath(group, mounted) if group.startswith("/") and mounted.startswith("/") else "."
    if inside.startswith(".."):  # the group lies outside of what is mounted here: a container shows its own as the root
        inside = "."
    while inside != ".":
        yield inside
        inside = posixpath.dirname(inside) or "."
    yield "."


def _quota_v2(directory):
    words = _text(os.path.join(directory, "cpu.max")).split()
    return _cpus(words[0], words[1]) if len(words) == 2 else float("inf")


def _quota_v1(directory):
    return _cpus(_text(os.path.join(directory, "cpu.cfs_quota_us")), _text(os.path.join(directory, "cpu.cfs_period_us")))


def _cpus(quota, period):
    """Two texts in microseconds; "max", negative or no numbers at all mean that there is no quota."""
    quota, period = quota.strip(), period.strip()
    if quota.isascii() and quota.isdigit() and period.isascii() and period.isdigit() and len(quota + period) < 60 and int(period):
        return int(quota) / int(period)
    return float("inf")


def _under(root, *parts):
    return os.path.join(root, *(part.lstrip("/") for part in parts))


def _text(path):
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _unescaped(field):
    """mountinfo writes space, tab, newline and backslash as three octal digits."""
    for octal, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(octal, char)
    return field


# ---- fork


def _stay_serial():
    """In a forked child, where the runtime can neither be paused nor forks by itself: better slow than hung."""
    global _serial_after_fork
    _serial_after_fork = True


if hasattr(os, "register_at_fork"):
    if _omp.forks_safely():
        os.register_at_fork(before=_omp.pause)
    else:
        os.register_at_fork(after_in_child=_stay_serial)
