"""The recycling allocator: memory never has two owners, is bounded, and goes back when it must."""

import gc
import random
import sys
import tracemalloc
import weakref

import numpy as np
import pytest
from process import run

import cpuops
from cpuops import ArgumentError, CpuBackend, _memory, memory

F4 = np.dtype("f4")
MB = 1 << 20


@pytest.fixture
def pool():
    """The pool, empty, and afterwards with the limit that it had."""
    limit = memory.limit()
    memory.set_limit(64 * MB)
    memory.trim()
    yield memory
    memory.set_limit(limit)


def address(a):
    return a.ctypes.data


# ---- the arrays


@pytest.mark.parametrize("kind", ["f4", "f8", "i8", "i4", "?", ">f4", np.float32, F4, "c16", "S7"])
@pytest.mark.parametrize(
    "shape", [(), (0,), (1,), (3, 0, 2), (7,), (16,), (17, 3), (2, 3, 4, 5), (1,) * 32, (33, 1025), (1100, 1000)]
)
def test_an_array_is_an_ordinary_one(shape, kind):
    a = _memory.empty(shape, kind)
    assert (a.shape, a.dtype) == (shape, np.dtype(kind).newbyteorder("="))
    assert type(a) is np.ndarray
    assert a.flags.c_contiguous and a.flags.aligned and a.flags.writeable and a.dtype.isnative
    assert address(a) % 64 == 0
    assert a.size == 0 or a.strides == np.empty(shape, kind).strides
    assert not _memory.zeros(shape, kind).tobytes().strip(b"\0")


def test_every_size_has_its_bytes(pool):
    """Each size around a boundary of the size classes is written from end to end, all at once."""
    sizes = sorted(
        {max(0, n + d) for e in range(25) for n in (1 << e, 9 << max(e - 3, 0), 15 << max(e - 3, 0)) for d in (-1, 0, 1, 63, 64)}
    )
    for group in (sizes[: len(sizes) // 2], random.Random(1).sample(sizes[len(sizes) // 2 :], 12)):
        for _ in range(2):  # the second round lies in recycled memory
            arrays = [_memory.empty((n,), np.uint8) for n in group]
            for k, a in enumerate(arrays):
                a[...] = k % 251
            assert all((a == k % 251).all() for k, a in enumerate(arrays))
            del arrays, a


def test_zeros_are_zeros_in_recycled_memory(pool):
    for n in (10, 5000, 70_000, 2_000_000):
        for _ in range(3):
            a = _memory.zeros((n,), F4)
            assert not a.any()
            a[...] = np.nan


def test_weakrefs_views_and_buffers_keep_memory(pool):
    a = _memory.empty((1000,), F4)
    a[...] = np.arange(1000)
    dead = weakref.ref(a)
    keepers = [a[::2], memoryview(a), a.reshape(10, 100)[3:], np.from_dlpack(a)]
    where = address(a)
    del a
    gc.collect()
    for _ in range(50):
        b = _memory.empty((1000,), F4)
        assert address(b) != where
        b[...] = -1
    assert keepers[0][10] == 20 and keepers[1][999] == 999 and keepers[2][0, 0] == 300 and keepers[3][500] == 500
    in_use = pool.info()["in_use"]
    del keepers
    gc.collect()
    assert dead() is None
    assert pool.info()["in_use"] == in_use - 4096


def test_reference_counts_of_dtype_and_array():
    before = sys.getrefcount(F4)
    arrays = [_memory.empty((5,), F4) for _ in range(100)]
    assert sys.getrefcount(F4) >= before + 100
    assert sys.getrefcount(arrays[0]) == sys.getrefcount(arrays[99])
    del arrays
    assert sys.getrefcount(F4) == before


def test_nothing_is_shared_between_live_arrays(pool):
    """Random sizes, lifetimes and keepers: the live ones are disjoint and keep their bytes."""
    rng = random.Random(5)
    live = []
    for k in range(4000):
        n = rng.choice([1, 15, 16, 17, 200, 1000, 5000, 300_000])
        a = _memory.empty((n,), np.int32)
        a[...] = k
        low, high = address(a), address(a) + a.nbytes
        assert all(high <= low2 or high2 <= low for _, low2, high2, _ in live)
        live.append((a[rng.randrange(n) :], low, high, k))
        while len(live) > rng.randrange(1, 40):
            view, _, _, value = live.pop(rng.randrange(len(live)))
            assert (view == value).all()


# ---- what is asked for and cannot be had


@pytest.mark.parametrize(
    "shape", [(2**62,), (2**61, 2), (2**31, 2**31, 2**31), (2**63,), (2**200,), (0, 2**62, 2**62), (2**62, 0), (2**45,)]
)  # fmt: skip
@pytest.mark.parametrize("make", [_memory.empty, _memory.zeros])
def test_sizes_that_no_machine_has(make, shape):
    with pytest.raises(MemoryError) as refusal:
        make(shape, np.dtype("f8"))
    text = str(refusal.value)
    assert str(shape) in text and "float64" in text and "bytes" in text
    assert len(text) < 2000


def test_shapes_and_dtypes_that_are_none():
    for shape in ((-1,), (3, -2), (-(2**62),)):
        with pytest.raises(ValueError, match="negative"):
            _memory.empty(shape, F4)
    with pytest.raises(ValueError, match="65 axes"):
        _memory.empty((1,) * 65, F4)
    with pytest.raises(TypeError, match="object"):
        _memory.empty((3,), object)
    for shape in ((2.0,), ("3",), (None,)):
        with pytest.raises(TypeError):
            _memory.empty(shape, F4)
    for shape in (3, [3], None):
        with pytest.raises(TypeError):
            _memory.empty(shape, F4)


def test_free_blocks_are_given_up_before_memory_is_refused():
    """Under a limit of the address space a large array fits only once the pool lets go of its blocks."""
    run("""
        import resource
        from cpuops import _memory, memory
        memory.set_limit(1 << 40)
        arrays = [_memory.empty((20 << 20,), np.uint8) for _ in range(20)]
        del arrays
        assert memory.info()["held"] >= 400 << 20
        with open("/proc/self/statm") as f:
            now = int(f.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (now + (100 << 20),) * 2)
        a = _memory.empty((300 << 20,), np.uint8)
        a[:: 1 << 20] = 1
        assert memory.info()["held"] == 0 and a.any()
        try:
            _memory.empty((900 << 20,), np.uint8)
        except MemoryError as error:
            assert "943718400" in str(error)
        else:
            raise AssertionError("more than the limit of the address space was given")
        b = _memory.empty((1000,), np.uint8)
        b[...] = 1
    """) if sys.platform == "linux" else pytest.skip("only Linux limits the address space")


# ---- the pool


def test_memory_is_used_again(pool):
    for n in (1, 1000, 100_000, 3_000_000):
        a = _memory.empty((n,), F4)
        where, hits = address(a), pool.info()["hits"]
        del a
        b = _memory.empty((n,), F4)
        assert address(b) == where
        assert pool.info()["hits"] == hits + 1


def test_the_warmest_block_comes_first_and_the_oldest_goes(pool):
    three = [_memory.empty((5 * MB,), np.uint8) for _ in range(3)]
    places = [address(a) for a in three]
    while three:
        three.pop(0)
    a = _memory.empty((5 * MB,), np.uint8)
    assert address(a) == places[2]
    del a
    pool.trim(pool.info()["held"] - 1)  # one has to go: not the one that was freed last
    assert pool.info()["blocks"] == 2
    assert address(_memory.empty((5 * MB,), np.uint8)) == places[2]


def test_a_somewhat_larger_block_serves_too(pool):
    a = _memory.empty((1_200_000,), np.uint8)
    where = address(a)
    del a
    assert address(_memory.empty((1_000_000,), np.uint8)) == where
    assert address(_memory.empty((800_000,), np.uint8)) != where


def test_scratch_takes_a_much_larger_block(pool):
    """The packed operands of a small product lie where those of a larger one lay."""
    backend = CpuBackend()
    for n in (512, 256):
        a, out = np.ones((n, n), F4), np.empty((n, n), F4)
        misses = pool.info()["misses"]
        backend.matmul(a, a, out=out)
        assert pool.info()["misses"] - misses == (n == 512)
        assert (out == n).all()


def test_counts_are_exact(pool):
    before = pool.info()
    assert before["held"] == before["blocks"] == 0
    a = _memory.empty((1000,), np.uint8)
    b = _memory.empty((100,), np.uint8)
    assert pool.info()["in_use"] == before["in_use"] + 1024 + 128
    assert pool.info()["misses"] == before["misses"] + 2
    del a
    assert (pool.info()["held"], pool.info()["blocks"]) == (1024, 1)
    del b
    assert (pool.info()["held"], pool.info()["blocks"]) == (1152, 2)
    assert pool.info()["in_use"] == before["in_use"]
    assert pool.trim(1024) == 1024  # the older one is the first to go
    assert pool.trim() == 128
    assert pool.trim() == 0


def test_held_memory_is_bounded(pool):
    rng = random.Random(3)
    for _ in range(600):
        kept = [_memory.empty((rng.randrange(20 * MB),), np.uint8) for _ in range(rng.randrange(1, 6))]
        assert pool.info()["held"] <= 64 * MB
        del kept
        assert pool.info()["held"] <= 64 * MB
    assert pool.info()["held"] > 30 * MB


def test_blocks_above_the_limit_are_never_kept(pool):
    pool.set_limit(MB)
    small = _memory.empty((1000,), np.uint8)
    del small
    held = pool.info()["held"]
    for n in (MB + 1, 3 * MB, 3 * MB + 4097):
        a = _memory.empty((n,), np.uint8)
        a[-1] = 1
        del a
        assert pool.info()["held"] == held
    # made under a small limit, freed under a large one; and the other way round
    a = _memory.empty((3 * MB + 1,), np.uint8)
    pool.set_limit(64 * MB)
    del a
    b = _memory.empty((3 * MB + 1,), np.uint8)
    b[...] = 2
    pool.set_limit(MB)
    held = pool.info()["held"]
    del b
    assert pool.info()["held"] == held


def test_a_limit_of_zero_keeps_nothing(pool):
    arrays = [_memory.empty((n,), F4) for n in (1, 100, 100_000, 3_000_000)]
    del arrays
    assert pool.info()["held"] > 0
    pool.set_limit(0)
    assert pool.info()["held"] == pool.info()["blocks"] == 0
    arrays = [_memory.empty((n,), F4) for n in (0, 1, 100, 100_000, 3_000_000)]
    arrays[4][...] = 1
    del arrays
    assert pool.info()["held"] == pool.info()["blocks"] == 0


def test_small_free_blocks_are_bounded_in_number(pool):
    arrays = [_memory.empty((1,), np.uint8) for _ in range(40_000)]
    del arrays
    assert pool.info()["blocks"] <= 16_384


@pytest.mark.parametrize("value", [-1, 2**62 + 1, 10**30, 1.5, 1e6, "1M", None, True, [1], float("nan")])
@pytest.mark.parametrize(("call", "name"), [(memory.set_limit, "nbytes"), (memory.trim, "keep")])
def test_limits_that_are_refused(call, name, value):
    before = memory.limit()
    with pytest.raises(ArgumentError, match=name):
        call(value)
    assert memory.limit() == before


@pytest.mark.parametrize("value", [0, 1, np.int64(5), 2**62])
def test_limits_that_are_taken(pool, value):
    pool.set_limit(value)
    assert pool.limit() == pool.info()["limit"] == int(value)
    assert pool.trim(value) == 0


@pytest.mark.parametrize(
    ("text", "want"),
    [("", 256 * MB), (" ", 256 * MB), ("0", 0), ("1000000", 10**6), ("64K", 64 << 10), ("64k", 64 << 10), ("3M", 3 * MB),
     ("2G", 2 << 30), ("1.5G", 3 << 29), (" 7 MB", 7 * MB), ("7MiB", 7 * MB), ("1T", 1 << 40)],
)  # fmt: skip
def test_limit_from_the_environment(pool, text, want):
    pool.set_limit(256 * MB)
    memory._set_first_limit(text)
    assert pool.limit() == want


@pytest.mark.parametrize(
    "text", ["abc", "-1", "1e9", "M", "1.2.3M", "inf", "nan", "9" * 400, "9" * 400 + ".5G", "64 K 8", "²", "0x10", "5P"]
)
def test_nonsense_in_the_environment_is_warned_about(pool, text):
    pool.set_limit(256 * MB)
    with pytest.warns(RuntimeWarning, match="CPUOPS_MEMORY_LIMIT"):
        memory._set_first_limit(text)
    assert pool.limit() == 256 * MB


def test_the_variable_is_read_at_import():
    assert run("print(cpuops.memory.limit())", CPUOPS_MEMORY_LIMIT="3M")[0] == str(3 * MB)
    out, errors = run("print(cpuops.memory.limit())", CPUOPS_MEMORY_LIMIT="lots")
    assert out == str(256 * MB)
    assert "CPUOPS_MEMORY_LIMIT" in errors


def test_tracemalloc_sees_the_arrays(pool):
    tracemalloc.start()
    try:
        a = _memory.empty((12_345,), np.uint8)
        held = tracemalloc.take_snapshot().filter_traces([tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)])
        assert sum(t.size for t in held.traces) >= 12_345
        del a
        held = tracemalloc.take_snapshot().filter_traces([tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)])
        assert not [t for t in held.traces if t.size == 12_345]
    finally:
        tracemalloc.stop()


# ---- operations


@pytest.mark.parametrize("make", [CpuBackend, lambda: cpuops.ThreadedCpuBackend(2)])
def test_ten_thousand_calls_leave_nothing(pool, make):
    b = make()
    xs = [np.ones(s, "f4") for s in ((7,), (33, 65), (300, 1025), (3, 0))]

    def calls(n):
        for k in range(n):
            x = xs[(3, 0, 1)[k % 3] if k % 50 else 2]
            y = b.relu(x)
            if k % 5 == 0:
                with pytest.raises(cpuops.KernelError):
                    b.add(x, x.astype("f8"))
            b.add(y, x, out=y)

    calls(100)
    gc.collect()
    before, blocks = pool.info(), sys.getallocatedblocks()
    calls(10_000)
    gc.collect()
    after = pool.info()
    assert {k: after[k] - before[k] for k in ("in_use", "held", "blocks", "misses")} == {
        "in_use": 0,
        "held": 0,
        "blocks": 0,
        "misses": 0,
    }
    assert sys.getallocatedblocks() - blocks < 500


def test_results_die_when_dropped_and_outlive_their_backend():
    b = CpuBackend()
    y = b.exp(np.zeros(1000, "f4"))
    del b
    assert (y == 1).all()
    dead = weakref.ref(y)
    del y
    assert dead() is None


def test_made_in_one_thread_and_dropped_in_another():
    run("""
        import queue
        b, q = ThreadedCpuBackend(2), queue.Queue(16)
        sizes = (50, 4000, 70_000, 300_000)
        inputs = [np.empty(n, "f4") for n in sizes]
        def make():
            for k in range(3000):
                x = inputs[k % 4]
                x[...] = k + 1
                q.put((k, b.relu(x)))
            q.put(None)
        maker = threading.Thread(target=make)
        maker.start()
        while (item := q.get()) is not None:
            k, a = item
            assert a[0] == a[-1] == k + 1, k
            del item, a
        maker.join()
        assert cpuops.memory.info()["blocks"] <= 4 * 20
    """)


def test_arrays_outlive_the_module_and_the_interpreter():
    out, _ = run("""
        import atexit, gc
        keep = [ThreadedCpuBackend(1 + k % 2).relu(X) for k in range(20)]
        total = float(keep[0].sum())
        globals()["at_the_end"] = keep
        atexit.register(lambda: print(float(keep[-1].sum()) == total, flush=True))
        for name in [m for m in sys.modules if m.partition(".")[0] == "cpuops"]:
            del sys.modules[name]
        del cpuops, CpuBackend, ThreadedCpuBackend, keep[3:9]
        gc.collect()
    """)
    assert out == "True"
