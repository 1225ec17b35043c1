"""The speed table: cpuops beside NumPy's OpenBLAS and PyTorch, one thread (and two where that says something).

    python -m bench.foundation [--only REGEX] [--rounds N] [--threads 1,2] [--json FILE]

Every row checks its results before it is timed; the contestants of a row take turns, and the medians of the rounds are
compared. A ratio is the peer's time divided by ours: above 1, cpuops is faster. Rows below their demand are listed last.
"""

import argparse
import json
import platform
import re
import sys
from dataclasses import asdict
from pathlib import Path

from .peers import installed, limited, without_openblas_pins

SCHEMA = "cpuops foundation 1"


def main():
    without_openblas_pins("bench.foundation")
    options = parse()

    import cpuops

    peers, missing = installed()
    workloads = [w for w in all_workloads() if options.only.search(w.name)]
    scratch = options.only.search("scratch")
    if not (workloads or scratch):
        fail(f"no row's name matches {options.only.pattern!r}")

    print(f"cpuops {cpuops.__version__}, level {cpuops.show_config('dicts')['isa']}; {processor()}")
    for peer in peers.values():
        print(f"{peer.name} {peer.version}")
    for name in missing:
        print(f"{name}: not installed, its columns stay empty")
    print(f"\n{'':<52}{'cpuops':>11}{'':>15}{'numpy':>8}{'torch':>8}{'spread':>8}  demand")

    rows = []
    for threads in options.threads:
        with limited(peers, threads):
            for workload in workloads:
                if threads in workload.threads:
                    rows.append(run(workload, threads, peers, options.rounds))
                    print(line(workload, rows[-1]), flush=True)
    memory = list(scratch_rows(options.threads)) if scratch else []
    summary(rows, memory)
    if options.json:
        about = {"schema": SCHEMA, "processor": processor(), "config": cpuops.show_config("dicts"), "rounds": options.rounds}
        about |= {"peers": {peer.name: peer.version for peer in peers.values()}, "missing": missing}
        options.json.write_text(json.dumps(about | {"rows": rows, "scratch": memory}, indent=1) + "\n")


def parse():
    parser = argparse.ArgumentParser(
        prog="python -m bench.foundation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", type=pattern, default=re.compile(""), metavar="REGEX", help="rows whose name it finds")
    parser.add_argument("--rounds", type=count, default=11, metavar="N", help="rounds a row (%(default)s)")
    parser.add_argument("--threads", type=counts, default=(1, 2), metavar="1,2", help="thread counts (1,2)")
    parser.add_argument("--json", type=writable, metavar="FILE", help="write every round of every row to FILE")
    return parser.parse_args()


def pattern(text):
    try:
        return re.compile(text)
    except re.error as problem:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {problem}") from problem


def count(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number >= 1")
    return int(text)


def counts(text):
    return tuple(count(part) for part in text.split(","))


def writable(text):
    try:
        Path(text).open("a").close()
    except OSError as problem:
        raise argparse.ArgumentTypeError(f"cannot write {text}: {problem.strerror}") from problem
    return Path(text)


def fail(message):
    print(f"bench.foundation: {message}", file=sys.stderr)
    sys.exit(2)


def all_workloads():
    from . import expressions, products, steps

    for module in (products, steps, expressions):
        yield from module.workloads()


def run(workload, threads, peers, rounds):
    """Check and time one workload; the row of the table."""
    import numpy as np

    import cpuops

    from .measure import interleaved
    from .workload import WrongResult, check, in_float64

    backend = cpuops.CpuBackend() if threads == 1 else cpuops.ThreadedCpuBackend(threads)
    operands = workload.operands(np.random.default_rng(0))
    calls = {"cpuops": workload.ours(backend, *operands)}
    results = {"cpuops": workload.result(calls["cpuops"])}
    for name, contestant in workload.peers.items():
        if name in peers:
            calls[name] = contestant(*map(peers[name].convert, operands))
            results[name] = peers[name].to_numpy(workload.result(calls[name]))
    if workload.reference:
        expected = workload.reference(*map(in_float64, operands))
    else:
        expected = results[list(results)[-1]]
    try:
        for name, result in results.items():
            check(workload, name, result, expected)
    except WrongResult as problem:
        fail(str(problem))

    timings = interleaved(calls, rounds)
    ours = timings.pop("cpuops")
    return {
        "name": workload.name,
        "threads": threads,
        "median": ours.median,
        "spread": ours.spread,
        "rounds": ours.rounds,
        "rate": workload.work_rate(ours.median),
        "ratios": {name: timing.median / ours.median for name, timing in timings.items()},
        "peers": {name: asdict(timing) for name, timing in timings.items()},
        "demand": dict(workload.demand) if threads == 1 else {},
    }


def scratch_rows(thread_counts):
    import cpuops

    from .scratch import measure

    backends = [cpuops.CpuBackend() if n == 1 else cpuops.ThreadedCpuBackend(n) for n in thread_counts]
    print("\nscratch of a call on 8x64x224x224, 3x3 and 64 output channels:")
    for method, threads, scratch, demand in measure(backends):
        print(f"  {method:<24}{threads} thread{'s' * (threads > 1):<2}{scratch / 2**20:>8.1f} MB, demand {demand / 2**20:.0f} MB")
        yield {"name": f"scratch of {method}", "threads": threads, "bytes": scratch, "demand": demand}


def line(workload, row):
    name = f"{row['name']}, {row['threads']} threads" if row["threads"] > 1 else row["name"]
    ratios = "".join(f"{row['ratios'][peer]:>8.2f}" if peer in row["ratios"] else f"{'':>8}" for peer in ("numpy", "torch"))
    demands = ", ".join(f"{peer} {least:g}" for peer, least in row["demand"].items())
    mark = "  BELOW" if below(row) else ""
    return f"{name:<52}{duration(row['median']):>11}{row['rate']:>15}{ratios}{row['spread']:>8.1%}  {demands}{mark}"


def below(row):
    return any(row["ratios"].get(peer, least) < least for peer, least in row["demand"].items())


def summary(rows, memory):
    slow = [row for row in rows if below(row)]
    demanded = [row for row in rows if any(peer in row["ratios"] for peer in row["demand"])]
    print(f"\n{len(demanded) - len(slow)} of {len(demanded)} rows with a demand reach it")
    for row in sorted(slow, key=lambda row: min(row["ratios"][p] / least for p, least in row["demand"].items())):
        for peer, least in row["demand"].items():
            fastest = min(row["peers"][peer]["rounds"]) / min(row["rounds"])
            print(f"  below: {row['name']}, {row['ratios'][peer]:.2f} x {peer} of {least:g}; fastest rounds {fastest:.2f}")
    for row in memory:
        if row["bytes"] > row["demand"]:
            print(f"  above: {row['name']}, {row['threads']} threads: {row['bytes'] / 2**20:.1f} MB")


def duration(seconds):
    for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def processor():
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    return next((row.partition(":")[2].strip() for row in text.splitlines() if row.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
