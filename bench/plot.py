"""`plot`: pictures of result files, as PNG and SVG."""

from pathlib import Path

from . import report, resultfile
from .errors import BenchError

__all__ = ["plot"]

# dark blue, orange, green, red, purple, brown: distinct in grey and to colour-blind eyes (Okabe and Ito 2008)
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#999999", "#000000")
MARKERS = "os^vDPX*"
GREY = "#555555"


def plot(options):
    """Draw what the files hold: ratios where peers were measured, the roofline of the last file, history over several."""
    files = [(Path(path), resultfile.read(path)) for path in options.files]
    plt = pyplot()
    directory = Path(options.directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchError(f"{directory}: {error.strerror}") from None
    path, last = files[-1]
    drawn = [(f"roofline-{path.stem}", roofline(plt, last))]
    if any(peer for _, peer in report.best_peers(last)):
        drawn.append((f"ratios-{path.stem}", ratios(plt, last)))
    if len(files) > 1:
        drawn.append(("history", history(plt, files)))
    for name, figure in drawn:
        for kind in ("png", "svg"):
            target = directory / f"{name}.{kind}"
            figure.savefig(target, dpi=150)
            print(target)
        plt.close(figure)
    return 0


def pyplot():
    try:
        import matplotlib
    except ImportError:
        raise BenchError("plots need matplotlib: pip install 'cpuops[bench]'") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none"})
    return plt


def title(contents):
    machine, ours = contents["machine"], contents["contestants"].get("cpuops", {}).get("version", "")
    return f"cpuops {ours} on {machine['cpu']}, {contents['created'][:10]}"


# ---------------------------------------------------------------- ratios


def ratios(plt, contents):
    """For each family a bar: the geometric mean of best peer's time over ours; a dot for every workload."""
    groups = {}
    for mine, peer in report.best_peers(contents):
        if peer:
            groups.setdefault(mine["family"], {}).setdefault(mine["threads"], []).append(report.ratio(mine, peer))
    means = {(family, threads): mean for family, threads, mean, *_ in report.families(contents) if mean}
    thread_counts = sorted({threads for _, threads in means})
    figure, axes = plt.subplots(figsize=(8, 0.55 * len(groups) * max(1, len(thread_counts) / 1.6) + 1.6), layout="constrained")
    height = 0.8 / len(thread_counts)
    for j, threads in enumerate(thread_counts):
        colour = COLOURS[j % len(COLOURS)]
        for i, (family, by_threads) in enumerate(groups.items()):
            if threads not in by_threads:
                continue
            at = i + (j - (len(thread_counts) - 1) / 2) * height
            axes.barh(at, means[family, threads] - 1, left=1, height=0.85 * height, color=colour, alpha=0.45)
            axes.plot(by_threads[threads], [at] * len(by_threads[threads]), "o", color=colour, markersize=3.5, markeredgewidth=0)
            axes.annotate(
                f"{means[family, threads]:.2f}", (1.0, at), xycoords=("axes fraction", "data"), xytext=(4, 0),
                textcoords="offset points", va="center", color=colour,
            )  # fmt: skip
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    ticks = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    every = [r for by_threads in groups.values() for values in by_threads.values() for r in values]
    axes.set_xlim(min(0.5, 0.9 * min(every)), max(2, 1.15 * max(every)))
    axes.set_yticks(range(len(groups)), list(groups))
    axes.invert_yaxis()
    axes.set_xlabel("time of the best peer / time of cpuops (right of 1: cpuops is faster); dots: workloads, bars: means")
    axes.set_title(title(contents), loc="left")
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[j % len(COLOURS)], alpha=0.45) for j in range(len(thread_counts))]
    axes.legend(handles, [f"{t} thread{'s' * (t > 1)}" for t in thread_counts], frameon=False, loc="best")
    return figure


# ---------------------------------------------------------------- roofline


def roofline(plt, contents):
    """Arithmetic rate against arithmetic a byte, under the limits measured in the same run."""
    thread_counts = sorted({r["threads"] for r in contents["results"] if r["contestant"] == "cpuops"})
    size = (6.4 * len(thread_counts), 5)
    figure, panels = plt.subplots(1, len(thread_counts), figsize=size, layout="constrained", squeeze=False)
    families = list(dict.fromkeys(r["family"] for r in contents["results"]))
    for axes, threads in zip(panels[0], thread_counts, strict=True):
        limits = contents["limits"][str(threads)]
        points = [
            r for r in contents["results"]
            if r["contestant"] == "cpuops" and r["threads"] == threads and r["dtype"] == "float32" and r["flops"] > 0
        ]  # fmt: skip
        if not points:
            axes.set_axis_off()
            continue
        intensity = [r["flops"] / (r["bytes_read"] + r["bytes_written"]) for r in points]
        rates = [r["flops"] / r["median_ns"] for r in points]
        reach = (min(intensity) / 2, max(intensity) * 2)
        draw_limits(axes, limits, reach)
        for i, family in enumerate(families):
            chosen = [(x, y) for r, x, y in zip(points, intensity, rates, strict=True) if r["family"] == family]
            if chosen:
                look = {"marker": MARKERS[i // len(COLOURS) % len(MARKERS)], "color": COLOURS[i % len(COLOURS)]}
                axes.plot(*zip(*chosen, strict=True), linestyle="", label=family, markersize=5, alpha=0.8, **look)
        axes.set(xscale="log", yscale="log", xlim=reach, xlabel="arithmetic a byte of least traffic (flop/B)", ylabel="GFLOP/s")
        axes.set_ylim(max(min(rates) / 2, 0.01), limits["fma"]["float32"] * 2)
        axes.set_title(f"{title(contents)}, {threads} thread{'s' * (threads > 1)}", loc="left")
        axes.legend(frameon=False, fontsize=7, loc="lower right")
    return figure


def draw_limits(axes, limits, reach):
    """The flat roof of multiply-adds, and a slope for each level of memory that differs from the one before."""
    peak = limits["fma"]["float32"]
    axes.plot(reach, [peak, peak], color="black", linewidth=1)
    axes.annotate(f"multiply-adds {peak:.0f} GFLOP/s", (reach[1], peak), xytext=(-4, 4), textcoords="offset points", ha="right")
    shown = None
    for size, bandwidth in limits["copy"].items():
        if shown is not None and bandwidth > 0.7 * shown:
            continue
        shown = bandwidth
        end = min(reach[1], peak / bandwidth)
        axes.plot([reach[0], end], [reach[0] * bandwidth, end * bandwidth], color=GREY, linewidth=0.8)
        axes.annotate(
            f"copy of {size_label(size)}: {bandwidth:.0f} GB/s", (reach[0], reach[0] * bandwidth), xytext=(4, 3), color=GREY,
            textcoords="offset points", fontsize=7, bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.5},
        )  # fmt: skip


def size_label(size):
    size = int(size)
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"


# ---------------------------------------------------------------- history


def history(plt, files):
    """Geometric mean of each family's times over the files in order, relative to the first."""
    times = [
        {(r["workload"], r["threads"]): r for r in contents["results"] if r["contestant"] == "cpuops"} for _, contents in files
    ]
    common = set.intersection(*(set(t) for t in times))
    if not common:
        raise BenchError("the files have no workload in common, so there is no history")
    families = list(dict.fromkeys(r["family"] for key, r in times[0].items() if key in common))
    figure, axes = plt.subplots(figsize=(1.2 * len(files) + 5, 4.5), layout="constrained")
    labels = [contents["revision"] or path.stem for path, contents in files]
    for i, family in enumerate(families):
        keys = [k for k in common if times[0][k]["family"] == family]
        means = [report.statistics.geometric_mean([t[k]["median_ns"] / times[0][k]["median_ns"] for k in keys]) for t in times]
        style = "-" if i < len(COLOURS) else "--"
        axes.plot(range(len(files)), means, style, marker="o", markersize=4, color=COLOURS[i % len(COLOURS)], label=family)
    axes.axhline(1, color="black", linewidth=0.6)
    axes.set_xticks(range(len(files)), labels, rotation=20, ha="right")
    axes.set_ylabel("time relative to the first file (geometric mean)")
    axes.set_title(title(files[-1][1]), loc="left")
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
