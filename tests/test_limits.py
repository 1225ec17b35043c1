"""The limits that a process lives in: affinity, cgroup quota, variables, threadpoolctl."""

import math
import os

import pytest
from process import run

from cpuops import ThreadedCpuBackend, _omp, _threads

V2 = "30 23 0:26 {root} {at} rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate"
V1 = "31 23 0:27 {root} {at} rw,relatime - cgroup cgroup rw,cpu,cpuacct"
V1_MEMORY = "32 23 0:28 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory"
OTHER = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw"


def v2(at="/sys/fs/cgroup", root="/"):
    return V2.format(root=root, at=at)


def v1(at="/sys/fs/cgroup/cpu,cpuacct", root="/"):
    return V1.format(root=root, at=at)


def system(tmp_path, groups, mounts, files):
    """A root directory that shows these cgroup lines, mounts and files."""
    files = {"proc/self/cgroup": "\n".join(groups) + "\n", "proc/self/mountinfo": "\n".join([OTHER, *mounts]) + "\n", **files}
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(tmp_path)


def quota_v1(directory, quota, period="100000"):
    return {f"{directory}/cpu.cfs_quota_us": quota + "\n", f"{directory}/cpu.cfs_period_us": period + "\n"}


G = "sys/fs/cgroup"
INF = math.inf
CASES = {
    # version 2, as a container sees it
    "v2_whole": (["0::/"], [v2()], {f"{G}/cpu.max": "200000 100000\n"}, 2),
    "v2_fraction": (["0::/"], [v2()], {f"{G}/cpu.max": "765000 100000\n"}, 7.65),
    "v2_less_than_one": (["0::/"], [v2()], {f"{G}/cpu.max": "50000 100000\n"}, 0.5),
    "v2_other_period": (["0::/"], [v2()], {f"{G}/cpu.max": "150000 50000\n"}, 3),
    "v2_max": (["0::/"], [v2()], {f"{G}/cpu.max": "max 100000\n"}, INF),
    "v2_root_has_no_file": (["0::/"], [v2()], {}, INF),
    # version 2, in a group below what is mounted
    "v2_own_group": (["0::/a/b"], [v2()], {f"{G}/a/b/cpu.max": "100000 100000", f"{G}/a/cpu.max": "max 100000"}, 1),
    "v2_parent": (["0::/a/b"], [v2()], {f"{G}/a/b/cpu.max": "max 100000", f"{G}/a/cpu.max": "300000 100000"}, 3),
    "v2_smallest": (["0::/a/b"], [v2()], {f"{G}/a/b/cpu.max": "400000 100000", f"{G}/a/cpu.max": "300000 100000"}, 3),
    "v2_another_group": (["0::/a/b"], [v2()], {f"{G}/a/c/cpu.max": "100000 100000"}, INF),
    "v2_part_mounted": (["0::/pod/x"], [v2(root="/pod/x")], {f"{G}/cpu.max": "100000 100000"}, 1),
    "v2_part_mounted_below": (["0::/pod/x/y"], [v2(root="/pod/x")], {f"{G}/y/cpu.max": "200000 100000"}, 2),
    "v2_outside_of_the_mount": (["0::/../../other"], [v2()], {f"{G}/cpu.max": "200000 100000"}, 2),
    "v2_host_path_in_container": (["0::/docker/abc"], [v2(root="/docker/xyz")], {f"{G}/cpu.max": "200000 100000"}, 2),
    "v2_elsewhere": (["0::/"], [v2(at="/mnt/my\\040groups")], {"mnt/my groups/cpu.max": "200000 100000"}, 2),
    "v2_colon_in_the_name": (["0::/a:b"], [v2()], {f"{G}/a:b/cpu.max": "200000 100000"}, 2),
    # version 1
    "v1_whole": (["4:memory:/", "1:cpu,cpuacct:/"], [V1_MEMORY, v1()], quota_v1(f"{G}/cpu,cpuacct", "200000"), 2),
    "v1_fraction": (["1:cpu,cpuacct:/"], [v1()], quota_v1(f"{G}/cpu,cpuacct", "150000"), 1.5),
    "v1_none": (["1:cpu,cpuacct:/"], [v1()], quota_v1(f"{G}/cpu,cpuacct", "-1"), INF),
    "v1_docker": (["1:cpu,cpuacct:/docker/abc"], [v1(root="/docker/abc")], quota_v1(f"{G}/cpu,cpuacct", "300000"), 3),
    "v1_parent": (
        ["1:cpuacct,cpu:/a/b"], [v1(at="/sys/fs/cgroup/cpu")],
        quota_v1(f"{G}/cpu/a/b", "-1") | quota_v1(f"{G}/cpu/a", "200000"), 2),
    "v1_another_controller": (["1:cpuset:/"], [V1.replace("cpu,cpuacct", "cpuset").format(root="/", at="/sys/fs/cgroup/cpuset")],
                              quota_v1(f"{G}/cpuset", "100000"), INF),
    # both at once
    "hybrid": (["1:cpu,cpuacct:/", "0::/a"], [v1(), v2(at="/sys/fs/cgroup/unified")],
               quota_v1(f"{G}/cpu,cpuacct", "400000") | {f"{G}/unified/a/cpu.max": "300000 100000"}, 3),
    # nonsense is no quota
    "garbage": (["0::/"], [v2()], {f"{G}/cpu.max": "garbage"}, INF),
    "empty": (["0::/"], [v2()], {f"{G}/cpu.max": ""}, INF),
    "half": (["0::/"], [v2()], {f"{G}/cpu.max": "100000"}, INF),
    "period_0": (["0::/"], [v2()], {f"{G}/cpu.max": "100000 0"}, INF),
    "negative": (["0::/"], [v2()], {f"{G}/cpu.max": "-100000 100000"}, INF),
    "astronomical": (["0::/"], [v2()], {f"{G}/cpu.max": "9" * 400 + " 1"}, INF),
    "not_text": (["0::/"], [v2()], {f"{G}/cpu.max": "²³ 1"}, INF),
    "v1_period_missing": (["1:cpu:/"], [v1()], {f"{G}/cpu,cpuacct/cpu.cfs_quota_us": "100000"}, INF),
    "no_mount": (["0::/"], [], {f"{G}/cpu.max": "100000 100000"}, INF),
    "no_group": (["nonsense", "", "1:"], [v2(), "nonsense", " - ", "a b c d e - "], {f"{G}/cpu.max": "100000 100000"}, INF),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_cgroup_quota(tmp_path, case):
    groups, mounts, files, want = CASES[case]
    assert _threads.cgroup_cpus(system(tmp_path, groups, mounts, files)) == want


def test_no_proc_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(_threads, "_affinity", lambda: 6)
    assert _threads.cgroup_cpus(str(tmp_path)) == math.inf
    assert _threads.usable_cpus(str(tmp_path)) == 6


@pytest.mark.parametrize(
    ("affinity", "quota", "want"),
    [(16, "765000 100000", 7), (16, "max 100000", 16), (16, "50000 100000", 1), (16, "199999 100000", 1), (4, "765000 100000", 4),
     (1, "400000 100000", 1), (16, "0 100000", 1), (4, "1" + "0" * 18 + " 1", 4)],
)  # fmt: skip
def test_usable_cpus_are_the_smaller_rounded_down(tmp_path, monkeypatch, affinity, quota, want):
    monkeypatch.setattr(_threads, "_affinity", lambda: affinity)
    assert _threads.usable_cpus(system(tmp_path, ["0::/"], [v2()], {f"{G}/cpu.max": quota})) == want


def test_usable_cpus_of_this_machine():
    assert 1 <= _threads.usable_cpus() <= _threads._affinity()


# ---- the variables


@pytest.mark.parametrize(
    ("own", "openmp", "want"),
    [
        (None, None, 5), ("3", None, 3), (None, "3", 3), ("2", "7", 2), ("7", "2", 7), (" 4 ", None, 4), ("1024", None, 1024),
        (None, "2,1", 2), (None, " 3 , 2", 3), ("", "3", 3), ("", "", 5), (None, "0", 5), (None, "-1", 5), (None, "abc", 5),
        (None, "1e3", 5), (None, "9" * 30, 5), (None, "1025", 5), (None, ",2", 5), (None, "٣", 5),
    ],
)  # fmt: skip
def test_variables_in_their_order(monkeypatch, own, openmp, want):
    monkeypatch.setattr(_threads, "usable_cpus", lambda: 5)
    for name, value in (("CPUOPS_NUM_THREADS", own), ("OMP_NUM_THREADS", openmp)):
        monkeypatch.setenv(name, value) if value is not None else monkeypatch.delenv(name, raising=False)
    assert ThreadedCpuBackend().num_threads == want
    assert ThreadedCpuBackend(6).num_threads == 6


@pytest.mark.parametrize("own", ["0", "-1", "abc", "2,1", "1e3", "9" * 30, "1025", "2.0", "²"])
def test_nonsense_is_warned_about_and_ignored(monkeypatch, own):
    monkeypatch.setattr(_threads, "usable_cpus", lambda: 5)
    monkeypatch.setenv("CPUOPS_NUM_THREADS", own)
    for openmp, want in ((None, 5), ("3", 3)):
        monkeypatch.setenv("OMP_NUM_THREADS", openmp) if openmp else monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        with pytest.warns(RuntimeWarning, match="CPUOPS_NUM_THREADS"):
            assert ThreadedCpuBackend().num_threads == want


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_affinity_before_and_after_the_import():
    one = {min(os.sched_getaffinity(0))}
    run("assert ThreadedCpuBackend().num_threads == cpuops.show_config('dicts')['usable_cpus'] == 1",
        before=lambda: os.sched_setaffinity(0, one))  # fmt: skip
    run(f"""
        os.sched_setaffinity(0, {one})
        assert ThreadedCpuBackend().num_threads == cpuops.show_config('dicts')['usable_cpus'] == 1
        assert ThreadedCpuBackend(2).num_threads == 2
    """)


# ---- threadpoolctl


@pytest.mark.skipif(not _omp.compiled(), reason="this build has no OpenMP, so no OpenMP limit")
def test_a_limit_in_the_calling_thread_caps_every_call():
    """OMP_NUM_THREADS=4 lets the test show limits on any machine."""
    run(
        """
        from threadpoolctl import threadpool_limits
        from cpuops._threads import threads_for
        b, default, long = ThreadedCpuBackend(8), ThreadedCpuBackend(), 1e9
        first = work(b)
        assert default.num_threads == 4
        assert [threads_for(long, n) for n in (1, 3, 4, 8)] == [1, 3, 4, 8]
        for limit in (1, 2, 3):
            with threadpool_limits(limit):
                assert ThreadedCpuBackend().num_threads == limit
                assert (b.num_threads, default.num_threads, ThreadedCpuBackend(8).num_threads) == (8, 4, 8)
                assert [threads_for(long, n) for n in (1, 2, 8)] == [1, min(2, limit), limit]
                assert work(b) == first
                other = []
                thread = threading.Thread(target=lambda: other.append((threads_for(long, 8), ThreadedCpuBackend().num_threads)))
                thread.start()
                thread.join()
                assert other == [(8, 4)]        # the limit is the calling thread's
            assert threads_for(long, 8) == 8 and ThreadedCpuBackend().num_threads == 4
        with threadpool_limits(6):              # above the maximum at load: no limit
            assert threads_for(long, 8) == 8 and ThreadedCpuBackend().num_threads == 4
        """,
        OMP_NUM_THREADS="4",
    )


@pytest.mark.skipif(not _omp.compiled(), reason="this build has no OpenMP, so no threads")
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts OS threads in /proc")
def test_under_a_limit_of_one_no_thread_starts():
    run(
        """
        from threadpoolctl import threadpool_limits
        b = ThreadedCpuBackend(4)
        with threadpool_limits(1):
            first = work(b)
            assert os_threads() == 1
        assert work(b) == first and os_threads() == 4
        """,
        OMP_NUM_THREADS="4",
    )


def test_omp_num_threads_does_not_cap_a_number_asked_for():
    run(
        """
        from cpuops._threads import threads_for
        assert ThreadedCpuBackend().num_threads == 1
        assert ThreadedCpuBackend(3).num_threads == 3 and threads_for(1e9, 3) == 3
        """,
        OMP_NUM_THREADS="1",
    )
