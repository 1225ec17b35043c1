"""Tables of text from result files."""

from . import resultfile, statistics

__all__ = ["best_peers", "duration", "families", "markdown", "named", "peers_report", "ratio", "run_table", "show", "table", "worst"]


def duration(ns):
    """Three digits and a unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}" if ns < 1000 * size else f"{ns / size:.0f} {unit}"
    return f"{ns:.0f} ns"


def table(heads, rows):
    """Columns of text; the first is aligned to the left, the others to the right."""
    cells = [list(map(str, row)) for row in [heads, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]

    def line(row):
        return "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))).rstrip()

    return "\n".join([line(cells[0]), "  ".join("-" * w for w in widths), *map(line, cells[1:])])


def markdown(heads, rows):
    """The same columns as a Markdown table."""
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def percent(fraction):
    return f"{100 * fraction:.0f} %"


def rate(result):
    """GFLOP/s for what multiply-adds bind, else GB/s."""
    if result["limit"] == "fma":
        return f"{result['flops'] / result['median_ns']:.1f} GFLOP/s"
    return f"{(result['bytes_read'] + result['bytes_written']) / result['median_ns']:.1f} GB/s"


def run_table(contents):
    """One line a result of `run`."""
    rows = [
        (
            r["workload"], r["threads"], duration(r["median_ns"]), f"{100 * r['mad_ns'] / r['median_ns']:.1f} %", rate(r),
            percent(r["fraction"]), r["limit"], f"{r['quiet']} of {len(r['rounds_ns'])}",
        )
        for r in contents["results"]
    ]  # fmt: skip
    return table(("workload", "threads", "median", "MAD", "rate", "of limit", "limit", "quiet rounds"), rows)


# ---------------------------------------------------------------- peers


def best_peers(contents, ours="cpuops"):
    """[(our result, the best peer's result or None)], in the order of the file."""
    by_work = {}
    for r in contents["results"]:
        by_work.setdefault((r["workload"], r["threads"]), []).append(r)
    pairs = []
    for group in by_work.values():
        mine = [r for r in group if r["contestant"] == ours]
        peers = [r for r in group if r["contestant"] != ours]
        if mine:
            pairs.append((mine[0], min(peers, key=lambda r: r["median_ns"]) if peers else None))
    return pairs


def ratio(mine, peer):
    """Above 1: cpuops is faster."""
    return peer["median_ns"] / mine["median_ns"]


def named(peer):
    return peer["contestant"] + (f" {peer['variant']}" if peer["variant"] else "")


def peers_table(contents):
    """One line a workload, with the best peer."""
    rows = []
    for mine, peer in best_peers(contents):
        theirs = (named(peer), duration(peer["median_ns"]), f"{ratio(mine, peer):.2f}") if peer else ("none has it", "", "")
        rows.append(
            (mine["workload"], mine["threads"], duration(mine["median_ns"]), percent(mine["fraction"]), mine["limit"], *theirs)
        )
    return table(("workload", "threads", "cpuops", "of limit", "limit", "best peer", "its time", "ratio"), rows)


def families(contents):
    """Geometric means of the ratio to the best peer: [(family, threads, mean, least, workloads, without a peer)]."""
    groups = {}
    for mine, peer in best_peers(contents):
        groups.setdefault((mine["family"], mine["threads"]), []).append(ratio(mine, peer) if peer else None)
    out = []
    for (family, threads), all_ratios in groups.items():
        ratios = [r for r in all_ratios if r is not None]
        mean = statistics.geometric_mean(ratios) if ratios else None
        out.append((family, threads, mean, min(ratios, default=None), len(all_ratios), len(all_ratios) - len(ratios)))
    return out


def worst(contents, count=10):
    """The pairs with the smallest ratio first."""
    pairs = [(mine, peer) for mine, peer in best_peers(contents) if peer]
    return sorted(pairs, key=lambda pair: ratio(*pair))[:count]


def peers_report(contents, form=table):
    """The family means and the worst ten; before them, unless in Markdown, every workload."""
    means = [
        (family, threads, f"{mean:.2f}" if mean else "-", f"{least:.2f}" if least else "-", count, alone)
        for family, threads, mean, least, count, alone in families(contents)
    ]
    low = [
        (mine["workload"], mine["threads"], f"{ratio(mine, peer):.2f}", named(peer), percent(mine["fraction"]), mine["limit"])
        for mine, peer in worst(contents)
    ]
    parts = [] if form is markdown else [peers_table(contents)]
    parts += [
        "Geometric means of (best peer's time / ours), by family:",
        form(("family", "threads", "mean", "least", "workloads", "without a peer"), means),
        "The worst ten:",
        form(("workload", "threads", "ratio", "best peer", "of limit", "limit"), low),
    ]
    return "\n\n".join(parts)


def show(options):
    """`show`: the tables of a result file again, or as Markdown."""
    contents = resultfile.read(options.file)
    if options.markdown:
        print(peers_report(contents, markdown))
    else:
        print(peers_report(contents) if any(peer for _, peer in best_peers(contents)) else run_table(contents))
    return 0
