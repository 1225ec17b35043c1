"""The training steps of workloads/training.py in torch, eager and compiled: its modules, autograd and optimizer."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from ..workloads.training import CHAIN

__all__ = ["steps"]

MOMENTUM = 0.9


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


def chain():
    return nn.Sequential(*(part for _ in range(CHAIN) for part in (nn.Linear(16, 16), nn.Tanh())), nn.Linear(16, 10))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


class ResidualBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv0, self.conv1 = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norm0, self.norm1 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        h = F.relu(self.norm0(self.conv0(x)))
        return F.relu(self.norm1(self.conv1(h)) + x)


class Attention(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(features, features, bias=False) for _ in range(4))

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part(x).view(batch, length, self.heads, -1).transpose(1, 2) for part in (self.query, self.key, self.value))
        return self.output(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, -1))


class TransformerBlock(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.norm0, self.norm1 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.attention = Attention(features, heads)
        self.wide, self.narrow = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)

    def forward(self, x):
        x = x + self.attention(self.norm0(x))
        return x + self.narrow(F.gelu(self.wide(self.norm1(x))))


class Recurrent(nn.Module):
    def __init__(self, kind, features):
        super().__init__()
        self.cells, self.head = kind(features, features), nn.Linear(features, 10)

    def forward(self, x):
        return self.head(self.cells(x)[0][-1])


# network of a TrainingWorkload -> (its module, our name of a parameter -> torch's)
NETWORKS = {
    "mlp": (mlp, {}),
    "chain": (chain, {}),
    "lenet": (lenet, {}),
    "resnet-block": (lambda: ResidualBlock(64), {"gamma": "weight", "beta": "bias"}),
    "transformer-block": (lambda: TransformerBlock(256, 8), {"gamma": "weight", "beta": "bias"}),
    "lstm": (lambda: Recurrent(nn.LSTM, 128), {}),
    "gru": (lambda: Recurrent(nn.GRU, 128), {}),
}
RECURRENT = {f"{kind}_{side}_0": f"{kind}_{side}_l0" for kind in ("weight", "bias") for side in ("ih", "hh")}


def theirs(name, words):
    head, _, last = name.rpartition(".")
    return f"{head}.{(words | RECURRENT).get(last, last)}" if head else name


def turned(module, name):
    """Whether a parameter is a matrix that torch has as [d_out, d_in]."""
    owner = module.get_submodule(name.rpartition(".")[0])
    return isinstance(owner, nn.Linear | nn.LSTM | nn.GRU) and "weight" in name


def step(network, compiled, arrays):
    """A step on copies of the parameters: (loss, gradients in our order and shapes)."""
    make, words = NETWORKS[network]
    module = make()
    own = dict(module.named_parameters())
    names = {name: theirs(name, words) for name in arrays if theirs(name, words) in own}
    turns = {name: turned(module, their) for name, their in names.items()}
    with torch.no_grad():
        for name, their in names.items():
            own[their].copy_(arrays[name].T if turns[name] else arrays[name])
    batch = {k: v for k, v in arrays.items() if k not in names}
    optimizer = torch.optim.SGD(module.parameters(), 0.0, momentum=MOMENTUM)
    loss_of = F.cross_entropy if "labels" in batch else F.mse_loss
    target = batch["labels"] if "labels" in batch else batch["target"]
    net = torch.compile(module) if compiled else module

    def run():
        with torch.enable_grad():
            loss = loss_of(net(batch["x"]), target)
            loss.backward()
            optimizer.step()
            grads = [own[their].grad for their in names.values()]
            optimizer.zero_grad()
        return loss.detach(), *(g.T if turns[name] else g for name, g in zip(names, grads, strict=True))

    return run


def steps(network):
    """{variant: builder of a step from the arrays}: eager, and compiled where torch can compile."""
    if network not in NETWORKS:
        return {}
    return {variant: partial(step, network, variant == "compiled") for variant in ("eager", "compiled")}
