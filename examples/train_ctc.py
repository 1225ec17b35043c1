"""Train a network to read lines of handwritten digits, without being told where in the line each digit is.

    python examples/train_ctc.py
    python examples/train_ctc.py --steps 500 --threads 2

The lines are made of real digits of MNIST, cut out and put side by side with random gaps; the held-out lines are made of held-out digits.
Two convolutions look at the image, a GRU reads their columns from both sides, and CTC sums over all ways to align columns and digits.
"""

from typing import NamedTuple

import digits_data
import numpy as np
import training

from cpuops import autograd, io, nn, optim
from cpuops.data import Batches

SHORTEST, LONGEST = 4, 8  # digits of a line
GAPS = (2, 10)  # pixels before each digit, at least and at most
HEIGHT, REACH = 32, 2  # of a line; a digit stands up to that much above or below the middle
BLANK = 10  # the class that stands for no digit
CHANNELS, HIDDEN = (16, 32), 64
COLUMN = 4  # pixels of a frame that the GRU sees: two poolings
LEARNING_RATE = 3e-3
EVALUATE_EVERY = 200  # steps
HELD_OUT_LINES = 300


# ---- the data ----


class Lines(NamedTuple):
    """Images [B, 1, HEIGHT, W], as wide as the widest line; what else counts of each line."""

    images: np.ndarray
    widths: np.ndarray  # pixels
    digits: np.ndarray  # [B, LONGEST]
    lengths: np.ndarray


def cut_out(images):
    """Each image [H, W] without the columns that are empty (have the image's smallest value only)."""
    found = []
    for image in images:
        columns = np.flatnonzero((image > images.min()).any(axis=0))
        found.append(image[:, columns[0] : columns[-1] + 1])
    return found


def write_lines(rng, shapes, labels, count):
    """Lines of digits drawn from `shapes`, with random gaps and heights, on the background."""
    lengths = rng.integers(SHORTEST, LONGEST + 1, count)
    chosen = rng.integers(0, len(shapes), (count, LONGEST))
    gaps = rng.integers(GAPS[0], GAPS[1] + 1, (count, LONGEST + 1))
    tops = (HEIGHT - 28) // 2 + rng.integers(-REACH, REACH + 1, (count, LONGEST))
    sizes = np.array([[shapes[i].shape[1] for i in row] for row in chosen])
    starts = np.cumsum(gaps[:, :-1] + np.pad(sizes, ((0, 0), (1, 0)))[:, :-1], axis=1)
    widths = np.array([starts[i, n - 1] + sizes[i, n - 1] + gaps[i, n] for i, n in enumerate(lengths)])
    images = np.full((count, 1, HEIGHT, -(-widths.max() // COLUMN) * COLUMN), shapes[0].min(), np.float32)
    for i, n in enumerate(lengths):
        for j in range(n):
            shape, top, left = shapes[chosen[i, j]], tops[i, j], starts[i, j]
            images[i, 0, top : top + 28, left : left + shape.shape[1]] = shape
    return Lines(images, widths, labels[chosen], lengths)


# ---- the network ----


class LineNet(nn.Module):
    """Lines [B, 1, HEIGHT, W] to log-probabilities [W / COLUMN, B, BLANK + 1]."""

    def __init__(self, generator):
        layers, c_in = [], 1
        for c_out in CHANNELS:
            layers += [
                nn.Conv2d(c_in, c_out, 3, padding=1, bias=False, generator=generator), nn.BatchNorm(c_out), nn.ReLU(), nn.MaxPool2d(2),
            ]  # fmt: skip
            c_in = c_out
        self.features = nn.Sequential(*layers)
        self.reader = nn.GRU(c_in * HEIGHT // COLUMN, HIDDEN, bidirectional=True, generator=generator)
        self.head = nn.Linear(2 * HIDDEN, BLANK + 1, generator=generator)

    def forward(self, images):
        seen = autograd.transpose(self.features(images), (3, 0, 1, 2))  # [W / COLUMN, B, C, H]
        return autograd.log_softmax(self.head(self.reader(autograd.flatten(seen, 2))[0]))


def loss_of(network, images, widths, digits, lengths):
    """Mean over the lines of the loss of each, in nats a digit."""
    losses = autograd.ctc_loss(network(images), digits, -(-widths // COLUMN), lengths, BLANK, zero_infinity=True)
    return (losses / lengths.astype(np.float32)).mean()


def read(network, lines):
    """The digits of each line: the likeliest class of each frame, without repetitions and blanks."""
    found = []
    for best, width in zip(network(lines.images).array.argmax(axis=2).T, lines.widths, strict=True):
        frames = best[: -(-width // COLUMN)]
        new = np.diff(frames, prepend=-1) != 0
        found.append(frames[new & (frames != BLANK)].tolist())
    return found


def mistakes(a, b):
    """How many digits have to be changed, put in or left out to make a list of the other (Levenshtein's distance)."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        corner, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (x != y))
    return row[-1]


def truth(lines):
    return [row[:n].tolist() for row, n in zip(lines.digits, lines.lengths, strict=True)]


def digits_right(network, lines):
    """1 minus the mistakes a digit."""
    wrong = sum(map(mistakes, read(network, lines), truth(lines)))
    return 1 - wrong / lines.lengths.sum()


# ---- the command ----


def new_run(ops, data, options):
    rng = np.random.default_rng(options.seed)
    network = LineNet(rng)
    shapes = cut_out(data.train_images[:, 0])
    lines = Batches(
        np.arange(options.steps * options.batch), batch_size=options.batch, shuffle=False, seed=options.seed,
        transform=lambda rng, places: write_lines(rng, shapes, data.train_labels, len(places)),
    )  # fmt: skip
    return training.Run(
        ops, options.out / "ctc_checkpoint.npz", network, optim.AdamW(network.parameters(), lr=LEARNING_RATE, backend=ops), lines,
        optim.schedules.cosine(options.steps, warmup=min(50, options.steps // 10)),
        steps=options.steps, every=EVALUATE_EVERY, max_norm=5.0,
        settings={
            "steps": options.steps, "batch": options.batch, "seed": options.seed, "data": training.checksum(data.train_images),
        },
    )  # fmt: skip


def draw_lines(figure, lines, found, rows=12):
    """Lines of the held-out ones, with what was read: first those with mistakes."""
    wrong = np.array(list(map(mistakes, found, truth(lines))))
    figure.suptitle(f"{np.count_nonzero(wrong)} of {len(wrong)} held-out lines with a mistake; some of both kinds")
    shown = [*np.flatnonzero(wrong)[: rows // 2]]
    shown += [*np.flatnonzero(wrong == 0)[: rows - len(shown)]]
    for axes, i in zip(figure.subplots(rows // 2, 2).flat, shown, strict=False):
        axes.imshow(lines.images[i, 0], cmap="gray_r")
        axes.set_axis_off()
        words, right = "".join(map(str, found[i])), "".join(map(str, truth(lines)[i]))
        colour = training.ORANGE if wrong[i] else training.GREY
        axes.set_title(f"read {words}" + (f", is {right}" if wrong[i] else ""), color=colour, fontsize=10)


def main(arguments=None):
    parser = training.new_parser(__doc__, length="steps", default=1200, batch=16, unit="lines")
    options = parser.parse_args(arguments)
    training.check_out(parser, options.out)
    ops = training.threaded_backend(parser, options.threads)
    try:
        data = digits_data.load("mnist", options.out / "cache")
    except digits_data.DataError as problem:
        parser.error(str(problem))
    run = new_run(ops, data, options)
    training.begin(parser, [run], resume=options.resume)

    # the same lines in every run, whatever its --seed
    held_out = write_lines(np.random.default_rng(0), cut_out(data.test_images[:, 0]), data.test_labels, HELD_OUT_LINES)
    print(
        f"lines of {SHORTEST} to {LONGEST} of {len(data.train_images)} digits, {len(held_out.lengths)} held-out lines of "
        f"{len(data.test_images)} others; {options.steps} steps of {options.batch} lines; {run.network.num_parameters():,} parameters"
    )
    run.train(
        loss_of, lambda network: digits_right(network, held_out),
        title="lines", unit="lines", figure="right", show=lambda right: f"{right:.1%}",
    )  # fmt: skip
    run.network.eval()
    with autograd.using(ops), autograd.no_grad():
        found = read(run.network, held_out)
    for words, right in list(zip(found, truth(held_out), strict=True))[:5]:
        print(f"read {''.join(map(str, words)):<{LONGEST + 2}} is {''.join(map(str, right))}")
    rate = options.steps * options.batch / run.seconds
    print(f"\n{run.figures[-1]:.1%} of the held-out digits right, after {run.seconds:.1f} s: {rate:,.0f} lines/s")

    weights, picture = options.out / "ctc_weights.npz", options.out / "ctc_training.png"
    io.save(weights, run.network.state_dict())
    training.draw(
        picture, run, lambda figure: draw_lines(figure, held_out, found),
        title=f"{run.network.num_parameters():,} parameters, {rate:,.0f} lines a second", label="held-out digits right", percent=True,
        axis=("step", 1),
    )  # fmt: skip
    print(f"weights: {weights}\npicture: {picture}")


if __name__ == "__main__":
    training.command(main)
