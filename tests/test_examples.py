"""The examples and the README do what they say."""

import gzip
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from support import seeded

import cpuops

sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))

import digits_data
import digits_network

from cpuops import autograd

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def example():
    pytest.importorskip("tqdm", reason="the example draws a progress bar with tqdm")
    pytest.importorskip("matplotlib", reason="the example draws its picture with matplotlib")
    import train_digits

    return train_digits


def images(rng, n, side=12):
    """Labelled images of which even a small network learns something: a bright bar in one of three places."""
    labels = rng.integers(0, 3, n)
    values = rng.integers(0, 60, (n, side, side)).astype(np.uint8)
    for image, label in zip(values, labels, strict=True):
        image[3 * label + 2 : 3 * label + 4, 2:-2] = 220
    return values, labels


@pytest.fixture
def data():
    rng = seeded("bars")
    return digits_data.standardised("bars", ["top", "middle", "bottom"], *images(rng, 120), *images(rng, 40))


# ---------------------------------------------------------------- the README


def readme():
    return (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_tour_runs(capsys):
    tour, tape = re.findall(r"```python\n(.*?)```", readme(), re.DOTALL)
    assert 25 <= len(tour.splitlines()) <= 40
    scope = {}
    exec(compile(tour, "README.md", "exec"), scope)
    assert "conv2d" in capsys.readouterr().out, "the error that the tour shows"
    assert {name: scope[name].shape for name in ("weight_grad", "head_grad", "gamma_grad", "beta_grad")} == {
        "weight_grad": (8, 3, 3, 3), "head_grad": (8, 10), "gamma_grad": (8,), "beta_grad": (8,),
    }  # fmt: skip
    change = 1e-3 * seeded("tour").standard_normal(scope["head"].shape).astype(np.float32)
    features, labels = scope["features"].astype(np.float64), scope["labels"]
    losses = [scope["ops"].cross_entropy(features @ (scope["head"] + d), labels) for d in (change, -change)]
    np.testing.assert_allclose(losses[0] - losses[1], 2 * (scope["head_grad"] * change).sum(), rtol=1e-2)
    exec(compile(tape, "README.md", "exec"), scope)
    np.testing.assert_allclose(scope["w"].grad, scope["head_grad"], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("page", ["autograd", "nn", "training"])
def test_pages_run(page, tmp_path, monkeypatch):
    """The code of a page of the docs, block after block."""
    monkeypatch.chdir(tmp_path)
    images = seeded(page).standard_normal((2, 1, 28, 28)).astype(np.float32)
    scope = {"images": images, "print": lambda *text: None}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)
    for block in blocks:
        exec(compile(block, page, "exec"), scope)
    assert blocks
    if page == "autograd":
        assert float(scope["loss"].array) < 1.0, "100 steps did not learn 32 labels"
    elif page == "nn":
        assert scope["net"](images).shape == (2, 10)
    else:
        assert float(scope["loss"].array) < 0.4, "five epochs did not learn a plane"


def test_every_operation_is_listed():
    listed = set(re.findall(r"`(\w+)`", readme().partition("## What is implemented")[2].partition("## Dims")[0]))
    operations = {n for n in dir(cpuops.Backend) if not n.startswith("_") and not n.endswith("_backward")}
    operations -= {"name", "num_threads"}
    assert operations - listed - {f"{n}_with_{more}" for n in listed for more in ("indices", "sum")} == set()


def test_links_lead_somewhere():
    texts = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    targets = {(text, t) for text in texts for t in re.findall(r"\]\((?!https?:)([^)#]+)", text.read_text(encoding="utf-8"))}
    assert targets and not [f"{text.name}: {t}" for text, t in targets if not (text.parent / t).exists()]


# ---------------------------------------------------------------- the network


def test_gradients_of_the_network(backend, data):
    """A directional derivative of the loss over all parameters at once, in float64."""
    rng = seeded("network")
    params, _ = digits_network.new_parameters(rng, data.train_images.shape[1:], 3)
    params = {name: value.astype(np.float64) for name, value in params.items()}
    batch, labels = data.train_images[:10].astype(np.float64), data.train_labels[:10]
    _, grads, _ = digits_network.loss_and_gradients(backend, params, batch, labels)
    assert set(grads) == set(params)
    for name in params:
        step = np.zeros_like(params[name])
        step[...] = 1e-6 * rng.standard_normal(step.shape)

        def loss(sign, name=name, step=step):
            moved = params | {name: params[name] + sign * step}
            return digits_network.loss_and_gradients(backend, moved, batch, labels)[0]

        expected = 2 * (grads[name] * step).sum()
        assert abs(expected) > 1e-9
        np.testing.assert_allclose(loss(1) - loss(-1), expected, rtol=1e-4, err_msg=name)


def test_the_tape_finds_the_gradients_of_the_network(example, backend, data):
    """The network of train_digits.py and the one with its backward by hand, with the same parameters."""
    network = example.DigitsNet(data.train_images.shape[1:], 3, seeded("tape")).astype("f8")
    by_hand = {name: name.replace(".conv.", ".").replace(".norm.", ".") for name, _ in network.named_parameters()}
    params = {by_hand[name]: p.array for name, p in network.named_parameters()}
    batch, labels = data.train_images[:10].astype(np.float64), data.train_labels[:10]
    expected, grads, _ = digits_network.loss_and_gradients(backend, params, batch, labels)
    with autograd.using(backend):
        loss = example.loss_of(network, batch, labels)
        loss.backward()
    np.testing.assert_allclose(loss.array, expected, rtol=1e-12)
    assert set(by_hand.values()) == set(grads)
    for name, p in network.named_parameters():
        np.testing.assert_allclose(p.grad, grads[by_hand[name]], rtol=1e-9, atol=1e-12, err_msg=name)


def test_training(example, data, tmp_path, serial, threaded, capsys):
    """Both backends learn, with the same bits; a run is repeated by its seed, and not by another."""

    def trained(ops, epochs, seed):
        run = example.new_run(ops, data, tmp_path / "checkpoint.npz", epochs, 20, seed)
        example.train(run, data)
        return run

    runs = [trained(ops, epochs=6, seed=3) for ops in (serial, threaded, serial)]
    example.check_bit_identical(runs)
    assert "bit-identical" in capsys.readouterr().out
    assert runs[0].figures[-1] > 0.9
    assert len(runs[0].losses) == 36 and runs[0].losses[-1] < runs[0].losses[0] / 2
    with pytest.raises(AssertionError, match=r"block1\.conv\.weight"):
        example.check_bit_identical([runs[0], trained(serial, epochs=1, seed=4)])


# ---------------------------------------------------------------- the data


def test_csv_is_parsed_once(tmp_path):
    values, labels = images(seeded("csv"), 90, side=8)
    table = np.column_stack([values.reshape(90, -1), labels])
    source = tmp_path / "data.csv.gz"
    with gzip.open(source, "wt") as stream:
        np.savetxt(stream, table, fmt="%d", delimiter=",")
    cache = tmp_path / "cache" / "data.npy"
    for damage in (None, b"", b"\x93NUMPY broken", cache):
        if isinstance(damage, bytes):
            cache.write_bytes(damage)
        np.testing.assert_array_equal(digits_data.cached_csv(source, cache, table.shape), table)
    source.unlink()
    np.testing.assert_array_equal(digits_data.cached_csv(source, cache, table.shape), table)
    assert [file.name for file in cache.parent.iterdir()] == ["data.npy"]


def test_held_out_images_are_apart(tmp_path):
    table = np.column_stack([np.arange(240).reshape(60, 4) % 251, np.arange(60) % 3]).astype(np.uint8)
    data = digits_data.split(table, "numbers", held_out_per_class=5)
    assert np.bincount(data.test_labels).tolist() == [5, 5, 5] and len(data.train_images) == 45
    rows = {image.tobytes() for image in np.concatenate([data.train_images, data.test_images])}
    assert len(rows) == 60
    np.testing.assert_allclose([data.train_images.mean(), data.train_images.std()], [0, 1], atol=1e-5)
    again = digits_data.split(table, "numbers", held_out_per_class=5)
    np.testing.assert_array_equal(data.test_images, again.test_images)


def test_idx_files(tmp_path, monkeypatch):
    rng = seeded("idx")
    monkeypatch.setattr(digits_data, "FASHION_FOLDER", tmp_path)
    with pytest.raises(digits_data.DataError, match="apt-get install dataset-fashion-mnist"):
        digits_data.load("fashion", tmp_path / "cache")
    want = {}
    for part, n in (("train", 30), ("t10k", 12)):
        for kind, values in (("images-idx3", rng.integers(0, 256, (n, 28, 28))), ("labels-idx1", rng.integers(0, 10, n))):
            want[part, kind] = values
            header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
            (tmp_path / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(header + values.astype(np.uint8).tobytes()))
    data = digits_data.load("fashion", tmp_path / "cache")
    assert data.train_images.shape == (30, 1, 28, 28) and data.train_images.dtype == np.float32
    np.testing.assert_array_equal(data.test_labels, want["t10k", "labels-idx1"])
    assert data.test_images.argmax() == want["t10k", "images-idx3"].argmax()
    whole = (tmp_path / "train-images-idx3-ubyte.gz").read_bytes()
    for broken in (whole[:100], gzip.compress(b"\0\0\x08\x03"), gzip.compress(b"not an idx file"), b"no gzip"):
        (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(broken)
        with pytest.raises(digits_data.DataError):
            digits_data.load("fashion", tmp_path / "cache")


def test_a_missing_package_is_named():
    with pytest.raises(digits_data.DataError, match="pip install nowhere"):
        digits_data.package_file("no_such_package_here", "data.csv.gz", "pip install nowhere")
    with pytest.raises(digits_data.DataError, match=r"numpy/data\.csv\.gz"):
        digits_data.package_file("numpy", "data.csv.gz", "pip install nowhere")


# ---------------------------------------------------------------- the command

WRONG = [
    ("--backend gpu", "--backend"),
    ("--threads 0", "--threads"),
    ("--threads two", "--threads"),
    ("--threads 1025", "--threads"),
    ("--threads 2 --backend cpu", "--threads"),
    ("--epochs 0", "--epochs"),
    ("--epochs 1.5", "--epochs"),
    ("--batch 0", "--batch"),
    ("--batch 121", "--batch"),
    ("--seed -1", "--seed"),
    ("--data cifar", "--data"),
    ("--out {file}", "--out"),
    ("--out {file}/inside", "--out"),
    ("--nonsense", "--nonsense"),
]


@pytest.mark.parametrize(("options", "names"), WRONG, ids=[options for options, _ in WRONG])
def test_wrong_options(example, data, options, names, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(example.digits_data, "load", lambda name, cache: data)
    (tmp_path / "file").write_text("in the way")
    options = options.format(file=tmp_path / "file").split()
    with pytest.raises(SystemExit) as stop:
        example.main(options if "--out" in options else [*options, "--out", str(tmp_path / "out")])
    assert stop.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert "error:" in last and names in last


def test_the_command(example, data, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(example.digits_data, "load", lambda name, cache: data)
    example.main(["--epochs", "2", "--batch", "30", "--threads", "2", "--out", str(tmp_path / "new" / "folder")])
    printed = capsys.readouterr()
    assert "CpuBackend" in printed.out and "ThreadedCpuBackend" in printed.out and "bit-identical" in printed.out
    assert "loss=" in printed.err and "accuracy=" in printed.err and "images/s" in printed.err
    weights = np.load(tmp_path / "new" / "folder" / "mnist_weights.npz")
    assert weights["block1.conv.weight"].shape == (16, 1, 3, 3) and weights["block2.norm.running_variance"].min() > 0
    assert (tmp_path / "new" / "folder" / "mnist_training.png").stat().st_size > 10_000
