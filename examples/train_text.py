"""Train a transformer to continue Python code, character by character, on the standard library's own source.

    python examples/train_text.py
    python examples/train_text.py --steps 500 --threads 2

Causal attention, layer norms and a GELU feed-forward, trained by AdamW on windows of the files; every sixteenth file is held out. What is
measured is bits per character: how long held-out text would be if the network's probabilities compressed it.
"""

import math
import sysconfig
from pathlib import Path

import numpy as np
import training

from cpuops import autograd, io, nn, optim
from cpuops.data import Batches

ALPHABET = "\n" + "".join(map(chr, range(32, 127)))  # and one more class for all other characters
CLASSES = len(ALPHABET) + 1
CONTEXT = 128  # characters of a window
WIDTH, HEADS, LAYERS = 128, 4, 3
LEARNING_RATE = 3e-3
EVALUATE_EVERY = 250  # steps
HELD_OUT_WINDOWS = 256
SAMPLE_START, SAMPLE_LENGTH = "def ", 1000


# ---- the data ----


def encoded(text):
    """Classes of characters, int64."""
    table = np.full(0x110000, len(ALPHABET), np.int64)
    table[[ord(c) for c in ALPHABET]] = np.arange(len(ALPHABET))
    return table[np.frombuffer(text.encode("utf-32-le"), np.uint32)]


def decoded(classes):
    return "".join((ALPHABET + "\N{REPLACEMENT CHARACTER}")[i] for i in classes)


def load_text(folder=None):
    """(training text, held-out text): the modules right in the standard library's folder, in the order of their names."""
    files = sorted(Path(folder or sysconfig.get_path("stdlib")).glob("*.py"))
    texts = [file.read_text(encoding="utf-8", errors="replace").replace("\t", "    ") for file in files]
    held_out = texts[8::16]
    return encoded("".join(text for i, text in enumerate(texts) if i % 16 != 8)), encoded("".join(held_out))


def windows(text, starts):
    """Characters [N, CONTEXT], and what comes after each of them."""
    rows = text[np.asarray(starts)[:, np.newaxis] + np.arange(CONTEXT + 1)]
    return rows[:, :-1], rows[:, 1:]


def new_batches(text, batch, seed):
    """Windows that tile the text, each moved by a random part of its length."""
    starts = np.arange(0, len(text) - 2 * CONTEXT, CONTEXT)
    return Batches(
        starts, batch_size=batch, drop_last=True, seed=seed,
        transform=lambda rng, starts: windows(text, starts + rng.integers(0, CONTEXT, len(starts))),
    )  # fmt: skip


# ---- the network ----


class Block(nn.Module):
    """Attention, then feed-forward, each added to what comes in and behind a layer norm (Xiong et al. 2020)."""

    def __init__(self, generator):
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiHeadAttention(WIDTH, HEADS, is_causal=True, generator=generator)
        self.wide = nn.Linear(WIDTH, 4 * WIDTH, generator=generator)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH, generator=generator)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(autograd.gelu(self.wide(self.norm2(x))))


class TextNet(nn.Module):
    """Characters [B, S] to logits [B, S, CLASSES] of the next ones."""

    def __init__(self, generator):
        self.characters = nn.Embedding(CLASSES, WIDTH, generator=generator)
        self.places = nn.Embedding(CONTEXT, WIDTH, generator=generator)
        for table in (self.characters, self.places):
            table.weight.array *= np.float32(0.05)
        self.blocks = nn.Sequential(*(Block(generator) for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES, generator=generator)

    def forward(self, characters):
        x = self.characters(characters) + self.places(np.arange(characters.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def loss_of(network, characters, following):
    """Mean cross entropy in nats."""
    return autograd.cross_entropy(network(characters).reshape((-1, CLASSES)), following.reshape(-1))


def bits_per_character(network, text, batch=32):
    """Of windows spread over the text; the first characters of each are guessed with next to nothing before them."""
    starts = np.linspace(0, len(text) - CONTEXT - 1, HELD_OUT_WINDOWS).astype(int)
    losses = [loss_of(network, *windows(text, starts[i : i + batch])).array for i in range(0, len(starts), batch)]
    return np.mean(losses) / math.log(2)


def sample(network, start, length, rng):
    """Go on after `start`, one character drawn after the other."""
    text = list(encoded(start))
    network.eval()
    with autograd.no_grad():
        for _ in range(length):
            logits = network(np.array([text[-CONTEXT:]])).array[0, -1].astype(np.float64)
            chances = np.exp((logits - logits.max()) / 0.7)  # below 1: what is likely gets likelier
            text.append(rng.choice(CLASSES, p=chances / chances.sum()))
    return decoded(text)


# ---- the command ----


def new_run(ops, train_text, options):
    rng = np.random.default_rng(options.seed)
    network = TextNet(rng)
    matrices = [p for p in network.parameters() if p.ndim > 1]
    others = [p for p in network.parameters() if p.ndim == 1]
    groups = [{"parameters": matrices, "weight_decay": 0.1}, {"parameters": others}]
    return training.Run(
        ops, options.out / "text_checkpoint.npz", network,
        optim.AdamW(groups, lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.0, backend=ops),
        new_batches(train_text, options.batch, options.seed),
        optim.schedules.cosine(options.steps, warmup=min(100, options.steps // 10), final=0.02),
        steps=options.steps, every=EVALUATE_EVERY, max_norm=1.0,
        settings={"steps": options.steps, "batch": options.batch, "seed": options.seed, "data": training.checksum(train_text)},
    )  # fmt: skip


def draw_sample(figure, text):
    lines = [line[:96] for line in text.splitlines()][:34]
    figure.suptitle("what it writes")
    figure.text(0.03, 0.92, "\n".join(lines), family="monospace", fontsize=8.5, va="top", parse_math=False)


def main(arguments=None):
    parser = training.new_parser(__doc__, length="steps", default=1400, batch=16, unit="windows")
    options = parser.parse_args(arguments)
    training.check_out(parser, options.out)
    ops = training.threaded_backend(parser, options.threads)
    train_text, held_out = load_text()
    run = new_run(ops, train_text, options)
    if not len(run.batches):
        parser.error(f"argument --batch: {options.batch} is more than the {len(run.batches.arrays[0])} windows")
    training.begin(parser, [run], resume=options.resume)

    print(
        f"Python's standard library: {len(train_text):,} characters to train on, {len(held_out):,} held out; "
        f"{options.steps} steps of {options.batch} windows of {CONTEXT}; {run.network.num_parameters():,} parameters"
    )
    run.train(
        loss_of, lambda network: bits_per_character(network, held_out),
        title="text", unit="windows", figure="bits", show=lambda bits: f"{bits:.3f}",
    )  # fmt: skip
    rate = options.steps * options.batch * CONTEXT / run.seconds
    with autograd.using(ops):
        text = sample(run.network, SAMPLE_START, SAMPLE_LENGTH, np.random.default_rng(options.seed))
    print(f"\n{text}\n\n{run.figures[-1]:.3f} bits per held-out character, after {run.seconds:.1f} s: {rate:,.0f} characters/s")

    weights, picture = options.out / "text_weights.npz", options.out / "text_training.png"
    io.save(weights, run.network.state_dict())
    training.draw(
        picture, run, lambda figure: draw_sample(figure, text),
        title=f"{run.network.num_parameters():,} parameters, {rate:,.0f} characters a second", label="bits per held-out character",
        axis=("step", 1),
    )  # fmt: skip
    print(f"weights: {weights}\npicture: {picture}")


if __name__ == "__main__":
    training.command(main)
