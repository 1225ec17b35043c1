"""Optimizers, gradient clipping and schedules of the learning rate.

    optimizer = optim.AdamW(network.parameters(), lr=1e-3)
    schedule = optim.schedules.cosine(1000, warmup=100)
    for step, batch in enumerate(batches):
        loss = loss_of(network(batch))
        optimizer.zero_grad()
        loss.backward()
        optim.clip_grad_norm(network.parameters(), 1.0)
        optimizer.step(schedule(step))

A parameter and its state are updated in place, by one pass of a kernel. Steps are those of PyTorch's optimizers of the same names and
arguments, within rounding.
"""

from . import schedules
from ._adam import Adam, AdamW
from ._clip import clip_grad_norm, clip_grad_value
from ._optimizer import Optimizer
from ._rmsprop import RMSprop
from ._sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "clip_grad_norm", "clip_grad_value", "schedules"]
