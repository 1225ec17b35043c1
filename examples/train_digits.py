"""Train a convolutional network on handwritten digits with nothing but a backend's own methods.

    python examples/train_digits.py
    python examples/train_digits.py --data fashion --backend threaded --epochs 3

The network is conv, batch_norm, relu, max_pool, all that once more, linear and cross_entropy; SGD with momentum trains
it. There is no automatic differentiation here: a layer's backward calls, in reverse, the names that its forward called,
with _backward added. By default the same training runs on CpuBackend and then on ThreadedCpuBackend, and the weights
must come out equal to the last bit.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import NamedTuple

import digits_data
import numpy as np

import cpuops

try:
    import digits_plot
    from tqdm import tqdm
except ImportError as missing:
    sys.exit(f"train_digits.py: {missing}; get it with: pip install tqdm matplotlib")

CHANNELS = (16, 32)      # output channels of the two convolutions
EPSILON = 1e-5           # of the batch norms
STATISTICS_MEMORY = 0.9  # what the running mean and variance keep of themselves at a step
LEARNING_RATE = 0.03     # at the start; falls to 0 along a half cosine
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-3
SHIFT = 1 / 14           # training images move by up to this part of their side, along each axis


# ---- layers: a forward returns its output and what its backward needs ----

def block_forward(ops, x, params, name):
    """3x3 convolution, batch norm, relu, 2x2 max pooling: [B, Cin, H, W] to [B, Cout, H // 2, W // 2]."""
    conv = ops.conv2d(x, params[f"{name}.weight"], padding=1)
    norm = ops.batch_norm_train(conv, params[f"{name}.gamma"], params[f"{name}.beta"], EPSILON)
    relu = ops.relu(norm.output)
    pool = ops.max_pool2d_with_indices(relu, 2)
    return pool.output, (x, conv, norm, relu, pool.indices)


def block_backward(ops, output_grad, saved, params, name, grads, *, x_grad=True):
    """Put the gradients of the block's parameters into grads; return the gradient of its input, if that is wanted."""
    x, conv, norm, relu, indices = saved
    g = ops.max_pool2d_with_indices_backward(relu, 2, output_grad, indices)
    g = ops.relu_backward(g, norm.output)
    g, grads[f"{name}.gamma"], grads[f"{name}.beta"] = ops.batch_norm_train_backward(
        conv, params[f"{name}.gamma"], norm.mean, norm.variance, EPSILON, g)
    grads[f"{name}.weight"] = ops.conv2d_weight_backward(x, params[f"{name}.weight"], g, padding=1)
    return ops.conv2d_x_backward(x, params[f"{name}.weight"], g, padding=1) if x_grad else None


def head_forward(ops, x, labels, params):
    """Mean cross entropy of one linear layer on the flattened channels."""
    flat = x.reshape(len(x), -1)
    logits = ops.linear(flat, params["linear.weight"], params["linear.bias"])
    return ops.cross_entropy(logits, labels), (x.shape, flat, labels, logits)


def head_backward(ops, output_grad, saved, params, grads):
    x_shape, flat, labels, logits = saved
    g = ops.cross_entropy_backward(output_grad, logits, labels)
    g, grads["linear.weight"], grads["linear.bias"] = ops.linear_backward(flat, params["linear.weight"], g)
    return g.reshape(x_shape)


# ---- the network ----

def new_parameters(rng, image_shape, classes):
    """Draw the weights (He: variance 2 / fan in); the running statistics start as those of a standard normal."""
    params, statistics = {}, {}
    c_in, h, w = image_shape
    for name, c_out in zip(("block1", "block2"), CHANNELS, strict=True):
        params[f"{name}.weight"] = rng.normal(0, (2 / (c_in * 9)) ** 0.5, (c_out, c_in, 3, 3))
        params[f"{name}.gamma"], params[f"{name}.beta"] = np.ones(c_out), np.zeros(c_out)
        statistics[f"{name}.mean"], statistics[f"{name}.variance"] = np.zeros(c_out), np.ones(c_out)
        c_in, h, w = c_out, h // 2, w // 2
    features = c_in * h * w
    params["linear.weight"] = rng.normal(0, (1 / features) ** 0.5, (features, classes))
    params["linear.bias"] = np.zeros(classes)
    return [{name: value.astype(np.float32) for name, value in group.items()} for group in (params, statistics)]


def loss_and_gradients(ops, params, images, labels):
    """One pass forward and back: the loss, every parameter's gradient, and the batch norms' results."""
    x1, saved1 = block_forward(ops, images, params, "block1")
    x2, saved2 = block_forward(ops, x1, params, "block2")
    loss, saved3 = head_forward(ops, x2, labels, params)

    grads = {}
    g = head_backward(ops, np.ones_like(loss), saved3, params, grads)
    g = block_backward(ops, g, saved2, params, "block2", grads)
    block_backward(ops, g, saved1, params, "block1", grads, x_grad=False)

    return float(loss), grads, {"block1": saved1[2], "block2": saved2[2]}


def predict(ops, params, statistics, images, batch=500):
    """Class probabilities with the running statistics in place of the batch's: [N, classes]."""
    def probabilities(x):
        for name in ("block1", "block2"):
            x = ops.conv2d(x, params[f"{name}.weight"], padding=1)
            x = ops.batch_norm(x, params[f"{name}.gamma"], params[f"{name}.beta"],
                               statistics[f"{name}.mean"], statistics[f"{name}.variance"], EPSILON)
            x = ops.max_pool2d(ops.relu(x), 2)
        return ops.softmax(ops.linear(x.reshape(len(x), -1), params["linear.weight"], params["linear.bias"]))
    return np.concatenate([probabilities(images[i:i + batch]) for i in range(0, len(images), batch)])


# ---- training ----

class Run(NamedTuple):
    """What one backend's training leaves behind; the seconds are those of the training steps, without evaluation."""

    name: str
    threads: int
    weights: dict      # parameters and running statistics
    losses: list       # one a step
    accuracies: list   # one an epoch, on the held-out images
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

    with tqdm(total=epochs * steps * batch, desc=type(ops).__name__, unit=" images", unit_scale=True) as bar:
        for _ in range(epochs):
            for chosen in rng.permutation(len(data.train_images))[:steps * batch].reshape(steps, batch):
                start = time.perf_counter()
                images = shifted(data.train_images[chosen], rng)
                loss, grads, norms = loss_and_gradients(ops, params, images, data.train_labels[chosen])
                sgd_step(params, grads, velocity, learning_rate(len(losses) / (epochs * steps)))
                follow(statistics, norms)
                seconds += time.perf_counter() - start
                losses.append(loss)
                bar.update(batch)
                bar.set_postfix(progress(losses, accuracies), refresh=False)
            probabilities = predict(ops, params, statistics, data.test_images)
            accuracies.append(float((probabilities.argmax(axis=1) == data.test_labels).mean()))
            bar.set_postfix(progress(losses, accuracies))
    return Run(type(ops).__name__, ops.num_threads, params | statistics, losses, accuracies, probabilities,
               len(losses) * batch, seconds)


def shifted(images, rng):
    """Move every image by a random number of whole pixels down and right; what comes in repeats the edge."""
    def moved(length):
        most = int(length * SHIFT)
        return np.clip(np.arange(length) + rng.integers(-most, most + 1, (len(images), 1)), 0, length - 1)

    rows, columns = moved(images.shape[2]), moved(images.shape[3])
    each = np.arange(len(images))[:, np.newaxis, np.newaxis]
    return images[each, 0, rows[:, :, np.newaxis], columns[:, np.newaxis, :]][:, np.newaxis]


def learning_rate(progress):
    return np.float32(LEARNING_RATE * (1 + np.cos(np.pi * progress)) / 2)


def sgd_step(params, grads, velocity, rate):
    """v = momentum v + grad + decay w, then w = w - rate v, in place; only weights decay."""
    for name, w in params.items():
        v = velocity[name]
        v *= np.float32(MOMENTUM)
        v += grads[name]
        if name.endswith("weight"):
            v += np.float32(WEIGHT_DECAY) * w
        w -= rate * v


def follow(statistics, norms):
    """Move the running mean and variance of each batch norm towards those of the last batch."""
    for name, norm in norms.items():
        for field in ("mean", "variance"):
            running = statistics[f"{name}.{field}"]
            running += np.float32(1 - STATISTICS_MEMORY) * (getattr(norm, field) - running)


def progress(losses, accuracies):
    return {"loss": f"{np.mean(losses[-20:]):.3f}", "accuracy": f"{accuracies[-1]:.1%}" if accuracies else "-"}


# ---- the command ----

def main(arguments=None):
    parser, options = parse(arguments)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / ".writable").touch()
        (options.out / ".writable").unlink()
        data = digits_data.load(options.data, options.out / "cache")
        backends = new_backends(options.backend, options.threads)
    except OSError as problem:
        parser.error(f"argument --out: cannot write to {options.out}: {problem.strerror or problem}")
    except (digits_data.DataError, cpuops.KernelError) as problem:
        parser.error(str(problem))
    if options.batch > len(data.train_images):
        parser.error(f"argument --batch: {options.batch} is more than the {len(data.train_images)} training images")

    print(f"{data.title}: {len(data.train_images)} to train on, {len(data.test_images)} held out; "
          f"{options.epochs} epochs in batches of {options.batch}")
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
    parser.add_argument("--data", choices=digits_data.SOURCES, default="mnist",
                        help="mnist: 5,000 digits; fashion: 70,000 images of clothes; digits: 1,797 digits of 8x8 pixels")
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
        print(f"{run.name:<20}{run.threads:>8}{run.images / run.seconds:>10,.0f}{run.seconds:>9.1f}"
              f"{run.accuracies[-1]:>19.1%}")


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
