"""The picture that train_digits.py leaves: how the training went, and the images that it still misreads."""

import matplotlib

matplotlib.use("Agg")  # draws to files, without a display

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import PercentFormatter

COLUMNS, MOST_ROWS = 7, 4
BLUE, ORANGE, GREY = "#1f5fa8", "#d9660a", "#777777"


def draw(path, data, run):
    """Save the learning curves and a sheet of misread images, the surest mistakes first, as one PNG."""
    figure = plt.figure(figsize=(14, 6.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.35), wspace=0.03)
    draw_curves(left, run)
    draw_misread(right, data, run.probabilities)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_curves(figure, run):
    """Loss of each step (faint) and its mean over an epoch; held-out accuracy after each epoch, in a panel of its own."""
    epochs = len(run.accuracies)
    step = (np.arange(len(run.losses)) + 1) * epochs / len(run.losses)
    means = np.reshape(run.losses, (epochs, -1)).mean(axis=1)
    after = np.arange(1, epochs + 1)

    upper, lower = figure.subplots(2, 1, sharex=True)
    upper.plot(step, run.losses, color=BLUE, alpha=0.25, linewidth=0.8, label="each step")
    upper.plot(after - 0.5, means, "o-", color=BLUE, markersize=4, label="mean of the epoch")
    upper.set_yscale("log")
    upper.set_ylabel("training loss")
    upper.legend(frameon=False)
    lower.plot(after, run.accuracies, "o-", color=ORANGE, markersize=4)
    end = (epochs, run.accuracies[-1])
    words = f"{run.accuracies[-1]:.1%}"
    lower.annotate(words, end, (0, -18), textcoords="offset points", ha="center", color=ORANGE, weight="bold")
    lower.yaxis.set_major_formatter(PercentFormatter(1, decimals=1))
    lower.set_ylabel("held-out accuracy")
    lower.set_xlabel("epoch")
    lower.margins(y=0.2)
    lower.set_ylim(top=min(1.005, lower.get_ylim()[1]))
    for axes in (upper, lower):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    threads = "1 thread" if run.threads == 1 else f"{run.threads} threads"
    figure.suptitle(f"{run.name}, {threads}: {run.images / run.seconds:,.0f} images a second")


def draw_misread(figure, data, probabilities):
    """Every cell: what the network read and how sure it was, the image, what it is."""
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
        axes.set_title(f"read {data.classes[read[i]]}, {probabilities[i, read[i]]:.0%}", color=ORANGE, fontsize=9)
        is_label = f"is {data.classes[data.test_labels[i]]}"
        axes.text(0.5, -0.03, is_label, transform=axes.transAxes, ha="center", va="top", color=GREY, fontsize=9)
