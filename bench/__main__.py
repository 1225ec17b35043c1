"""The command line; `python -m bench COMMAND --help` says what each takes."""

import argparse
import sys

from .errors import BenchError

__all__ = ["main"]


def counts(text):
    """ "1,2" as (1, 2)."""
    try:
        values = tuple(int(word) for word in text.split(","))
    except ValueError:
        values = ()
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected thread counts such as 1,2")
    return values


def positive(text):
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of at least 1")
    return int(text)


def choosing(parser):
    parser.add_argument("--only", metavar="REGEX", help="workloads whose name or family matches")
    parser.add_argument("--more", action="store_true", help="among more workloads: all of ResNet-50, NumPy expressions")
    parser.add_argument("--threads", type=counts, default=(1,), metavar="LIST", help="thread counts, such as 1,2 (default 1)")
    parser.add_argument("--json", metavar="FILE", help="write the results")


def measuring(parser, launches, rounds):
    choosing(parser)
    parser.add_argument("--launches", type=positive, default=launches, help=f"processes one after the other (default {launches})")
    parser.add_argument("--rounds", type=positive, default=rounds, help=f"rounds in all launches together (default {rounds})")
    parser.add_argument(
        "--noise", type=float, default=1.15, help="by which factor the controls around a turn may differ (default 1.15)"
    )


def judging(parser):
    parser.add_argument("--factor", type=float, default=1.05, help="slow-down that counts (default 1.05)")
    parser.add_argument("--alpha", type=float, default=0.01, help="chance of a false alarm in a whole comparison (default 0.01)")


def parser():
    """All commands; each names the function that carries it out as "module.function"."""
    root = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks of cpuops: docs/benchmarks.md")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, function, text):
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(function=function)
        return sub

    command("list", "listing.workloads", "print the names of the workloads")

    sub = command("run", "run.run", "measure cpuops")
    measuring(sub, launches=3, rounds=15)

    sub = command("peers", "run.peers", "measure cpuops beside other libraries")
    measuring(sub, launches=2, rounds=8)
    sub.add_argument("--peers", metavar="LIST", help="names such as torch,numpy (default: all)")

    sub = command(
        "compare", "compare.compare", "compare two result files: exit 0 no regression, 1 regression, 2 could not measure"
    )
    sub.add_argument("base")
    sub.add_argument("new")
    judging(sub)

    sub = command("ab", "revisions.ab", "compare two revisions, built side by side and interleaved; '.' is the working tree")
    sub.add_argument("base", metavar="REV1")
    sub.add_argument("new", metavar="REV2")
    measuring(sub, launches=3, rounds=21)
    judging(sub)

    sub = command("show", "report.show", "print the tables of a result file again")
    sub.add_argument("file", metavar="FILE")
    sub.add_argument("--markdown", action="store_true", help="family means and the worst ten as Markdown")

    sub = command("demands", "demands.demands", "which workloads of a file of `peers` are as fast as is asked: exit 0 all, 1 not all")
    sub.add_argument("file", metavar="FILE")

    sub = command("plot", "plot.plot", "draw result files")
    sub.add_argument("files", nargs="+", metavar="FILE")
    sub.add_argument("--directory", default="out", help="where PNG and SVG go (default out)")

    sub = command("scale", "scale.scale", "time against size, speed against threads, share of work a thread")
    sub.add_argument("--only", metavar="REGEX", help="families that match")
    sub.add_argument("--threads", type=counts, metavar="LIST", help="thread counts of the scaling (default: 1 to all)")
    sub.add_argument("--json", metavar="FILE", help="write the results")
    sub.add_argument("--shares", action="store_true", help="only the shares of work, which need no quiet machine")

    choosing(command("memory", "memory.memory", "peak scratch, import, installed size, first call"))

    sub = command(
        "instructions", "instructions.instructions", "count instructions under valgrind against bench/instructions.json"
    )
    sub.add_argument("--update", action="store_true", help="write the counts instead of comparing them")
    return root


def main(words=None):
    words = sys.argv[1:] if words is None else words
    options = parser().parse_args(words)
    options.words = words
    module, _, function = options.function.partition(".")
    try:
        # late, so that plotting alone needs matplotlib, and comparing files needs no compiled module
        loaded = __import__(f"bench.{module}", fromlist=[function])
        return getattr(loaded, function)(options)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except ImportError as error:
        print(f"bench: {error}; is cpuops built here (make build)?", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
