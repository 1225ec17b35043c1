"""The statistics of rounds: robust spread, the rank test that compares two samples, fits."""

import math

import numpy as np

__all__ = ["fit_exponent", "geometric_mean", "mad", "mann_whitney", "median", "median_error", "signed_rank"]

NORMAL_MAD = 1.4826  # standard deviation of a normal distribution over its median absolute deviation
NORMAL_MEDIAN = 1.2533  # standard error of a median over that of a mean, under a normal distribution
EXACT_UP_TO = 40  # values in one sample; beyond, the normal approximation is good to more digits than anyone needs


def median(values):
    return float(np.median(np.asarray(values, float)))


def mad(values):
    """Median absolute deviation from the median."""
    values = np.asarray(values, float)
    return median(np.abs(values - np.median(values)))


def median_error(values):
    """Standard error of the median, as for a normal distribution with this MAD."""
    return NORMAL_MEDIAN * NORMAL_MAD * mad(values) / math.sqrt(len(values))


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


def fit_exponent(sizes, times):
    """(exponent, largest factor between a time and the fit) of time = constant * size**exponent, least squares in logarithms."""
    x, y = np.log(sizes), np.log(times)
    exponent, constant = np.polyfit(x, y, 1)
    return float(exponent), float(np.exp(np.abs(y - (exponent * x + constant)).max()))


def mann_whitney(first, second):
    """Two-sided p-value of the Mann-Whitney U test: are the values of one sample larger than those of the other?

    Exact when no two values are equal and the samples are small, else the normal approximation with the correction for
    ties and for continuity.
    """
    a, b = np.asarray(first, float), np.asarray(second, float)
    n, m = len(a), len(b)
    if not n or not m:
        raise ValueError("an empty sample")
    pooled = np.concatenate([a, b])
    values, inverse, counts = np.unique(pooled, return_inverse=True, return_counts=True)
    last_rank = np.cumsum(counts)
    ranks = (last_rank - (counts - 1) / 2)[inverse]
    u = ranks[:n].sum() - n * (n + 1) / 2
    u = min(u, n * m - u)
    if len(values) == n + m and max(n, m) <= EXACT_UP_TO:
        ways = _ways(n, m)
        return min(1.0, float(2 * ways[: int(u) + 1].sum() / ways.sum()))
    ties = (counts.astype(float) ** 3 - counts).sum()
    total = n + m
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    z = max(0.0, n * m / 2 - u - 0.5) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def signed_rank(differences):
    """Two-sided p-value of Wilcoxon's signed-rank test: do differences of one sign prevail?

    Zeros do not count. Exact when no two are of one size and they are few, else the normal approximation, as above.
    """
    d = np.asarray(differences, float)
    d = d[d != 0]
    n = len(d)
    if not n:
        return 1.0
    values, inverse, counts = np.unique(np.abs(d), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    total = n * (n + 1) / 2
    w = ranks[d > 0].sum()
    w = min(w, total - w)
    if len(values) == n and n <= EXACT_UP_TO:
        ways = np.zeros(int(total) + 1)  # in how many choices of signs W is 0, 1, ... total
        ways[0] = 1
        for rank in range(1, n + 1):
            ways[rank:] = ways[rank:] + ways[: len(ways) - rank]
        return min(1.0, float(2 * ways[: int(w) + 1].sum() / ways.sum()))
    variance = n * (n + 1) * (2 * n + 1) / 24 - (counts.astype(float) ** 3 - counts).sum() / 48
    z = max(0.0, total / 2 - w - 0.5) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def _ways(n, m):
    """In how many orders of n + m values U is 0, 1, ... n*m, as floats: the Gaussian binomial coefficients."""
    ways = np.zeros(n * m + 1)
    ways[0] = 1
    # (m + n choose n)_q = product over i of (1 - q**(m + i)) / (1 - q**i)
    for i in range(1, n + 1):
        step = m + i
        ways[step:] = ways[step:] - ways[: max(0, len(ways) - step)]
        for u in range(i, len(ways)):
            ways[u] += ways[u - i]
    return ways
