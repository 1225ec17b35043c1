"""Connectionist temporal classification, frame by frame."""

import numpy as np

NEVER = -np.inf


def states_of(labels, blank):
    """Blank, label, blank, label, ..., blank."""
    states = [blank]
    for label in labels:
        states += [int(label), blank]
    return states


def over(states):
    """Whether one gets to a state from the one two before: to a label from the label before that, if it is another."""
    return np.array([s % 2 == 1 and s > 1 and states[s] != states[s - 2] for s in range(len(states))])


def log_alphas(logs, states):
    """log P(at state s after frame t, and what was emitted until then), from a row before the first frame on."""
    skips = over(states)
    alphas = np.full((len(logs) + 1, len(states)), NEVER)
    alphas[0, 0] = 0.0
    for t, log in enumerate(logs):
        last, now = alphas[t], alphas[t].copy()
        now[1:] = np.logaddexp(now[1:], last[:-1])
        now[2:] = np.where(skips[2:], np.logaddexp(now[2:], last[:-2]), now[2:])
        alphas[t + 1] = now + log[states]
    return alphas


def log_betas(logs, states):
    """log P(what is emitted after frame t, from state s), until a row after the last frame."""
    skips = over(states)
    betas = np.full((len(logs) + 1, len(states)), NEVER)
    betas[-1, -2:] = 0.0
    for t in reversed(range(len(logs))):
        after = betas[t + 1] + logs[t][states]
        now = after.copy()
        now[:-1] = np.logaddexp(now[:-1], after[1:])
        now[:-2] = np.where(skips[2:], np.logaddexp(now[:-2], after[2:]), now[:-2])
        betas[t] = now
    return betas


def samples(log_probs, targets, input_lengths, target_lengths, blank):
    """(frames, states) of each sample."""
    for n in range(log_probs.shape[1]):
        yield log_probs[: input_lengths[n], n], states_of(targets[n, : target_lengths[n]], blank)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, *, zero_infinity=False):
    """-log of the sum over all alignments."""
    losses = []
    with np.errstate(invalid="ignore", over="ignore"):
        for logs, states in samples(log_probs, targets, input_lengths, target_lengths, blank):
            losses.append(0.0 - np.logaddexp.reduce(log_alphas(logs, states)[-1][-2:]))
    losses = np.array(losses, np.float64)
    return np.where(np.isposinf(losses), 0.0, losses) if zero_infinity else losses


def ctc_loss_backward(
    log_probs, targets, input_lengths, target_lengths, grad_loss, blank=0, *, zero_infinity=False
):
    """To the logits: exp(log_probs) less the probability of each class given the target."""
    grad = np.zeros(log_probs.shape)
    with np.errstate(invalid="ignore", over="ignore"):
        for n, (logs, states) in enumerate(samples(log_probs, targets, input_lengths, target_lengths, blank)):
            alphas, betas = log_alphas(logs, states), log_betas(logs, states)
            total = np.logaddexp.reduce(alphas[-1][-2:])
            if np.isneginf(total):
                continue
            of_sample = np.exp(logs)
            for s, c in enumerate(states):
                of_sample[:, c] -= np.exp(alphas[1:, s] + betas[1:, s] - total)
            grad[: len(logs), n] = of_sample * grad_loss[n]
    return grad
