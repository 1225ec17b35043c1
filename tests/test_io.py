"""Saving and loading: what comes back, what a crash leaves, what is refused."""

import os
import sys

import numpy as np
import pytest
from process import run

from cpuops import io, nn, optim
from cpuops.autograd import cross_entropy
from cpuops.data import Batches
from cpuops.errors import ArgumentError, KernelError

SUFFIXES = [".npz", ".safetensors"]
any_format = pytest.mark.parametrize("suffix", SUFFIXES)


@pytest.fixture(autouse=True)
def _safetensors():
    pytest.importorskip("safetensors", reason="the package safetensors is not installed")


STATE = {
    "w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "view": np.arange(12, dtype=np.float64).reshape(3, 4).T[::-2],
    "swapped": np.arange(3, dtype=">f4"),
    "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "nothing": np.zeros((0, 3), np.float32),
    "number": np.asarray(7),
    "yes": np.array([True, False]),
    "file": np.array([np.nan, -0.0, np.inf, 5e-324]),
    "a/b.c": np.uint8([255]),
}


@any_format
def test_what_comes_back(tmp_path, suffix):
    path = tmp_path / f"state{suffix}"
    io.save(path, STATE)
    got = io.load(str(path))
    assert got.keys() == STATE.keys()
    for name, want in STATE.items():
        assert got[name].shape == want.shape, name
        assert got[name].dtype == want.dtype.newbyteorder("="), name
        assert got[name].tobytes() == want.astype(got[name].dtype).tobytes(), name


@any_format
def test_a_failing_write_leaves_the_old_file_alone(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"state{suffix}"
    io.save(path, {"a": np.zeros(3)})
    path.chmod(0o640)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            io.save(path, {"a": np.ones(3)})
    assert np.array_equal(io.load(path)["a"], np.zeros(3))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    io.save(path, {"a": np.ones(3)})
    assert np.array_equal(io.load(path)["a"], np.ones(3))
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no SIGKILL")
@any_format
def test_a_process_killed_while_it_writes_loses_nothing(tmp_path, suffix):
    path = tmp_path / f"state{suffix}"
    io.save(path, {"a": np.zeros(3)})
    code = f"""
        import os, signal
        import numpy as np
        from cpuops import io
        os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
        io.save({str(path)!r}, {{"a": np.ones(100_000)}})
    """
    with pytest.raises(AssertionError, match=r"-9"):
        run(code)
    assert np.array_equal(io.load(path)["a"], np.zeros(3))


@pytest.mark.parametrize("path", ["state.pt", "state", 3, None])
def test_wrong_paths(path):
    for op, call in (("save", lambda: io.save(path, {})), ("load", lambda: io.load(path))):
        with pytest.raises(ArgumentError, match=rf"^{op}: path"):
            call()


def test_wrong_states(tmp_path):
    for state in ({"a": np.array([object()])}, {"a": [1.0]}, {3: np.zeros(3)}, {"": np.zeros(3)}, {"a": np.zeros(2, "M8[s]")}):
        with pytest.raises(KernelError, match=r"^save: "):
            io.save(tmp_path / "state.npz", state)
    assert not list(tmp_path.iterdir())


@any_format
def test_damaged_files(tmp_path, suffix):
    path = tmp_path / f"state{suffix}"
    io.save(path, {"a": np.arange(1000.0)})
    whole = path.read_bytes()
    for content in (b"", b"no such thing", whole[: len(whole) // 2], whole[len(whole) // 3 :]):
        path.write_bytes(content)
        with pytest.raises(ArgumentError, match=r"^load: path"):
            io.load(path)
    with pytest.raises(FileNotFoundError):
        io.load(tmp_path / f"absent{suffix}")


def test_no_file_runs_code(tmp_path):
    path = tmp_path / "state.npz"
    np.savez(path, a=np.array([print], dtype=object))
    with pytest.raises(ArgumentError, match=r"^load: path"):
        io.load(path)


# ---------------------------------------------------------------- whole trainings


def training(seed):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((50, 6), dtype=np.float32), rng.integers(0, 3, 50)
    network = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm(16), nn.ReLU(), nn.Dropout(0.3, seed=seed), nn.Linear(16, 3))
    parts = {
        "network": network,
        "optimizer": optim.AdamW(network.parameters(), lr=0.05),
        "batches": Batches(x, y, batch_size=8, seed=seed, transform=lambda r, a, b: (a + r.normal(0, 0.1, a.shape).astype("f4"), b)),
    }
    return network, parts


def train(network, parts, steps):
    while steps:
        for x, y in parts["batches"]:
            parts["optimizer"].zero_grad()
            cross_entropy(network(x), y).backward()
            parts["optimizer"].step()
            steps -= 1
            if not steps:
                break
    return network.state_dict()


@any_format
def test_a_resumed_training_has_the_bits_of_an_unbroken_one(tmp_path, suffix):
    path = tmp_path / f"run{suffix}"
    network, parts = training(seed=1)
    train(network, parts, 10)
    io.save_parts(path, **parts)
    want = train(network, parts, 13)
    network, parts = training(seed=2)
    io.load_parts(path, **parts)
    got = train(network, parts, 13)
    for name, value in want.items():
        assert got[name].tobytes() == value.tobytes(), name


def test_parts_are_loaded_all_or_none(tmp_path):
    path = tmp_path / "run.npz"
    network, parts = training(seed=1)
    train(network, parts, 3)
    io.save_parts(path, **parts)
    network, parts = training(seed=2)
    parts["optimizer"] = optim.SGD(network.parameters(), lr=0.1)  # Adam's state is not its own
    before = {k: v.copy() for k, v in network.state_dict().items()}
    with pytest.raises(ArgumentError, match="first_moment"):
        io.load_parts(path, **parts)
    assert all(np.array_equal(v, before[k]) for k, v in network.state_dict().items())
    with pytest.raises(ArgumentError, match=r"^load_parts: path"):
        io.load_parts(path, network=network)
    with pytest.raises(ArgumentError, match=r"^load_state_dict: "):
        io.load_parts(path, **training(seed=1)[1], more=network)
