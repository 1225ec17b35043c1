"""What the trainings share: the loop with its bar, checkpoints and Ctrl-C, the options, and the picture of a run."""

import argparse
import signal
import sys
import tempfile
import time
import zlib
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import cpuops
from cpuops import autograd, io, optim

try:
    import matplotlib

    matplotlib.use("Agg")  # draws to files, without a display
    from matplotlib import pyplot as plt
    from matplotlib.ticker import PercentFormatter
    from tqdm import tqdm
except ImportError as missing:
    sys.exit(f"{Path(sys.argv[0]).name}: {missing}; get it with: pip install tqdm matplotlib")

BLUE, ORANGE, GREY = "#1f5fa8", "#d9660a", "#777777"


# ---- a run ----


class CheckpointError(Exception):
    """A file that this run cannot go on from; the message says why."""


class Interrupted(Exception):
    """Ctrl-C was pressed, and the checkpoint is written; the message says how to go on."""


class Run:
    """A training under way: what moves in it, and what was measured. All of it is in the file `checkpoint`.

    `schedule` takes the number of a step; `settings` are the whole numbers that the bits follow from, by the names of their options: a
    checkpoint made with others is refused.
    """

    def __init__(self, ops, checkpoint, network, optimizer, batches, schedule, *, steps, every, settings, max_norm=None):
        self.ops, self.checkpoint, self.steps, self.every, self.settings = ops, Path(checkpoint), steps, every, settings
        self.network, self.optimizer, self.batches = network, optimizer, batches
        self.schedule, self.max_norm = schedule, max_norm
        self.losses = []  # one a step
        self.figures = []  # held-out ones: one after every `every` steps, and one after the last
        self.seconds = 0.0  # of the steps, without evaluation

    # ------------------------------------------------------------ its file

    def state_dict(self):
        measured = {"losses": self.losses, "figures": self.figures, "seconds": self.seconds}
        state = {name: np.asarray(value, np.float64) for name, value in measured.items()}
        return state | {f"settings.{name}": np.asarray(value, np.int64) for name, value in self.settings.items()}

    def load_state_dict(self, state):
        if set(state) != set(self.state_dict()):
            raise CheckpointError("it is of another training")
        for name, value in self.settings.items():
            if (found := int(state[f"settings.{name}"])) != value:
                raise CheckpointError(f"it was made with {name} {found}, and this is {value}")
        self.losses, self.figures = state["losses"].tolist(), state["figures"].tolist()
        self.seconds = float(state["seconds"])

    def _parts(self):
        return {"run": self, "network": self.network, "optimizer": self.optimizer, "batches": self.batches}

    def save(self):
        io.save_parts(self.checkpoint, **self._parts())

    def resume(self):
        """Go on from the checkpoint; raise CheckpointError where that is not possible."""
        try:
            io.load_parts(self.checkpoint, **self._parts())
        except (OSError, cpuops.errors.KernelError, CheckpointError) as problem:
            raise CheckpointError(f"cannot go on from {self.checkpoint}: {problem}") from problem

    # ------------------------------------------------------------ the loop

    def train(self, loss_of, evaluate, *, title, unit, figure, show):
        """Take the steps that are left. Raise Interrupted after Ctrl-C, between two steps and with a checkpoint written.

        `loss_of(network, *batch)` is a Var, `evaluate(network)` the held-out figure of this name, which show(value) writes; `unit` is what
        a batch is counted in.
        """
        count = self.batches.batch_size
        seldom = 0.1 if sys.stderr.isatty() else 10  # seconds between two lines of the bar; a log wants few
        options = {"total": self.steps * count, "initial": len(self.losses) * count, "mininterval": seldom}
        with autograd.using(self.ops), noted_interrupts() as interrupts, tqdm(desc=title, unit=f" {unit}", **options) as bar:
            while len(self.losses) < self.steps:
                before = time.perf_counter()
                for batch in self.batches:
                    self._step(loss_of, batch)
                    due = len(self.losses) % self.every == 0 or len(self.losses) == self.steps
                    self.seconds += time.perf_counter() - before
                    if due:
                        self.figures.append(self._evaluated(evaluate))
                        self.save()
                    bar.update(count)
                    value = show(self.figures[-1]) if self.figures else "-"
                    bar.set_postfix({"loss": f"{np.mean(self.losses[-20:]):.3f}", figure: value}, refresh=due)
                    if interrupts and len(self.losses) < self.steps:
                        self.save()
                        raise Interrupted(f"interrupted after step {len(self.losses)} of {self.steps}; go on with --resume")
                    if len(self.losses) == self.steps:
                        break
                    before = time.perf_counter()

    def _step(self, loss_of, batch):
        loss = loss_of(self.network, *batch)
        self.optimizer.zero_grad()
        loss.backward()
        if self.max_norm is not None:
            optim.clip_grad_norm(self.network.parameters(), self.max_norm, backend=self.ops)
        self.optimizer.step(self.schedule(len(self.losses)))
        self.losses.append(float(loss.array))

    def _evaluated(self, evaluate):
        self.network.eval()
        with autograd.no_grad():
            found = float(evaluate(self.network))
        self.network.train()
        return found


@contextmanager
def noted_interrupts():
    """The list of the Ctrl-Cs within the block: the first is noted only, as a step is no place to stop; the second stops at once."""
    noted = []

    def note(number, frame):
        if noted:
            signal.default_int_handler(number, frame)
        noted.append(number)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


# ---- the commands ----


def whole(low):
    def convert(text):
        if not text.strip().isdecimal() or int(text) < low:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number >= {low}")
        return int(text)

    return convert


def new_parser(description, *, length, default, batch, unit):
    """A parser with the options of all trainings; `length` is the name of the one for how long."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(f"--{length}", type=whole(1), default=default, help=f"of the training ({default or 'as many as the data take'})")
    parser.add_argument("--batch", type=whole(1), default=batch, help=f"{unit} a training step (%(default)s)")
    parser.add_argument("--threads", type=whole(1), help="default: the CPUs that may be used")
    parser.add_argument("--seed", type=whole(0), default=0, help="of all that is random (%(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for checkpoint, weights and picture (%(default)s)")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint that Ctrl-C or the last evaluation left")
    return parser


def check_out(parser, folder):
    """Refuse --out unless files can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        parser.error(f"argument --out: cannot write to {folder}: {problem.strerror}")


def threaded_backend(parser, threads):
    try:
        return cpuops.ThreadedCpuBackend(threads)
    except cpuops.ArgumentError as problem:
        parser.error(f"argument --threads: {problem}")


def begin(parser, runs, *, resume):
    """Let runs that come one after the other go on from their checkpoints, or remove those; one that was not reached has none yet."""
    there = [run for run in runs if run.checkpoint.exists()]
    if not resume:
        for run in there:
            run.checkpoint.unlink()
    elif not there:
        parser.error(f"argument --resume: there is no {' or '.join(str(run.checkpoint) for run in runs)}")
    else:
        try:
            for run in there:
                run.resume()
        except CheckpointError as problem:
            parser.error(f"argument --resume: {problem}")


def checksum(array):
    """A number of the data, for the settings: who goes on with other data gets other bits."""
    return zlib.crc32(np.ascontiguousarray(array))


def command(main):
    """Run main(), and end the process as a command ends."""
    try:
        main()
    except Interrupted as words:
        print(f"\n{words}", file=sys.stderr)
        sys.exit(130)
    except KeyboardInterrupt:
        sys.exit("\ninterrupted")


# ---- the picture ----


def draw(path, run, draw_samples, *, title, label, axis, percent=False):
    """Save the curves of a run, and what draw_samples(figure) draws beside them, as one PNG.

    The held-out figure is called `label`; `axis` is (name, steps) of a unit of time.
    """
    figure = plt.figure(figsize=(14, 6.2), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1, 1.35), wspace=0.03)
    draw_curves(left, run, label, *axis, percent=percent)
    left.suptitle(title)
    draw_samples(right)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_curves(figure, run, label, unit, steps, *, percent):
    """Loss of each step (faint) and its mean between evaluations; the held-out figure in a panel of its own."""
    ends = np.minimum(np.arange(1, len(run.figures) + 1) * run.every, run.steps)
    starts = np.concatenate([[0], ends[:-1]])
    means = [np.mean(run.losses[a:b]) for a, b in zip(starts, ends, strict=True)]

    upper, lower = figure.subplots(2, 1, sharex=True)
    upper.plot((np.arange(run.steps) + 1) / steps, run.losses, color=BLUE, alpha=0.25, linewidth=0.8, label="each step")
    upper.plot((starts + ends) / 2 / steps, means, "o-", color=BLUE, markersize=4, label="mean between evaluations")
    upper.set_yscale("log")
    upper.set_ylabel("training loss")
    upper.legend(frameon=False)
    lower.plot(ends / steps, run.figures, "o-", color=ORANGE, markersize=4)
    last = run.figures[-1]
    words = f"{last:.1%}" if percent else f"{last:.2f}"
    away = -18 if percent else 10  # an accuracy rises, bits fall
    lower.annotate(words, (ends[-1] / steps, last), (0, away), textcoords="offset points", ha="center", color=ORANGE, weight="bold")
    if percent:
        lower.yaxis.set_major_formatter(PercentFormatter(1, decimals=1))
    lower.set_ylabel(label)
    lower.set_xlabel(unit)
    lower.margins(y=0.2)
    if percent:
        lower.set_ylim(top=min(1.005, lower.get_ylim()[1]))
    for axes in (upper, lower):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
