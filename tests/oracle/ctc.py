"""Connectionist temporal classification, state by state."""

import numpy as np

NEVER = -np.inf


def states_of(labels, blank):
    """Blank, label, blank, label, ..., blank."""
    states = [blank]
    for label in labels:
        states += [int(label), blank]
    return states


def before(states, s):
    """The states from which one gets to s: itself, the one before, and the label before that one if it is another."""
    if s % 2 and s > 1 and states[s] != states[s - 2]:
        return [s, s - 1, s - 2]
    return [s, s - 1] if s else [s]


def log_alphas(logs, states):
    """log P(at state s after frame t, and what was emitted until then), from a row before the first frame on."""
    alphas = [[0.0] + [NEVER] * (len(states) - 1)]
    for log in logs:
        last = alphas[-1]
        alphas.append([np.logaddexp.reduce([last[k] for k in before(states, s)]) + log[c] for s, c in enumerate(states)])
    return np.array(alphas)


def log_betas(logs, states):
    """log P(what is emitted after frame t, from state s), until a row after the last frame."""
    end = len(states) - 1
    betas = [[0.0 if s >= end - 1 else NEVER for s in range(len(states))]]
    for log in logs[::-1]:
        after = betas[0]
        reached = [[k for k in range(len(states)) if s in before(states, k)] for s in range(len(states))]
        betas.insert(0, [np.logaddexp.reduce([after[k] + log[states[k]] for k in ks]) for ks in reached])
    return np.array(betas)


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
            for t, log in enumerate(logs):
                grad[t, n] = np.exp(log)
                for s, c in enumerate(states):
                    grad[t, n, c] -= np.exp(alphas[t + 1, s] + betas[t + 1, s] - total)
                grad[t, n] *= grad_loss[n]
    return grad
