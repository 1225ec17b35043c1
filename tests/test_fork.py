"""After os.fork() parent and child go on, threaded, with the same bits: each case in a process of its own."""

import os

import pytest
from process import run, run_script

from cpuops import _omp

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
on_linux = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts OS threads in /proc")


def test_parent_and_child_go_on():
    run("""
        b = ThreadedCpuBackend(2)
        first = work(b)
        for _ in range(3):
            assert forked(lambda: work(b) == work(CpuBackend()) == work(ThreadedCpuBackend(3)) == first) == 0
            assert work(b) == first
    """)


@on_linux
@pytest.mark.skipif(not _omp.compiled(), reason="this build has no OpenMP, so no threads")
def test_child_has_threads_again():
    """The worker ends before the fork, and starts again in parent and child at their first region."""
    run("""
        b = ThreadedCpuBackend(2)
        work(b)
        assert os_threads() == 2, os_threads()
        def child():
            alone = os_threads()
            work(b)
            return (alone, os_threads()) == (1, 2)
        assert forked(child) == 0
        assert os_threads() == 1, os_threads()
        work(b)
        assert os_threads() == 2, os_threads()
    """)


def test_fork_before_first_use():
    run("""
        assert forked(lambda: work(ThreadedCpuBackend(2)) == work(CpuBackend())) == 0
        assert work(ThreadedCpuBackend(2)) == work(CpuBackend())
        assert forked(lambda: work(ThreadedCpuBackend(2)) == work(CpuBackend())) == 0
    """)


def test_grandchildren():
    run("""
        b = ThreadedCpuBackend(2)
        first = work(b)
        def level(n):
            good = work(b) == first and (n == 0 or forked(lambda: level(n - 1)) == 0)
            return good and work(b) == first
        assert forked(lambda: level(2)) == 0
        assert work(b) == first
    """)


def test_from_a_thread_while_others_compute():
    run("""
        b = ThreadedCpuBackend(2)
        first = work(b)
        stop, wrong, children, loops = threading.Event(), [], [], [0]
        def compute():
            while not stop.is_set():
                if work(b) != first:
                    wrong.append("a loop")
                loops[0] += 1
        def fork():
            for _ in range(8):
                if work(b) != first:
                    wrong.append("the forking thread")
                children.append(forked(lambda: work(b) == first))
        computing = [threading.Thread(target=compute) for _ in range(2)]
        forking = threading.Thread(target=fork)
        for t in [*computing, forking]:
            t.start()
        forking.join()
        seen = loops[0]
        while loops[0] < seen + 4:      # the loops go on; else the time limit of this process ends it
            time.sleep(0.01)
        stop.set()
        for t in computing:
            t.join()
        assert children == [0] * 8 and not wrong, (children, wrong)
    """)


def test_child_with_python_threads():
    run("""
        from concurrent.futures import ThreadPoolExecutor
        b = ThreadedCpuBackend(2)
        first = work(b)
        def child():
            with ThreadPoolExecutor(4) as pool:
                return set(pool.map(lambda _: work(b), range(8))) == {first}
        assert forked(child) == 0
    """)


def test_pool():
    run("""
        import multiprocessing
        b = ThreadedCpuBackend(2)
        def task(i):
            return float(b.reduce_sum(b.exp(np.full((64, 700), i / 8, "f4")))), work(b)
        want = [task(i) for i in range(12)]
        with multiprocessing.get_context("fork").Pool(4) as pool:
            assert pool.map_async(task, range(12), chunksize=1).get(timeout=50) == want
    """)


def test_while_other_threads_allocate():
    """A lock of the allocator, held at the fork, would hang the child."""
    run("""
        b = ThreadedCpuBackend(2)
        sizes = (10, 1000, 40_000, 300_000)
        stop = threading.Event()
        def churn(x):
            while not stop.is_set():
                b.add(b.relu(x), x)
        churning = [threading.Thread(target=churn, args=(np.ones(n, "f4"),)) for n in sizes]
        for t in churning:
            t.start()
        def child():
            cpuops.memory.trim()
            return all(float(b.reduce_sum(b.relu(np.ones(n, "f4")))) == n for n in sizes)
        children = [forked(child) for _ in range(25)]
        stop.set()
        for t in churning:
            t.join()
        assert children == [0] * 25, children
    """)


@on_linux
def test_many_forks_leave_nothing():
    run("""
        b = ThreadedCpuBackend(2)
        def once():
            work(b)
            return forked(lambda: work(b) is not None)
        assert [once() for _ in range(5)] == [0] * 5
        def resident():
            with open("/proc/self/statm") as f:
                return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        threads, memory = os_threads(), resident()
        assert [once() for _ in range(40)] == [0] * 40
        assert os_threads() == threads
        assert resident() - memory < 8 << 20
    """)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_start_methods(tmp_path, method):
    """A backend handed to a new interpreter works there with its settings."""
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, sys\n"
        "import numpy as np\n"
        "from cpuops import CpuBackend, ThreadedCpuBackend\n"
        "X = np.linspace(-2, 2, 300_000, dtype='f4')\n"
        "def task(b):\n"
        "    return repr(b), b.num_threads, b.exp(X).tobytes()\n"
        "if __name__ == '__main__':\n"
        "    backends = [CpuBackend(), ThreadedCpuBackend(2), ThreadedCpuBackend(3)]\n"
        "    want = [task(b) for b in backends]\n"
        "    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:\n"
        "        assert pool.map_async(task, backends).get(timeout=50) == want\n"
    )
    run_script(script, method)
