"""Train a convolutional network on handwritten digits with nothing but a backend's own methods.

    python examples/train_digits.py
    python examples/train_digits.py --data fashion --backend threaded --epochs 3

The network (digits_network.py) is conv, batch_norm, relu, max_pool, all that once more, linear and cross_entropy; SGD
with momentum trains it. By default the same training runs on CpuBackend and then on ThreadedCpuBackend, and the weights
must come out equal to the last bit. Weights and a picture of the training go to the output folder.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import digits_data
import numpy as np
from digits_network import follow, loss_and_gradients, new_parameters, predict, sgd_step

import cpuops

try:
    import digits_plot
    from tqdm import tqdm
except ImportError as missing:
    sys.exit(f"train_digits.py: {missing}; get it with: pip install tqdm matplotlib")

LEARNING_RATE = 0.02  # at its highest: it rises over the first tenth of the training, then falls to 0
SHIFT = 1 / 14  # training images move by up to this part of their side, along each axis


# ---- training ----


class Run(NamedTuple):
    """What one backend's training leaves behind; the seconds are those of the training steps, without evaluation."""

    name: str
    threads: int
    weights: dict  # parameters and running statistics
    losses: list  # one a step
    accuracies: list  # one an epoch, on the held-out images
    probabilities: np.ndarray
    images: int
    seconds: float


def train(ops, data, epochs, batch, seed):
    """Train a new network; its first weights and all that is random afterwards follow from the seed alone."""
    rng = np.random.default_rng(seed)
    params, statistics = new_parameters(rng, data.train_images.shape[1:], len(data.classes))
    velocity = {name: np.zeros_like(value) for name, value in params.items()}
    steps = len(data.train_images) // batch  # an epoch; the images of an unfinished batch wait for the next one
    losses, accuracies, seconds = [], [], 0.0

    seldom = 0.1 if sys.stderr.isatty() else 10  # seconds between two lines of the bar; a log wants few
    with tqdm(total=epochs * steps * batch, desc=type(ops).__name__, unit=" images", mininterval=seldom) as bar:
        for _ in range(epochs):
            for chosen in rng.permutation(len(data.train_images))[: steps * batch].reshape(steps, batch):
                start = time.perf_counter()
                images = shifted(data.train_images[chosen], rng)
                loss, grads, norms = loss_and_gradients(ops, params, images, data.train_labels[chosen])
                sgd_step(params, grads, velocity, learning_rate((len(losses) + 0.5) / (epochs * steps)))
                follow(statistics, norms)
                seconds += time.perf_counter() - start
                losses.append(loss)
                bar.update(batch)
                bar.set_postfix(progress(losses, accuracies), refresh=False)
            probabilities = predict(ops, params, statistics, data.test_images)
            accuracies.append(float((probabilities.argmax(axis=1) == data.test_labels).mean()))
            bar.set_postfix(progress(losses, accuracies))
    return Run(
        type(ops).__name__, ops.num_threads, params | statistics, losses, accuracies, probabilities, len(losses) * batch, seconds
    )


def shifted(images, rng):
    """Move every image by a random number of whole pixels down and right; what comes in repeats the edge."""

    def moved(length):
        most = int(length * SHIFT)
        return np.clip(np.arange(length) + rng.integers(-most, most + 1, (len(images), 1)), 0, length - 1)

    rows, columns = moved(images.shape[2]), moved(images.shape[3])
    each = np.arange(len(images))[:, np.newaxis, np.newaxis]
    return images[each, 0, rows[:, :, np.newaxis], columns[:, np.newaxis, :]][:, np.newaxis]


def learning_rate(done):
    """The rate when that part of the training (0 to 1) is done."""
    return np.float32(LEARNING_RATE * min(done / 0.1, (1 - done) / 0.9))


def progress(losses, accuracies):
    return {"loss": f"{np.mean(losses[-20:]):.3f}", "accuracy": f"{accuracies[-1]:.1%}" if accuracies else "-"}


# ---- the command ----


def main(arguments=None):
    parser, options = parse(arguments)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=options.out):
            pass
    except OSError as problem:
        parser.error(f"argument --out: cannot write to {options.out}: {problem.strerror}")
    try:
        data = digits_data.load(options.data, options.out / "cache")
    except digits_data.DataError as problem:
        parser.error(f"argument --data: {problem}")
    if options.batch > len(data.train_images):
        parser.error(f"argument --batch: {options.batch} is more than the {len(data.train_images)} training images")
    try:
        backends = new_backends(options.backend, options.threads)
    except cpuops.ArgumentError as problem:
        parser.error(f"argument --threads: {problem}")

    print(
        f"{data.title}: {len(data.train_images)} to train on, {len(data.test_images)} held out; "
        f"{options.epochs} epochs in batches of {options.batch}"
    )
    runs = [train(ops, data, options.epochs, options.batch, options.seed) for ops in backends]
    print_table(runs)
    check_bit_identical(runs)

    weights, picture = options.out / f"{options.data}_weights.npz", options.out / f"{options.data}_training.png"
    np.savez(weights, **runs[-1].weights)
    digits_plot.draw(picture, data, runs[-1])
    print(f"weights: {weights}\npicture: {picture}")


def parse(arguments):
    def whole(low):
        def convert(text):
            if not text.strip().isdecimal() or int(text) < low:
                raise argparse.ArgumentTypeError(f"{text!r} is not a whole number >= {low}")
            return int(text)

        return convert

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data",
        choices=digits_data.SOURCES,
        default="mnist",
        help="mnist: 5,000 digits; fashion: 70,000 images of clothes; digits: 1,797 digits of 8x8 pixels",
    )
    parser.add_argument("--backend", choices=("cpu", "threaded", "both"), default="both")
    parser.add_argument("--threads", type=whole(1), help="of the threaded backend; default: the CPUs that may be used")
    parser.add_argument("--epochs", type=whole(1), default=10, help="passes over the training images (%(default)s)")
    parser.add_argument("--batch", type=whole(1), default=50, help="images a training step (%(default)s)")
    parser.add_argument("--seed", type=whole(0), default=0, help="of weights, order and shifts (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for weights and picture (%(default)s)")
    options = parser.parse_args(arguments)
    if options.threads and options.backend == "cpu":
        parser.error("argument --threads: the cpu backend has one thread; use --backend threaded or both")
    return parser, options


def new_backends(names, threads):
    backends = []
    if names in ("cpu", "both"):
        backends.append(cpuops.CpuBackend())
    if names in ("threaded", "both"):
        backends.append(cpuops.ThreadedCpuBackend(threads))
    return backends


def print_table(runs):
    print(f"\n{'backend':<20}{'threads':>8}{'images/s':>10}{'seconds':>9}{'held-out accuracy':>19}")
    for run in runs:
        print(f"{run.name:<20}{run.threads:>8}{run.images / run.seconds:>10,.0f}{run.seconds:>9.1f}{run.accuracies[-1]:>19.1%}")


def check_bit_identical(runs):
    """Raise AssertionError unless every run ended with the same bits in every weight."""
    first, *others = runs
    for other in others:
        differing = [name for name, value in first.weights.items() if value.tobytes() != other.weights[name].tobytes()]
        if differing:
            raise AssertionError(f"{first.name} and {other.name} ended with different bits in {', '.join(differing)}")
        count = sum(value.size for value in first.weights.values())
        print(f"\nAll {count:,} weights of {first.name} and {other.name} are bit-identical.")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\ninterrupted")
