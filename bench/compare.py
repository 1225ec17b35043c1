"""`compare`: two samples of rounds a workload; is the new one slower than the base?

Only quiet rounds count, in units of the control around them (control.py): what slows down the control as well is the
machine. A workload is slower when both hold: the Mann-Whitney test on the rounds, at a level divided by the number of
workloads compared, and a ratio of medians above the factor. It cannot be judged when few rounds were quiet, when they
scatter so much that a change of that factor could hide, or when the control is another machine's. Nor when the launches of the two
files overlap: where a process's pages lie and which CPU it got is the same for all rounds of a launch, and no test of rounds sees it.

In `ab` the two turns of a round stand next to each other, so that what is slow for longer than a round is in both: there the
ratios of the rounds count, by the signed-rank test.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from . import report, resultfile, statistics
from .control import FEWEST_QUIET, QUIET, quiet
from .errors import BenchError
from .schedule import Settings

__all__ = ["Verdict", "compare", "conclude", "judge", "judge_pairs", "verdicts"]

SURE = 3.0  # standard errors of the ratio that must fit below the factor
CONTROL_FACTOR = 1.5  # controls that differ more belong to two machines, whose workloads need not differ alike
UNJUDGED = 0.10  # share of the workloads that may be left unjudged


@dataclass(frozen=True)
class Verdict:
    """What a comparison says of one workload."""

    name: str
    threads: int
    ratio: float  # new over base: above 1 is slower
    p: float
    word: str  # "slower", "faster", "same" or "unjudged"
    why: str = ""


def judge(name, threads, base, new, level, factor, launches=None):
    """Compare two results of a file each, in so many launches."""
    usual = base["control_usual_ns"]
    first, second = (quiet(r["rounds_ns"], r["control_ns"], r["drift"], usual) for r in (base, new))
    few, of = min((len(first), len(base["rounds_ns"])), (len(second), len(new["rounds_ns"])))
    if few < FEWEST_QUIET:
        return Verdict(name, threads, new["median_ns"] / base["median_ns"], 1.0, "unjudged", f"{few} quiet rounds of {of}")
    medians = statistics.median(first), statistics.median(second)
    ratio = medians[1] / medians[0]
    p = statistics.mann_whitney(first, second)
    error = ratio * math.hypot(statistics.median_error(first) / medians[0], statistics.median_error(second) / medians[1])
    control = new["control_usual_ns"] / usual
    if max(control, 1 / control) > CONTROL_FACTOR:
        return Verdict(name, threads, ratio, p, "unjudged", f"the control changed by a factor of {control:.2f}")
    verdict = _verdict(name, threads, ratio, p, error, level, factor)
    if launches and verdict.word in ("slower", "faster"):
        sides = [_launch_medians(r, usual, n) for r, n in zip((base, new), launches, strict=True)]
        if min(launches) < 2:
            return replace(verdict, word="unjudged", why="one launch: its pages and its CPU could do that")
        if max(map(min, sides)) <= min(map(max, sides)):
            return replace(verdict, word="unjudged", why="launches of the two overlap")
    return verdict


def _launch_medians(result, usual, launches):
    """The median of the quiet rounds of each launch that has some."""
    settings = Settings(launches=launches, rounds=len(result["rounds_ns"]))
    ends = list(accumulate(settings.rounds_of(i) for i in range(launches)))
    columns = [result[key] for key in ("rounds_ns", "control_ns", "drift")]
    calm = [quiet(*(c[a:b] for c in columns), usual) for a, b in zip([0, *ends], ends, strict=False)]
    return [statistics.median(rounds) for rounds in calm if rounds]


def judge_pairs(name, threads, base, new, level, factor):
    """Compare two results whose rounds are pairs."""
    rounds = zip(base["rounds_ns"], new["rounds_ns"], base["drift"], new["drift"], strict=True)
    ratios = [second / first for first, second, *drift in rounds if max(drift) <= QUIET]
    if len(ratios) < FEWEST_QUIET:
        few = f"{len(ratios)} quiet rounds of {len(base['rounds_ns'])}"
        return Verdict(name, threads, new["median_ns"] / base["median_ns"], 1.0, "unjudged", few)
    p = statistics.signed_rank([math.log(r) for r in ratios])
    return _verdict(name, threads, statistics.median(ratios), p, statistics.median_error(ratios), level, factor)


def _verdict(name, threads, ratio, p, error, level, factor):
    far = max(ratio, 1 / ratio) - SURE * error
    if p < level and max(ratio, 1 / ratio) > factor and far > 1:
        return Verdict(name, threads, ratio, p, "slower" if ratio > 1 else "faster")
    if SURE * error > factor - 1:
        return Verdict(name, threads, ratio, p, "unjudged", f"its rounds leave the ratio uncertain by {100 * SURE * error:.0f} %")
    return Verdict(name, threads, ratio, p, "same")


def verdicts(base, new, options, contestants=("cpuops", "cpuops"), judge=judge):
    """Judge every workload that both lists of results hold, by `judge` or `judge_pairs`."""
    sides = [
        {(r["workload"], r["threads"], r["variant"]): r for r in results if r["contestant"] == contestant}
        for results, contestant in zip((base, new), contestants, strict=True)
    ]
    common = [key for key in sides[0] if key in sides[1]]
    if not common:
        raise BenchError("nothing matched: the two have no workload at the same number of threads in common")
    if not options.factor > 1:
        raise BenchError(f"--factor {options.factor}: expected a number above 1, such as 1.05")
    level = options.alpha / len(common)
    return [judge(key[0], key[1], sides[0][key], sides[1][key], level, options.factor) for key in common]


def compare(options):
    """Compare two files; 1 when a workload got slower, 2 when it cannot be told, else 0."""
    base, new = resultfile.read(options.base), resultfile.read(options.new)
    for line in differences(base, new):
        print(f"differs: {line}")
    launches = [contents["settings"]["launches"] for contents in (base, new)]
    return conclude(verdicts(base["results"], new["results"], options, judge=partial(judge, launches=launches)))


def differences(base, new):
    """What else than the revision distinguishes two files."""
    for key in sorted(set(base["machine"]) | set(new["machine"])):
        pair = base["machine"].get(key), new["machine"].get(key)
        if pair[0] != pair[1]:
            yield f"{key}: {pair[0]} and {pair[1]}"
    sides = [contents["contestants"].get("cpuops", {}).get("config", {}) for contents in (base, new)]
    for key in ("isa", "compiler", "openmp"):
        if sides[0].get(key) != sides[1].get(key):
            yield f"{key}: {sides[0].get(key)} and {sides[1].get(key)}"


def conclude(judged):
    """Print the table and the sum; return the exit status."""
    order = {"slower": 0, "faster": 1, "unjudged": 2, "same": 3}
    rows = [
        (v.name, v.threads, f"{v.ratio:.3f}", f"{v.p:.1e}", v.word, v.why)
        for v in sorted(judged, key=lambda v: (order[v.word], -v.ratio))
        if v.word != "same"
    ]
    if rows:
        print(report.table(("workload", "threads", "new/base", "p", "verdict", ""), rows))
    count = {word: sum(v.word == word for v in judged) for word in order}
    mean = statistics.geometric_mean([v.ratio for v in judged])
    print(f"{len(judged)} compared: " + ", ".join(f"{n} {word}" for word, n in count.items()) + f"; geometric mean {mean:.3f}")
    if count["slower"]:
        return 1
    if count["unjudged"] > UNJUDGED * len(judged):
        many = f"{count['unjudged']} of {len(judged)} workloads could not be judged"
        raise BenchError(f"{many}; a quieter machine or more --rounds may help")
    return 0
