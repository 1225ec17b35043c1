"""Train a convolutional network on handwritten digits, or on pictures of clothes.

    python examples/train_digits.py
    python examples/train_digits.py --data fashion --backend threaded --epochs 3

The network is conv, batch norm, relu, max pooling, all that once more, and a linear layer; SGD with momentum trains it on randomly shifted
images. By default the same training runs on CpuBackend and then on ThreadedCpuBackend, and the weights must come out equal to the last bit.
Weights and a picture of the training go to the output folder. digits_network.py has the same step without automatic differentiation.
"""

from functools import partial

import digits_data
import numpy as np
import training
from digits_network import CHANNELS, MOMENTUM, WEIGHT_DECAY

import cpuops
from cpuops import autograd, io, nn, optim
from cpuops.data import Batches

LEARNING_RATE = 0.02  # at its highest: it rises over the first tenth of the training, then falls to 0


# ---- the network ----


class Block(nn.Module):
    """3x3 convolution, batch norm, relu, 2x2 max pooling: [B, Cin, H, W] to [B, Cout, H // 2, W // 2]."""

    def __init__(self, c_in, c_out, generator):
        self.conv = nn.Conv2d(c_in, c_out, 3, padding=1, bias=False, generator=generator)
        self.norm = nn.BatchNorm(c_out)

    def forward(self, x):
        return autograd.max_pool2d(autograd.relu(self.norm(self.conv(x))), 2)


class DigitsNet(nn.Module):
    """Images [B, C, H, W] to logits [B, classes]."""

    def __init__(self, image_shape, classes, generator):
        c, h, w = image_shape
        self.block1, self.block2 = Block(c, CHANNELS[0], generator), Block(CHANNELS[0], CHANNELS[1], generator)
        self.linear = nn.Linear(CHANNELS[1] * (h // 4) * (w // 4), classes, generator=generator)

    def forward(self, images):
        return self.linear(autograd.flatten(self.block2(self.block1(images)), 1))


def loss_of(network, images, labels):
    return autograd.cross_entropy(network(images), labels)


def predict(network, images, batch=500):
    """Class probabilities: [N, classes]."""
    chunks = [images[i : i + batch] for i in range(0, len(images), batch)]
    return np.concatenate([autograd.softmax(network(chunk)).array for chunk in chunks])


# ---- training ----


def shifted(rng, images, labels, most):
    """Move every image by up to that many whole pixels along each axis; what comes in repeats the edge."""

    def moved(length):
        return np.clip(np.arange(length) + rng.integers(-most, most + 1, (len(images), 1)), 0, length - 1)

    rows, columns = moved(images.shape[2]), moved(images.shape[3])
    each = np.arange(len(images))[:, np.newaxis, np.newaxis]
    return images[each, 0, rows[:, :, np.newaxis], columns[:, np.newaxis, :]][:, np.newaxis], labels


def new_run(ops, data, checkpoint, epochs, batch, seed):
    """A new network and what trains it; all that is random follows from the seed alone."""
    network = DigitsNet(data.train_images.shape[1:], len(data.classes), np.random.default_rng(seed))
    weights = [p for name, p in network.named_parameters() if name.endswith("weight")]
    others = [p for name, p in network.named_parameters() if not name.endswith("weight")]
    # the images of an unfinished batch wait for the next epoch
    batches = Batches(
        data.train_images, data.train_labels, batch_size=batch, drop_last=True, seed=seed, transform=partial(shifted, most=data.shift)
    )
    steps = epochs * len(batches)
    return training.Run(
        ops, checkpoint, network,
        optim.SGD(
            [{"parameters": weights, "weight_decay": WEIGHT_DECAY}, {"parameters": others}],
            lr=LEARNING_RATE, momentum=MOMENTUM, backend=ops,
        ),
        batches, optim.schedules.linear(steps, warmup=steps // 10),
        steps=steps, every=len(batches),
        settings={"epochs": epochs, "batch": batch, "seed": seed, "data": training.checksum(data.train_images)},
    )  # fmt: skip


def train(run, data):
    run.train(
        loss_of, lambda network: (predict(network, data.test_images).argmax(axis=1) == data.test_labels).mean(),
        title=type(run.ops).__name__, unit="images", figure="accuracy", show=lambda accuracy: f"{accuracy:.1%}",
    )  # fmt: skip


# ---- the command ----


def main(arguments=None):
    parser, options = parse(arguments)
    training.check_out(parser, options.out)
    try:
        data = digits_data.load(options.data, options.out / "cache")
    except digits_data.DataError as problem:
        parser.error(f"argument --data: {problem}")
    options.epochs = options.epochs or data.epochs
    if options.batch > len(data.train_images):
        parser.error(f"argument --batch: {options.batch} is more than the {len(data.train_images)} training images")
    backends = [cpuops.CpuBackend()] if options.backend in ("cpu", "both") else []
    if options.backend in ("threaded", "both"):
        backends.append(training.threaded_backend(parser, options.threads))
    runs = new_runs(backends, data, options)
    training.begin(parser, runs, resume=options.resume)

    print(
        f"{data.title}: {len(data.train_images)} to train on, {len(data.test_images)} held out; "
        f"{options.epochs} epochs in batches of {options.batch}"
    )
    for run in runs:
        train(run, data)
    print_table(runs)
    check_bit_identical(runs)

    last = runs[-1]
    weights, picture = options.out / f"{options.data}_weights.npz", options.out / f"{options.data}_training.png"
    io.save(weights, last.network.state_dict())
    last.network.eval()
    with autograd.using(last.ops), autograd.no_grad():
        probabilities = predict(last.network, data.test_images)
    threads = "1 thread" if last.ops.num_threads == 1 else f"{last.ops.num_threads} threads"
    training.draw(
        picture, last, lambda figure: draw_misread(figure, data, probabilities),
        title=f"{type(last.ops).__name__}, {threads}: {images_per_second(last):,.0f} images a second",
        label="held-out accuracy", percent=True, axis=("epoch", last.every),
    )  # fmt: skip
    print(f"weights: {weights}\npicture: {picture}")


def parse(arguments):
    parser = training.new_parser(__doc__, length="epochs", default=None, batch=50, unit="images")
    parser.add_argument(
        "--data",
        choices=digits_data.SOURCES,
        default="mnist",
        help="mnist: 5,000 digits; fashion: 70,000 images of clothes; digits: 1,797 digits of 8x8 pixels",
    )
    parser.add_argument("--backend", choices=("cpu", "threaded", "both"), default="both")
    options = parser.parse_args(arguments)
    if options.threads and options.backend == "cpu":
        parser.error("argument --threads: the cpu backend has one thread; use --backend threaded or both")
    return parser, options


def new_runs(backends, data, options):
    """One run a backend, each with a checkpoint of its own."""

    def checkpoint(ops):
        return options.out / f"{options.data}_{type(ops).__name__}_checkpoint.npz"

    return [new_run(ops, data, checkpoint(ops), options.epochs, options.batch, options.seed) for ops in backends]


def images_per_second(run):
    return len(run.losses) * run.batches.batch_size / run.seconds


def print_table(runs):
    print(f"\n{'backend':<20}{'threads':>8}{'images/s':>10}{'seconds':>9}{'held-out accuracy':>19}")
    for run in runs:
        name, rate = type(run.ops).__name__, images_per_second(run)
        print(f"{name:<20}{run.ops.num_threads:>8}{rate:>10,.0f}{run.seconds:>9.1f}{run.figures[-1]:>19.1%}")


def check_bit_identical(runs):
    """Raise AssertionError unless every run ended with the same bits in every weight."""
    (name, expected), *others = [(type(run.ops).__name__, run.network.state_dict()) for run in runs]
    for other, state in others:
        differing = [key for key, value in expected.items() if value.tobytes() != state[key].tobytes()]
        if differing:
            raise AssertionError(f"{name} and {other} ended with different bits in {', '.join(differing)}")
        count = sum(value.size for value in expected.values())
        print(f"\nAll {count:,} weights of {name} and {other} are bit-identical.")


# ---- the picture ----

COLUMNS, MOST_ROWS = 7, 4


def draw_misread(figure, data, probabilities):
    """Every cell: what the network read and how sure it was, the image, what it is; the surest mistakes first."""
    read = probabilities.argmax(axis=1)
    wrong = np.flatnonzero(read != data.test_labels)
    shown = wrong[np.argsort(-probabilities[wrong, read[wrong]], kind="stable")][: COLUMNS * MOST_ROWS]
    which = f"the {len(shown)} surest mistakes" if len(shown) < len(wrong) else "surest first"
    figure.suptitle(f"{len(wrong)} of {len(read):,} held-out images misread, {which}")

    grid = figure.subplots(max(3, -(-len(shown) // COLUMNS)), COLUMNS)
    for axes in grid.flat:
        axes.set_axis_off()
        axes.set_anchor("N")
    for axes, i in zip(grid.flat, shown, strict=False):
        axes.imshow(data.test_images[i, 0], cmap="gray_r")
        axes.set_title(f"read {data.classes[read[i]]}, {probabilities[i, read[i]]:.0%}", color=training.ORANGE, fontsize=9)
        label = f"is {data.classes[data.test_labels[i]]}"
        axes.text(0.5, -0.03, label, transform=axes.transAxes, ha="center", va="top", color=training.GREY, fontsize=9)


if __name__ == "__main__":
    training.command(main)
