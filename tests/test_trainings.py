"""The trainings of examples/: each from its command to its picture, stopped and resumed, on data of a few kilobytes."""

import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import seeded

import cpuops
from cpuops import autograd

sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))

pytest.importorskip("tqdm", reason="the examples draw a progress bar with tqdm")
pytest.importorskip("matplotlib", reason="the examples draw their pictures with matplotlib")

import digits_data
import train_ctc
import train_digits
import train_text
import training


def digit_images(rng, n, side=28):
    """Labelled images: as many bright bars as the label says, and one more."""
    labels = rng.integers(0, 10, n)
    values = np.zeros((n, side, side), np.uint8)
    for image, label in zip(values, labels, strict=True):
        image[2 : 2 * label + 4 : 2, 8 : 14 + rng.integers(6)] = 220
    return values, labels


COMMANDS = {
    "digits": (train_digits, ["--epochs", "3", "--batch", "20"], 3 * 3),
    "text": (train_text, ["--steps", "7", "--batch", "2"], 7),
    "ctc": (train_ctc, ["--steps", "7", "--batch", "2"], 7),
}


@pytest.fixture(params=COMMANDS)
def name(request):
    return request.param


@pytest.fixture
def command(name, tmp_path, monkeypatch):
    """Runs the command with more options; the result is the weights that it left."""
    rng = seeded("trainings")
    data = digits_data.standardised("bars", digits_data.DIGIT_CLASSES, *digit_images(rng, 60), *digit_images(rng, 30))
    monkeypatch.setattr(digits_data, "load", lambda name, cache: data)
    text = train_text.encoded("def name(argument):\n    return argument + 1\n\n\n" * 40)
    monkeypatch.setattr(train_text, "load_text", lambda: (text[:-400], text[-400:]))
    monkeypatch.setattr(train_text, "HELD_OUT_WINDOWS", 4)
    monkeypatch.setattr(train_text, "SAMPLE_LENGTH", 5)
    monkeypatch.setattr(train_ctc, "HELD_OUT_LINES", 5)
    for module in (train_text, train_ctc):
        monkeypatch.setattr(module, "EVALUATE_EVERY", 3)
    module, options, _ = COMMANDS[name]
    out = tmp_path / "out"

    def run(*more):
        module.main([*options, "--threads", "2", "--out", str(out), *more])
        (weights,) = out.glob("*_weights.npz")
        return {key: value.tobytes() for key, value in np.load(weights).items()}

    run.module, run.out = module, out
    return run


@pytest.fixture
def undrawn(monkeypatch):
    """Without the picture, which takes longer than these trainings."""
    monkeypatch.setattr(training, "draw", lambda *arguments, **options: None)


def stop_after(monkeypatch, module, steps):
    """Press Ctrl-C in the middle of the step after that many; return a list that gets an entry a step."""
    loss_of, taken = module.loss_of, []

    def pressing(network, *batch):
        if network.training:  # and not under evaluation
            taken.append(None)
            if len(taken) == steps + 1:
                signal.raise_signal(signal.SIGINT)
        return loss_of(network, *batch)

    monkeypatch.setattr(module, "loss_of", pressing)
    return taken


# ---------------------------------------------------------------- from command to picture


def test_the_command(command, name, capsys):
    assert command()
    printed = capsys.readouterr()
    assert "loss=" in printed.err and re.search(r"(accuracy|bits|right)=\d", printed.err), "the bar"
    assert "held" in printed.out and re.search(r"[\d,]+ (characters|lines)/s|images/s", printed.out)
    (picture,) = command.out.glob("*_training.png")
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 10_000
    if name == "text":
        assert re.search(r"^def .{0,5}$", printed.out, re.MULTILINE), "the sample"


@pytest.mark.parametrize("steps", [2, 4])
def test_resume_gives_the_bits_of_an_unbroken_run(command, name, steps, undrawn, monkeypatch, capsys):
    """Stopped after the third step, when an evaluation is due, or after the fifth; gone on with another number of threads."""
    unbroken = command()
    total = COMMANDS[name][2]
    with monkeypatch.context() as patch:
        stop_after(patch, command.module, steps)
        with pytest.raises(training.Interrupted, match=rf"step {steps + 1} of {total}; go on with --resume"):
            command()
    taken = stop_after(monkeypatch, command.module, math.inf)
    assert command("--resume", "--threads", "1") == unbroken
    backends = 2 if name == "digits" else 1
    assert len(taken) == backends * total - (steps + 1), "it goes on, and does not begin anew"
    losses = [np.load(file)["run/losses"] for file in command.out.glob("*_checkpoint.npz")]
    assert all(len(found) == total for found in losses)
    taken.clear()
    assert command("--resume") == unbroken and not taken, "a run that is complete"


def test_another_seed_gives_other_bits(command, undrawn):
    first, other = command(), command("--seed", "1")
    assert first != other and first.keys() == other.keys()


# ---------------------------------------------------------------- refusals

WRONG = [
    ("--threads 0", "--threads"),
    ("--threads 1025", "--threads"),
    ("--batch 0", "--batch"),
    ("--seed -1", "--seed"),
    ("--out {file}", "--out"),
    ("--nonsense", "--nonsense"),
    ("--resume", r"--resume: .*_checkpoint\.npz"),
]


def refused(call, capsys):
    """The last line of what a command says that ends with an error."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        call()
    assert stop.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(("options", "words"), WRONG, ids=[options for options, _ in WRONG])
def test_wrong_options(command, options, words, tmp_path, capsys):
    (tmp_path / "file").write_text("in the way")
    last = refused(lambda: command(*options.format(file=tmp_path / "file").split()), capsys)
    assert re.search(f"error: .*{words}", last)


def test_batch_of_more_than_there_is(command, name, capsys):
    if name == "ctc":
        pytest.skip("lines are made as they are asked for")
    assert "argument --batch: 61 is more than" in refused(lambda: command("--batch", "61"), capsys)


def test_a_checkpoint_of_other_settings_is_refused(command, name, undrawn, capsys):
    command()
    assert "made with seed 0, and this is 1" in refused(lambda: command("--resume", "--seed", "1"), capsys)
    length = COMMANDS[name][1][0].strip("-")
    assert re.search(rf"made with {length} \d, and this is 9", refused(lambda: command("--resume", f"--{length}", "9"), capsys))


def test_a_damaged_checkpoint_is_refused(command, undrawn, capsys):
    weights = command()
    for file in command.out.glob("*_checkpoint.npz"):
        file.write_bytes(file.read_bytes()[:-100])
    assert "cannot go on from" in refused(lambda: command("--resume"), capsys)
    for file in command.out.glob("*_checkpoint.npz"):
        np.savez(file, **{"run/losses": np.zeros(3)})
    assert "cannot go on from" in refused(lambda: command("--resume"), capsys)
    assert command() == weights, "without --resume it begins anew"


# ---------------------------------------------------------------- Ctrl-C


def test_ctrl_c_ends_the_process_with_a_checkpoint(tmp_path):
    options = ["--steps", "100000", "--batch", "1", "--threads", "1", "--out", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen([sys.executable, train_text.__file__, *options], stderr=subprocess.PIPE, env=environment)
    try:
        said = b""
        while b"%|" not in said:  # the bar
            said += os.read(process.stderr.fileno(), 4096) or pytest.fail(said.decode())
        process.send_signal(signal.SIGINT)
        said += process.communicate(timeout=120)[1]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    step = int(re.search(rb"interrupted after step (\d+) of 100000; go on with --resume\n$", said)[1])
    assert len(cpuops.io.load(tmp_path / "text_checkpoint.npz")["run/losses"]) == step >= 1


def test_the_second_ctrl_c_stops_at_once():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), training.noted_interrupts() as noted:
        signal.raise_signal(signal.SIGINT)
        assert noted == [signal.SIGINT]
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


# ---------------------------------------------------------------- digits


@pytest.mark.parametrize("most", [0, 1, 2])
def test_shifted_images(most):
    images = np.zeros((200, 1, 9, 11), np.float32)
    images[:, 0, 4, 5] = 1
    labels = np.arange(200)
    moved, same = train_digits.shifted(seeded("shifted"), images, labels, most)
    assert same is labels and moved.shape == images.shape
    places = np.argwhere(moved)[:, 2:] - (4, 5)
    assert len(places) == 200 and {tuple(p) for p in places.tolist()} == {
        (i, j) for i in range(-most, most + 1) for j in range(-most, most + 1)
    }  # fmt: skip


def test_epochs_follow_from_the_data(tmp_path, monkeypatch):
    rng = seeded("epochs")
    data = digits_data.standardised("bars", digits_data.DIGIT_CLASSES, *digit_images(rng, 60), *digit_images(rng, 30))
    monkeypatch.setattr(digits_data, "load", lambda name, cache: data._replace(epochs=2))
    train_digits.main(["--backend", "cpu", "--batch", "30", "--out", str(tmp_path)])
    assert len(np.load(tmp_path / "mnist_CpuBackend_checkpoint.npz")["run/losses"]) == 2 * 2


# ---------------------------------------------------------------- text


def test_characters():
    text = "def f(x):\n    return ~x\n"
    assert train_text.decoded(train_text.encoded(text)) == text
    assert train_text.decoded(train_text.encoded("aé\t\U0001f600b")) == "a\ufffd\ufffd\ufffdb"


def test_held_out_files_are_apart(tmp_path):
    for i in range(20):
        (tmp_path / f"{i:02}.py").write_text(f"{i:02}\n")
    train, held_out = (train_text.decoded(part).split() for part in train_text.load_text(tmp_path))
    assert held_out == ["08"] and train == [f"{i:02}" for i in range(20) if i != 8]


def test_windows_are_followed_by_their_next_characters():
    text = np.arange(10 * train_text.CONTEXT)
    batches = train_text.new_batches(text, 4, seed=0)
    seen = [batch for _ in range(2) for batch in batches]
    assert len(seen) == 2 * len(batches) == 4
    for characters, following in seen:
        assert characters.shape == (4, train_text.CONTEXT)
        np.testing.assert_array_equal(following, characters + 1)
    starts = np.array([characters[:, 0] for characters, _ in seen])
    assert len(np.unique(starts)) == 16 and starts.max() > starts.min() + len(text) // 2


def test_bits_per_character_of_a_guess(serial):
    network = train_text.TextNet(seeded("guess"))
    network.head.weight.array[...] = 0
    network.head.bias.array[...] = 0
    text = train_text.encoded("some text or other\n" * 40)
    with autograd.using(serial), autograd.no_grad():
        assert train_text.bits_per_character(network, text) == pytest.approx(math.log2(train_text.CLASSES), rel=1e-5)


def test_the_network_does_not_look_ahead(serial):
    network = train_text.TextNet(seeded("ahead"))
    text = seeded("characters").integers(0, train_text.CLASSES, (1, train_text.CONTEXT))
    other = text.copy()
    other[0, 50:] = (other[0, 50:] + 1) % train_text.CLASSES
    with autograd.using(serial), autograd.no_grad():
        a, b = network(text).array, network(other).array
    np.testing.assert_array_equal(a[0, :50], b[0, :50])
    assert (a[0, 50:] != b[0, 50:]).any(axis=1).all()


# ---------------------------------------------------------------- lines of digits


def test_lines_hold_their_digits():
    """Every digit is a block of its own brightness and width, so that a line can be read back."""
    shapes = [np.full((28, 3 + i), i + 1, np.float32) for i in range(10)]
    shapes[0][0, 0] = 0  # the background
    lines = train_ctc.write_lines(seeded("lines"), shapes, np.arange(10), 40)
    assert lines.images.shape == (40, 1, train_ctc.HEIGHT, lines.images.shape[3]) and lines.images.shape[3] % train_ctc.COLUMN == 0
    assert set(lines.lengths) == set(range(train_ctc.SHORTEST, train_ctc.LONGEST + 1))
    low, high = train_ctc.GAPS
    for image, width, want in zip(lines.images[:, 0], lines.widths, train_ctc.truth(lines), strict=True):
        row = np.concatenate([image.max(axis=0), [0]])
        starts, ends = np.flatnonzero((row[1:] > 0) & (row[:-1] == 0)) + 1, np.flatnonzero((row[1:] == 0) & (row[:-1] > 0)) + 1
        assert [int(row[start]) - 1 for start in starts] == want
        assert (ends - starts).tolist() == [3 + digit for digit in want]
        gaps = np.diff(np.column_stack([starts, ends]).ravel(), prepend=0)[::2]
        assert low <= gaps.min() and gaps.max() <= high and low <= width - ends[-1] <= high
        tops = {int(np.flatnonzero(image[:, start + 1])[0]) for start in starts}
        assert tops <= set(range(train_ctc.HEIGHT - 28 + 1))


def test_empty_columns_are_cut():
    images = np.zeros((2, 28, 28), np.float32)
    images[0, 5, 3], images[0, 9, 10], images[1, :, 20] = 1, 2, 3
    assert [shape.shape for shape in train_ctc.cut_out(images)] == [(28, 8), (28, 1)]


def test_reading():
    """Repetitions are one digit, unless a blank stands between; frames beyond the width do not count."""
    frames = np.array([[3, 3, 10, 3, 1, 1, 10, 7], [10, 10, 5, 10, 10, 6, 6, 10], [10] * 8])
    lines = train_ctc.Lines(np.zeros((3, 1, 32, 32)), np.array([25, 32, 32]), np.array([[3, 3, 1], [5, 5, 0], [2, 0, 0]]), np.array([3, 2, 1]))
    found = autograd.Var(np.eye(11)[frames.T])
    assert train_ctc.read(lambda images: found, lines) == [[3, 3, 1], [5, 6], []]
    assert train_ctc.digits_right(lambda images: found, lines) == pytest.approx(1 - 2 / 6)


@pytest.mark.parametrize("words", ["-- 0", "-123 3", "123- 3", "123-123 0", "123-13 1", "13-123 1", "1234-2345 2", "11-22 2"])
def test_mistakes(words):
    a, b, distance = re.fullmatch(r"(\d*)-(\d*)-? (\d)", words).groups()
    assert train_ctc.mistakes(list(a), list(b)) == int(distance)
