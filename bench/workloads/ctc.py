"""Connectionist temporal classification."""

import numpy as np

from ..operations import Call
from .base import normal, operation


def speech(frames, batch, classes, labels):
    """Utterances of unequal length, the first as long as the batch."""

    def make(rng):
        x = normal(rng, frames, batch, classes)
        x = x - np.log(np.exp(x).sum(-1, keepdims=True))
        input_lengths = rng.integers(frames // 2, frames + 1, batch)
        target_lengths = rng.integers(labels // 2, labels // 2 + labels // 4 + 1, batch)
        input_lengths[0], target_lengths[0] = frames, labels
        args = {"log_probs": x, "targets": rng.integers(1, classes, (batch, labels))}
        return Call({**args, "input_lengths": input_lengths, "target_lengths": target_lengths, "blank": 0})

    return make


WORKLOADS = [
    *operation("ctc", "ctc_loss", "characters-400x16x32-80", speech(400, 16, 32, 80)),
    *operation("ctc", "ctc_loss", "words-150x16x5000-20", speech(150, 16, 5000, 20)),
    *operation("ctc", "ctc_loss", "digits-50x32x12-8", speech(50, 32, 12, 8)),
]
