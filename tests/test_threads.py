"""Threads: who gets how many, what a guest must leave alone, and that the bits are the same."""

import copy
import os
import pickle
import threading
import time

import numpy as np
import pytest
from process import run

import cpuops
from cpuops import ArgumentError, CpuBackend, ThreadedCpuBackend, _contention, _omp, _threads

on_linux = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts OS threads in /proc")
threaded_build = pytest.mark.skipif(not _omp.compiled(), reason="this build has no OpenMP, so no threads")
LONG_NS = 1e9


# ---- the decision


@pytest.mark.parametrize("cost", [0, 1, _threads.THREADING_NS - 1])
def test_small_work_stays_on_one_thread(cost):
    assert _threads.threads_for(cost, 8) == 1


@pytest.mark.parametrize("cost", [_threads.THREADING_NS, LONG_NS, float("inf")])
@pytest.mark.parametrize("count", [1, 2, 7, 1024])
def test_large_work_takes_the_whole_team(cost, count, monkeypatch):
    monkeypatch.setattr(_threads, "crowded", lambda cost_ns: False)
    assert _threads.threads_for(cost, count) == count


def test_work_adds_bytes_and_flops():
    assert _threads.work() == 0
    assert _threads.work(bytes_=10_000) == 1000
    assert _threads.work(flops=50_000) == 1000
    assert _threads.work(bytes_=10_000, flops=50_000) == 2000


@pytest.mark.parametrize("value", [1, 2, 1024, np.int64(3), np.uint8(3), np.int32(1024)])
def test_thread_counts_that_are_taken(value):
    b = ThreadedCpuBackend(value)
    assert b.num_threads == int(value)
    assert type(b.num_threads) is int


@pytest.mark.parametrize(
    "value", [0, -1, 1025, 2**31, 2**63, 10**400, -(10**400), True, False, np.True_, 2.0, np.float32(2), float("nan"), "2", b"2",
              [2], (2,), {}, object(), 2j, np.array([2, 3]), np.array(2.0)]
)  # fmt: skip
def test_thread_counts_that_are_refused(value):
    with pytest.raises(ArgumentError) as refusal:
        ThreadedCpuBackend(value)
    assert "ThreadedCpuBackend" in str(refusal.value)
    assert "num_threads" in str(refusal.value)
    assert len(str(refusal.value)) < 2000


def test_attributes_are_read_only():
    for b in (CpuBackend(), ThreadedCpuBackend(2)):
        for attribute in ("num_threads", "name"):
            with pytest.raises(AttributeError):
                setattr(b, attribute, 1)
    assert CpuBackend().num_threads == 1


# ---- stepping back where the CPUs are taken


class Machine:
    """A clock, a scheduler and a kernel: in every millisecond some time goes to waiting, and some work gets done."""

    def __init__(self):
        self.now, self.on_cpu, self.waiting = 10**12, 0, 0
        self.told = True
        self.looks = 0
        self.watch = _contention.Watch(lambda: self.now, self.times)

    def times(self):
        self.looks += 1
        return (self.on_cpu, self.waiting) if self.told else None

    def run(self, ms, share, share_alone=0.0, gain=1.0, speed=1.0):
        """Whether one thread was used, a call a millisecond.

        `share` of the time is spent waiting, with one thread `share_alone`. All threads get `speed` times the work done that
        the CPUs allow, one thread `gain` times.
        """
        answers = []
        back = self.watch.back
        for _ in range(ms):
            waited = int((share_alone if back else share) * _contention.MS)
            self.now += _contention.MS
            self.waiting += waited
            self.on_cpu += _contention.MS - waited
            back = self.watch.crowded(1e6 * (gain if back else speed))
            answers.append(back)
        return np.array(answers)


@pytest.fixture
def machine():
    return Machine()


@pytest.mark.parametrize("share", [0.0, 0.2, 0.33, 0.39])
def test_nobody_steps_back_while_there_are_cpus(machine, share):
    assert not machine.run(3000, share, gain=10).any()
    assert machine.looks <= 3000 / 5 + 1


@pytest.mark.parametrize("share", [0.42, 0.5, 0.9])
@pytest.mark.parametrize("gain", [2.1, 20])
def test_one_thread_where_the_cpus_are_taken(machine, share, gain):
    answers = machine.run(3000, share, share_alone=0.5, gain=gain)
    assert not answers[:40].any()  # first the evidence
    assert answers[50:].all()
    assert not machine.run(1000, 0.0, gain=0.5)[400:].any()  # and all threads again when there is room


@pytest.mark.parametrize("gain", [0.5, 1, 1.9])
def test_all_threads_where_one_is_no_gain(machine, gain):
    """As where more threads than CPUs were asked for: what the user wants is only doubted now and then."""
    answers = machine.run(20_000, 0.5, share_alone=0.5, gain=gain)
    assert 0 < answers.mean() < 0.06
    assert answers[:200].mean() > 0.1


def test_all_threads_are_given_up_once_they_do_badly(machine):
    """One thread was no gain, so all may go on for a while; but what one thread got done is remembered."""
    assert not machine.run(110, 0.5, share_alone=0.5)[-1]
    assert machine.run(90, 0.5, share_alone=0.5, speed=0.2)[-1]


def test_trials_become_rare_while_they_fail(machine):
    """Our own workers are the crowd: alone there is room, together there is not."""
    answers = machine.run(6000, 0.5, share_alone=0.0, gain=5)
    trials = np.flatnonzero(answers[:-1] & ~answers[1:])
    gaps = np.diff(trials)
    assert len(trials) > 10
    assert gaps[0] < 200 < 300 < gaps[-1] < 450


def test_idle_time_is_no_evidence(machine):
    for _ in range(300):
        machine.now += 300 * _contention.MS  # asleep
        assert not machine.run(5, 0.9, gain=5).any()


def test_evidence_from_before_a_gap_is_dropped(machine):
    assert machine.run(200, 0.9, share_alone=0.9, gain=5)[-1]
    machine.now += 500 * _contention.MS  # at work on something else, and waiting half of the time
    machine.waiting += 250 * _contention.MS
    machine.on_cpu += 250 * _contention.MS
    assert not machine.run(40, 0.9, gain=5).any()
    assert machine.run(20, 0.9, gain=5)[-1]


def test_where_the_system_does_not_tell(machine):
    machine.told = False
    assert not machine.run(5000, 0.9, gain=5).any()
    assert machine.looks <= 6


@pytest.fixture
def stepped_back():
    """This Python thread, which has stepped back for the next ten seconds."""
    _contention.crowded(0)
    mine = _contention._of_this_thread.watch
    mine.back, mine.next_look = True, time.monotonic_ns() + 10**10
    yield mine
    _contention.forget()


def test_each_python_thread_has_its_own_view(stepped_back):
    other = []
    thread = threading.Thread(target=lambda: other.append(_contention.crowded(0)))
    thread.start()
    thread.join()
    assert other == [False]
    assert _contention.crowded(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_starts_anew(stepped_back):
    pid = os.fork()
    if pid == 0:
        os._exit(not _contention.crowded(0))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert _contention.crowded(0)


def test_stepping_back_is_one_thread(monkeypatch):
    monkeypatch.setattr(_threads, "crowded", lambda cost_ns: True)
    assert _threads.threads_for(LONG_NS, 8) == 1
    monkeypatch.setattr(_threads, "crowded", lambda cost_ns: False)
    assert _threads.threads_for(LONG_NS, 8) == 8


@on_linux
def test_the_system_counts_the_calling_thread():
    began = _contention.schedstat()
    if began is None:
        pytest.skip("this kernel does not count what a thread waits (CONFIG_SCHED_INFO)")
    end = time.thread_time_ns() + 30_000_000
    while time.thread_time_ns() < end:
        pass
    assert _contention.schedstat()[0] - began[0] >= 20_000_000


# ---- pickles and copies


@pytest.mark.parametrize("make", [CpuBackend, lambda: ThreadedCpuBackend(1), lambda: ThreadedCpuBackend(5), ThreadedCpuBackend])
def test_backends_pickle_and_copy_by_their_settings(make):
    b = make()
    b.relu(np.ones(3, "f4"))
    twins = [pickle.loads(pickle.dumps(b, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    twins += [copy.copy(b), copy.deepcopy(b), copy.deepcopy([{"b": b}])[0]["b"]]
    for twin in twins:
        assert (type(twin), twin.num_threads, twin.name, repr(twin)) == (type(b), b.num_threads, b.name, repr(b))
    assert len(pickle.dumps(b)) < 500


REFUSED = {
    "ShapeError": lambda b: b.matmul(np.ones((2, 3), "f4"), np.ones((4, 5), "f4")),
    "DTypeError": lambda b: b.relu(np.ones(3, "i4")),
    "ArgumentError": lambda b: b.softmax(np.ones((2, 3), "f4"), axis=5),
    "IndexRangeError": lambda b: b.embedding(np.ones((2, 3), "f4"), np.array([2])),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_errors_pickle_and_copy(kind):
    with pytest.raises(getattr(cpuops, kind)) as refusal:
        REFUSED[kind](CpuBackend())
    error = refusal.value
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert isinstance(twin, cpuops.KernelError)


# ---- what a guest leaves alone


@on_linux
def test_import_and_construction_start_no_thread():
    run(
        """
        import os
        import numpy
        before = len(os.listdir("/proc/self/task"))
        import cpuops
        assert len(os.listdir("/proc/self/task")) == before
        cpuops.CpuBackend(), cpuops.ThreadedCpuBackend(), cpuops.ThreadedCpuBackend(4), cpuops.show_config("dicts")
        assert len(os.listdir("/proc/self/task")) == before
        """,
        prelude=False,
    )


@on_linux
def test_one_thread_never_becomes_two():
    run(
        """
        assert os_threads() == 1
        one = work(CpuBackend()), work(ThreadedCpuBackend(1))
        assert os_threads() == 1 and one[0] == one[1]
        """,
        OMP_NUM_THREADS="4",
    )


@on_linux
@threaded_build
def test_different_counts_side_by_side():
    """Each backend keeps its own number, in this thread and in another; no more OS threads than the largest team."""
    run("""
        one, two, three = (ThreadedCpuBackend(n) for n in (1, 2, 3))
        seen = []
        for b, most in ((one, 1), (two, 2), (one, 2), (three, 3), (two, 3), (CpuBackend(), 3)):
            first = work(b)
            seen.append(first)
            assert os_threads() <= most, (b, os_threads())
        assert len(set(seen)) == 1
        assert [b.num_threads for b in (one, two, three)] == [1, 2, 3]
        other = []
        thread = threading.Thread(target=lambda: other.append((work(three), work(one), three.num_threads)))
        thread.start()
        thread.join()
        assert other == [(first, first, 3)]
    """)


def test_eight_python_threads_on_one_backend():
    """Forward and backward calls mixed, on shared inputs: the serial bits every time."""
    run("""
        from concurrent.futures import ThreadPoolExecutor
        serial = CpuBackend()
        Y = np.random.default_rng(8).standard_normal((300, 1024), dtype="f4")
        small = X[:3, :17].copy()
        calls = [
            lambda b: b.relu(X), lambda b: b.relu_backward(Y, X), lambda b: b.softmax(X), lambda b: b.matmul(M, M),
            lambda b: b.reduce_sum(X, axis=0), lambda b: b.exp(small), lambda b: b.softmax(small), lambda b: b.add(X, Y),
            lambda b: b.softmax_backward(Y, X, axis=-1), lambda b: b.matmul_backward(M, M, M)[1],
        ]
        want = [bits(c(serial)) for c in calls]
        def many(k):
            order = np.random.default_rng(k).integers(0, len(calls), 60)
            return [int(i) for i in order if bits(calls[i](backends[k % len(backends)])) != want[i]]
        for backends in ([ThreadedCpuBackend(2)], [ThreadedCpuBackend(n) for n in (1, 2, 3, 7)] + [serial]):
            with ThreadPoolExecutor(8) as pool:
                assert list(pool.map(many, range(8))) == [[]] * 8
    """)


@on_linux
def test_short_lived_python_threads_leave_nothing():
    run("""
        b = ThreadedCpuBackend(2)
        def four():
            threads = [threading.Thread(target=work, args=(b,)) for _ in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        def settled(most):
            "The workers of a thread that ended end shortly after it."
            end = time.monotonic() + 20
            while os_threads() > most and time.monotonic() < end:
                time.sleep(0.01)
            return os_threads()
        work(b)
        for _ in range(12):
            four()
        assert settled(2) <= 2, os_threads()
    """)


@on_linux
def test_threadpoolctl_sees_nothing_changed():
    """The maximum of every runtime, in this thread and another, is the same after calls of all counts."""
    run("""
        from concurrent.futures import ThreadPoolExecutor
        from threadpoolctl import threadpool_info
        def settings():
            return sorted((i["filepath"], i["num_threads"]) for i in threadpool_info())
        def use():
            for b in (ThreadedCpuBackend(1), ThreadedCpuBackend(3), CpuBackend(), ThreadedCpuBackend(2)):
                work(b)
            return settings()
        before = (work(CpuBackend()), settings())[1]
        assert use() == before
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(settings).result()
            assert pool.submit(use).result() == other
    """)


def test_floating_point_mode_is_untouched():
    """Subnormals survive in NumPy and in every worker, and so does the rounding mode."""
    run("""
        import ctypes
        fegetround = ctypes.CDLL(None).fegetround
        tiny32, tiny64 = np.full(300_000, 1e-40, "f4"), np.full(300_000, 1e-310)
        rounding = fegetround()
        for b in (CpuBackend(), ThreadedCpuBackend(2), ThreadedCpuBackend(3)):
            for tiny in (tiny32, tiny64):
                half = tiny.dtype.type(0.5)
                assert np.array_equal(b.relu(tiny), tiny)
                assert np.array_equal(b.add(tiny, tiny), tiny + tiny)
                assert np.array_equal(b.mul(tiny, np.full_like(tiny, half)), tiny * half)
                assert (tiny * half).all() and (b.mul(tiny, np.full_like(tiny, half)) != 0).all()
        assert fegetround() == rounding
    """)


def test_other_python_threads_run_during_a_kernel():
    """With a switch interval of an hour another thread gets the GIL only if it is let go."""
    run("""
        ticks, stop = [0], []
        def tick():
            while not stop:
                ticks[0] += 1
                time.sleep(0)
        threading.Thread(target=tick, daemon=True).start()
        large = np.ones((900, 900), "f4")
        flat = np.ones(6_000_000, "f4")
        while not ticks[0]:
            time.sleep(0.001)
        sys.setswitchinterval(3600)
        for b in (CpuBackend(), ThreadedCpuBackend(2)):
            rows = flat.reshape(600, -1)
            for name, args in (("matmul", (large, large)), ("exp", (flat,)), ("softmax", (rows,)), ("relu", (flat,))):
                before, calls = ticks[0], 0
                while ticks[0] == before and calls < 1000:  # on a busy machine it may have to wait for its turn
                    getattr(b, name)(*args)
                    calls += 1
                assert ticks[0] > before, (b, name)
        sys.setswitchinterval(0.005)
        stop.append(1)
    """)


def test_ctrl_c_ends_a_loop_and_the_backend_works_on():
    run("""
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the jobs that a shell runs in the background ignore it
        for b in (CpuBackend(), ThreadedCpuBackend(2)):
            first = work(b)
            for after in (0.05, 0.11):
                alarm = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
                alarm.start()
                try:
                    while True:
                        b.matmul(M, M)
                        b.exp(X)
                except KeyboardInterrupt:
                    pass
                alarm.join()
                assert work(b) == first
    """)
