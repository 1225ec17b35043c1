"""`demands`: what is asked of each workload beside its best peer, and which of a file of `peers` fall short of it."""

import re

from . import report, resultfile
from .errors import BenchError

__all__ = ["demanded", "demands"]

# (workloads by name, or family and name, the least ratio of the best peer's time to ours): the first that matches counts
DEMANDS = (
    (r"^expression ", 1.0),
    (r"^(step|training) ", 1.5),
    (r"^small (relu|add|softmax|matmul|conv2d)/", 1 / 0.6),
    (r" matmul/(256|512|1024|2048)", 1.0),
    (r" matmul/", 1.2),
    (r" conv2d_weight_backward/resnet50-3x3-512@7", 3.0),
    (r" conv2d_x_backward/.*(s2|3to)", 2.0),
    (r" conv2d(_x_backward)?/(resnet50|vgg)-3x3-", 1.3),
    (r" conv2d.*/(resnext|mobilenet|unet|lenet|resnet50-stem)-", 2.0),
    (r" conv2d", 1.0),
    (r" conv[13]d", 1.2),
    (r"^conv_transpose ", 1.3),
    (r"^unfold ", 2.0),
    (r"^pool adaptive", 2.0),
    (r"^pool ", 3.0),
    (r"^interpolate ", 2.0),
    (r"^grid_sample ", 1.5),
    (r"^pad ", 1.2),
    (r" batch_norm_train", 2.5),
    (r"^(norm|add_norm) ", 1.2),
    (r" attention.*/causal-", 1.8),
    (r" attention.*/decode-", 1.3),
    (r"^attention ", 1.2),
    (r"^ctc ", 3.0),
    (r" embedding/", 1.0),
    (r" embedding_backward/", 1.5),
    (r" cross_entropy", 2.0),
    (r"^(softmax|loss) ", 1.2),
    (r"^(elementwise|activation) .*/(1e5|1e7)(-f64)?$", 2.0),  # into a new array
    (r"^(elementwise|activation|reduce|matmul|linear_activation) ", 1.0),
)


def demanded(family, workload):
    """The least ratio that is asked of a workload; None where nothing is."""
    return next((least for pattern, least in DEMANDS if re.search(pattern, f"{family} {workload}")), None)


def demands(options):
    """Print what falls short, the shortest first, and how many of each family do not; exit status 1 when any does."""
    contents = resultfile.read(options.file)
    found = []  # (family, threads, workload, ratio, least, peer)
    for mine, peer in report.best_peers(contents):
        least = demanded(mine["family"], mine["workload"])
        if peer and least:
            found.append((mine["family"], mine["threads"], mine["workload"], report.ratio(mine, peer), least, report.named(peer)))
    if not found:
        raise BenchError(f"{options.file} holds no workload beside a peer; `python -m bench peers --json FILE` makes such a file")
    short = sorted((f for f in found if f[3] < f[4]), key=lambda f: f[3] / f[4])
    rows = [(name, threads, f"{ratio:.2f}", f"{least:.2f}", peer) for _, threads, name, ratio, least, peer in short]
    print(report.table(("falls short", "threads", "ratio", "asked", "best peer"), rows))
    print()
    groups = {}
    for family, threads, _, ratio, least, _ in found:
        groups.setdefault((family, threads), []).append(ratio >= least)
    print(report.table(("family", "threads", "reached", "of"), [(*group, sum(r), len(r)) for group, r in groups.items()]))
    print(f"\n{len(found) - len(short)} of {len(found)} reach what is asked")
    return 1 if short else 0
