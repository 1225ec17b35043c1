"""Calls that are all overhead, and the whole training step of examples/train_digits.py, beside PyTorch."""

import sys
from functools import partial
from pathlib import Path

import numpy as np

from .workload import Workload, normal, plain

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))

import digits_network as network

RATE = np.float32(0.01)


def torch_functions():
    """What is called on PyTorch's side; looked up once, so that the row times the call and not the look-up."""
    import torch

    return {"relu": torch.relu, "add": torch.add, "softmax": partial(torch.softmax, dim=-1), "matmul": torch.matmul}


def small_workloads():
    def softmax(x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    for method, shapes, reference in [
        ("relu", [(64,)], lambda x: np.maximum(x, 0)),
        ("add", [(64,), (64,)], np.add),
        ("softmax", [(64,)], softmax),
        ("matmul", [(4, 4), (4, 4)], np.matmul),
    ]:
        yield Workload(
            name=f"{method} on {'4x4' if method == 'matmul' else '64 elements'}",
            operands=normal(shapes),
            ours=lambda ops, *a, method=method: partial(getattr(ops, method), *a),
            peers={
                "numpy": plain(reference),
                "torch": lambda *a, method=method: partial(torch_functions()[method], *a),
            },
            reference=reference,
            demand={"torch": 1.0},
        )


def training_operands(rng):
    images = rng.standard_normal((50, 1, 28, 28)).astype(np.float32)
    params, statistics = network.new_parameters(rng, images.shape[1:], classes=10)
    return images, rng.integers(0, 10, len(images)), params, statistics


def our_training(ops, images, labels, params, statistics):
    params, statistics = ({name: value.copy() for name, value in group.items()} for group in (params, statistics))
    velocity = {name: np.zeros_like(value) for name, value in params.items()}

    def step():
        loss, grads, norms = network.loss_and_gradients(ops, params, images, labels)
        network.sgd_step(params, grads, velocity, RATE)
        network.follow(statistics, norms)
        return loss

    return step


def torch_training(images, labels, params, _):
    import torch
    from torch import nn

    c0, c1 = network.CHANNELS
    net = nn.Sequential(
        nn.Conv2d(1, c0, 3, padding=1, bias=False), nn.BatchNorm2d(c0), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(c0, c1, 3, padding=1, bias=False), nn.BatchNorm2d(c1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(len(params["linear.weight"]), 10),
    )  # fmt: skip
    with torch.no_grad():
        for layer, name in ((0, "block1"), (4, "block2")):
            net[layer].weight.copy_(torch.from_numpy(params[f"{name}.weight"]))
        net[9].weight.copy_(torch.from_numpy(params["linear.weight"].T))
        net[9].bias.zero_()
    decays = [net[0].weight, net[4].weight, net[9].weight]
    others = [p for p in net.parameters() if all(p is not d for d in decays)]
    groups = [{"params": decays, "weight_decay": network.WEIGHT_DECAY}, {"params": others}]
    optimizer = torch.optim.SGD(groups, lr=float(RATE), momentum=network.MOMENTUM)
    loss_of = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        loss = loss_of(net(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def several_steps(call, count=5):
    """The losses of the first steps: equal losses after five mean equal gradients and updates before."""
    return [call() for _ in range(count)]


def workloads():
    yield from small_workloads()
    yield Workload(
        name="training step of 50 digits",
        operands=training_operands,
        ours=our_training,
        peers={"torch": torch_training},
        result=several_steps,
        tolerance=1e-3,
        threads=(1, 2),
        demand={"torch": 1.0},
    )
