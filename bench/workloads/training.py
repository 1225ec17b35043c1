"""Whole training steps as a user writes them: layers on the tape, loss, backward, optimizer.

The rate of the optimizer is 0: it does all its work, and every call finds the parameters of the first.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from cpuops import autograd as F
from cpuops import nn, optim

from ..operations import Oracle
from .base import Cost, Job, Workload, normal

MOMENTUM = 0.9
CHAIN = 20  # layers of a chain


@dataclass(frozen=True)
class TrainingWorkload(Workload):
    """A step of a network.

    network            what peers know it by
    make()             the module
    batch(rng)         {name: array} of what a step reads
    loss(net, **batch) -> Var
    methods            what it calls
    products           floating-point operations of its matrix products and convolutions; the rest is small beside them

    Results are the loss and the gradients of the parameters, in the module's order.
    """

    network: str = ""
    make: Callable[[], nn.Module] = field(default=None, repr=False)
    batch: Callable = field(default=None, repr=False)
    loss: Callable = field(default=None, repr=False)
    methods: tuple[str, ...] = ()
    products: float = 0.0

    RTOL = 2e-4  # as in StepWorkload

    @property
    def needs(self):
        return self.methods

    def job(self, backend):
        rng = np.random.default_rng(zlib.crc32(self.label.encode()))
        arrays = {k: v.astype(self.dtype) if v.dtype.kind == "f" else v for k, v in self.batch(rng).items()}
        parameters = {name: p.array.astype(self.dtype) for name, p in self.make().named_parameters()}
        return Job(self, arrays | parameters, {})

    def call(self, job, backend):
        net = self.make().astype(job.arrays[next(name for name, _ in self.make().named_parameters())].dtype)
        parameters = dict(net.named_parameters())
        net.load_state_dict({name: job.args[name] for name in parameters}, strict=False)
        batch = {k: v for k, v in job.args.items() if k not in parameters}
        # the oracle has no kernels
        optimizer = None if isinstance(backend, Oracle) else optim.SGD(parameters.values(), 0.0, momentum=MOMENTUM, backend=backend)

        def step() -> tuple[Any, ...]:
            with F.using(backend):
                loss = self.loss(net, **batch)
                loss.backward()
            if optimizer is not None:
                optimizer.step()
            grads = [p.grad for p in parameters.values()]
            net.zero_grad()
            return loss.array, *grads

        return step

    def cost(self, job, results):
        read = sum(a.nbytes for a in job.args.values())
        return Cost(self.products, read, sum(np.asarray(r).nbytes for r in results))

    def expected(self, job):
        exact = {k: v.astype(np.float64) if v.dtype.kind == "f" else v for k, v in job.args.items()}
        wanted = tuple(np.asarray(r) for r in self.call(Job(self, exact, {}), Oracle())())
        # a bias before a normalisation or a softmax has a gradient of 0, of which a peer computes roundings: all gradients have one scale
        return wanted, [np.abs(wanted[0])] + [max(np.abs(w).max(initial=0.0) for w in wanted[1:])] * (len(wanted) - 1), self.RTOL


# ---------------------------------------------------------------- networks


def mlp():
    layers = [nn.Linear(784, 512, generator=0), nn.ReLU(), nn.Linear(512, 256, generator=1), nn.ReLU(), nn.Linear(256, 10, generator=2)]
    return nn.Sequential(*layers)


def chain():
    """Layers so small that the tape and the way to the kernels are what costs."""
    layers = [part for i in range(CHAIN) for part in (nn.Linear(16, 16, generator=i), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(16, 10, generator=CHAIN))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2, generator=0), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5, generator=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120, generator=2), nn.ReLU(), nn.Linear(120, 84, generator=3), nn.ReLU(), nn.Linear(84, 10, generator=4),
    )  # fmt: skip


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        self.conv0, self.conv1 = (nn.Conv2d(channels, channels, 3, padding=1, bias=False, generator=i) for i in (0, 1))
        self.norm0, self.norm1 = nn.BatchNorm(channels), nn.BatchNorm(channels)

    def forward(self, x):
        h = F.relu(self.norm0(self.conv0(x)))
        return F.relu(self.norm1(self.conv1(h)) + x)


class TransformerBlock(nn.Module):
    def __init__(self, features, heads):
        self.norm0, self.norm1 = nn.LayerNorm(features), nn.LayerNorm(features)
        # the gradient of a key's bias is 0, of which everybody computes other roundings
        self.attention = nn.MultiHeadAttention(features, heads, bias=False, generator=0)
        self.wide, self.narrow = nn.Linear(features, 4 * features, generator=1), nn.Linear(4 * features, features, generator=2)

    def forward(self, x):
        x = x + self.attention(self.norm0(x))
        return x + self.narrow(F.gelu(self.wide(self.norm1(x))))


class Recurrent(nn.Module):
    """The class of a sequence, from the last state."""

    def __init__(self, kind, features):
        self.cells, self.head = kind(features, features, generator=0), nn.Linear(features, 10, generator=1)

    def forward(self, x):
        return self.head(self.cells(x)[0][-1])


def classes(net, x, labels):
    return F.cross_entropy(net(x), labels)


def distance(net, x, target):
    return F.mse_loss(net(x), target)


def labelled(*shape, batch_axis=0):
    return lambda rng: {"x": normal(rng, *shape), "labels": rng.integers(0, 10, shape[batch_axis])}


def aimed(*shape, spread=1.0):
    return lambda rng: {"x": normal(rng, *shape), "target": normal(rng, *shape, spread=spread)}


# ---------------------------------------------------------------- all of them

LINEAR = ("linear", "linear_backward", "linear_weight_backward", "linear_bias_backward")
CROSS_ENTROPY = ("cross_entropy", "cross_entropy_backward")
MSE = ("mse_loss", "mse_loss_backward")
RELU = ("relu", "relu_backward")
CONV = ("conv2d", "conv2d_x_backward", "conv2d_weight_backward", "conv2d_bias_backward")
ADD = ("add", "add_backward")
CELLS = (*LINEAR, *CROSS_ENTROPY, *ADD, "matmul", "sigmoid", "tanh")


def training(network, size, make, batch, loss, products, *methods):
    more = {"network": network, "make": make, "batch": batch, "loss": loss, "products": float(products), "methods": methods}
    return TrainingWorkload("training", "training", f"{network}-{size}", **more)


def dense(rows, *widths):
    """Products of linear layers from input to output; the first has no gradient to its input."""
    layers = [2 * rows * a * b for a, b in pairwise(widths)]
    return 3 * sum(layers) - layers[0]


WORKLOADS = [
    training("mlp", "batch32", mlp, labelled(32, 784), classes, dense(32, 784, 512, 256, 10), *LINEAR, *RELU, *CROSS_ENTROPY),
    training(
        "chain", "batch4", chain, labelled(4, 16), classes, dense(4, *[16] * (CHAIN + 1), 10),
        *LINEAR, *CROSS_ENTROPY, "tanh", "tanh_backward",
    ),
    training(
        "lenet", "batch64", lenet, labelled(64, 1, 28, 28), classes,
        64 * (2 * 2 * 6 * 28 * 28 * 25 + 3 * 2 * (16 * 10 * 10 * 150 + 400 * 120 + 120 * 84 + 84 * 10)),
        *LINEAR, *RELU, *CROSS_ENTROPY, *CONV, "max_pool2d_with_indices", "max_pool2d_with_indices_backward",
    ),
    training(
        "resnet-block", "8x64x56x56", lambda: ResidualBlock(64),
        aimed(8, 64, 56, 56, spread=0.0), distance,  # towards 0, the last relu's kink has no gradient on either side
        5 * 2 * 8 * 64 * 64 * 9 * 56 * 56, *CONV, *RELU, *MSE, *ADD, "batch_norm_train", "batch_norm_train_backward",
    ),
    training(
        "transformer-block", "8x256x256", lambda: TransformerBlock(256, 8), aimed(8, 256, 256), distance,
        3 * 2 * 8 * 256 * 256 * (12 * 256) + 7 * 2 * 8 * 256 * 256 * 256,
        *LINEAR, *MSE, *ADD, "layer_norm", "layer_norm_backward", "gelu", "gelu_backward", "attention_with_logsumexp", "attention_backward",
    ),
    *(
        training(
            name, "32x50x128", lambda kind=kind: Recurrent(kind, 128), labelled(50, 32, 128, batch_axis=1), classes,
            5 * 2 * 50 * 32 * 128 * gates * 128, *CELLS,
        )
        for name, kind, gates in (("lstm", nn.LSTM, 4), ("gru", nn.GRU, 3))
    ),
]  # fmt: skip
