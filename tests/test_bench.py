"""The benches' own arithmetic, files, verdicts and lists; no time is asserted."""

import copy
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import table

import cpuops

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import __main__, compare, control, demands, instructions, limits, reference, report, resultfile, shares, statistics, timing
from bench.engine import ENGINES, PEERS
from bench.errors import BenchError
from bench.operations import METHODS, ROWS, Oracle, parts
from bench.workloads import BY_NAME, FAMILIES, MORE, WORKLOADS, Cost, chosen, large, step, training
from cpuops import _kernels

# ---------------------------------------------------------------- statistics


def test_median_and_mad():
    assert statistics.median([5, 1, 2]) == 2
    assert statistics.mad([1, 2, 3, 4, 100]) == 1
    assert statistics.geometric_mean([0.5, 2, 8]) == pytest.approx(2)


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [
        # hand-made: of the 20 orders of 3 and 3 values one is the most extreme at either end
        ([1, 2, 3], [4, 5, 6], 2 / 20),
        ([4, 5, 6], [1, 2, 3], 2 / 20),
        # U = 1: two orders of 20 are at most as extreme
        ([1, 2, 4], [3, 5, 6], 4 / 20),
        ([1, 3, 5], [2, 4, 6], 14 / 20),
        # 70 orders of 4 and 4
        ([1, 2, 3, 4], [5, 6, 7, 8], 2 / 70),
        # all equal: nothing can be told
        ([1, 1, 1], [1, 1], 1.0),
    ],
)
def test_mann_whitney_exact(first, second, p):
    assert statistics.mann_whitney(first, second) == pytest.approx(p)


def test_mann_whitney_with_ties():
    # 1 2 2 3 | 2 3 4 5: U = 2.5, normal approximation with tie and continuity corrections, worked out by hand:
    # variance = 16/12 * (9 - 30/56) = 11.2857, z = (8 - 2.5 - 0.5)/sqrt(11.2857) = 1.48836
    assert statistics.mann_whitney([1, 2, 2, 3], [2, 3, 4, 5]) == pytest.approx(0.13666, abs=1e-4)


def test_mann_whitney_is_calibrated():
    rng = np.random.default_rng(0)
    false = sum(statistics.mann_whitney(rng.normal(size=15), rng.normal(size=15)) < 0.05 for _ in range(1000))
    assert 25 <= false <= 80


def test_signed_rank():
    assert statistics.signed_rank([1, 2, 3, 4, 5]) == pytest.approx(2 / 32)
    # of the 32 choices of signs, 10 give a sum of ranks of at most 5
    assert statistics.signed_rank([1, 2, 3, 4, -5]) == pytest.approx(20 / 32)
    assert statistics.signed_rank([0, 1, 2, 3, 4, -5]) == pytest.approx(20 / 32)
    assert statistics.signed_rank([0.0, 0.0]) == statistics.signed_rank([1, -1]) == 1
    # ranks 2 2 2 4 of 1 1 1 2, all positive: variance = 4 * 5 * 9/24 - 24/48 = 7, z = (5 - 0 - 0.5)/sqrt(7)
    assert statistics.signed_rank([1, 1, 1, 2]) == pytest.approx(0.08897, abs=1e-4)
    rng = np.random.default_rng(0)
    false = sum(statistics.signed_rank(rng.normal(size=15)) < 0.05 for _ in range(1000))
    assert 25 <= false <= 80


def test_fit_exponent():
    sizes = np.array([10, 100, 1000, 10_000])
    exponent, off = statistics.fit_exponent(sizes, 3 * sizes**1.5)
    assert exponent == pytest.approx(1.5) and off == pytest.approx(1)
    assert statistics.fit_exponent(sizes, [1, 2, 1, 2])[1] > 1.1


# ---------------------------------------------------------------- limits, turns, control


def test_bound_takes_the_slower_of_the_two():
    size = str(limits.CLASSES[0])
    known = {"fma": {"float32": 100.0}, "copy": {size: 10.0}, "read": {size: 20.0}}
    assert limits.bound(Cost(1e6, 100, 100), "float32", known) == limits.Bound(1e4, "fma", 100.0)
    memory = limits.bound(Cost(0, 3000, 1000), "float32", known)
    assert memory.ns == 2000 / 10 + 2000 / 20 and memory.name == "memory 16K"
    assert limits.merge(known, {"fma": {"float32": 90.0}, "copy": {size: 12.0}, "read": {size: 1.0}})["copy"] == {size: 12.0}


def test_a_turn_is_the_fastest_batch():
    watch = timing.Stopwatch.warmed_up(lambda: None)
    assert watch.calls > 1000
    assert 0 < watch.turn(lambda: None) < 1e6


def test_control_takes_threads():
    for threads in (1, 2):
        assert all(control.Control(threads).time(kind) > 0 for kind in ("core", "memory"))
    assert (control.kind_of(1000), control.kind_of(1 << 30)) == ("core", "memory")


def test_disturbed_rounds_do_not_count():
    # a machine at half its speed counts, one that changed meanwhile does not
    assert control.quiet([1.0, 2.0, 3.0], [100, 200, 100], [1.0, 1.09, 1.2], 100) == [1.0, 1.0]
    busy, calm = result(ns=150), result(seed=1)
    busy["drift"][:10] = [1.3] * 10
    busy["rounds_ns"][10:] = [100.0, 101.0, 100.5, 99.5, 99.0]
    assert compare.judge("relu/64", 1, calm, busy, 0.01, 1.05).word == "same"
    busy["drift"][:11] = [1.3] * 11
    assert "4 quiet rounds of 15" in compare.judge("relu/64", 1, calm, busy, 0.01, 1.05).why
    # a slower clock slows the control as well
    slow = result(seed=2, ns=120, control_ns=1200)
    assert compare.judge("relu/64", 1, calm, slow, 0.01, 1.05).word == "same"


@pytest.mark.parametrize("level", _kernels.isa_available)
def test_limits_are_measured_with_every_level(level, monkeypatch):
    monkeypatch.setattr(limits, "CLASSES", (1 << 14, 1 << 16))
    monkeypatch.setattr(limits, "PASS_NS", 10_000)
    monkeypatch.setattr(_kernels, "isa", level)
    monkeypatch.setattr(_kernels, "KERNELS", {})
    for threads in (1, 2):
        found = limits.measure(threads)
        assert set(found) == {"fma", "copy", "read"}
        assert all(v > 0 for kind in found.values() for v in kind.values())


def test_probe_copies_and_reads():
    cells = np.arange(_kernels.constants("probe").SHARE_MULTIPLE * 3, dtype=np.float64)
    target, sums = np.zeros_like(cells), np.zeros(3)
    _kernels.load("probe.copy", "d")(0.0, cells, target, cells.size // 3, 2, 3)
    assert np.array_equal(target, cells)
    _kernels.load("probe.read", "d")(0.0, cells, sums, cells.size // 3, 1, 3)
    assert np.array_equal(sums, cells.reshape(3, -1).sum(1))


# ---------------------------------------------------------------- workloads


def test_names_are_unique_and_methods_known():
    assert len(WORKLOADS) > 120 and not WORKLOADS.keys() & MORE.keys()
    for name, workload in BY_NAME.items():
        assert workload.name == name
        for method in workload.needs:
            assert method in METHODS, f"{name} needs {method}, which no row of the table has"


def test_no_family_is_left_out():
    """Every operation belongs to a measured family."""
    for module, rows in table.FAMILIES.items():
        assert module in FAMILIES, f"no workload is of family {module}, which has {len(rows)} operations"


def test_forward_and_every_gradient():
    measured = {w.method for w in WORKLOADS.values()}
    for method in ("exp", "gelu", "softmax", "cross_entropy", "layer_norm", "batch_norm_train", "max_pool2d", "avg_pool2d"):
        assert {method, *(g.name for g in ROWS[method].gradients)} <= measured


def test_chosen_refuses():
    with pytest.raises(BenchError, match="no workload"):
        chosen("nothing-like-this", cpuops.CpuBackend)
    with pytest.raises(BenchError, match="regular expression"):
        chosen("(", cpuops.CpuBackend)
    with pytest.raises(BenchError, match="has no relu"):
        chosen("^relu/64$", object)


@pytest.mark.parametrize("name", ["relu/64", "relu/64-out", "add/64", "exp_backward/1e3", "exp_backward/1e5", "conv2d/8x8"])
def test_a_workload_is_checked(name, tmp_path):
    backend = cpuops.CpuBackend()
    workload = WORKLOADS[name]
    job = workload.job(backend)
    result = workload.call(job, backend)()
    path = tmp_path / "reference.npz"
    reference.make_reference(job, path)
    right = reference.Reference(path)
    assert right.difference((result,)) is None
    assert "cells" in right.difference((result * np.float32(1.001) + np.float32(0.001),))
    assert "shape" in right.difference((result.reshape(-1)[1:],))
    assert "results instead" in right.difference((result, result))
    rough = result + np.float32(1e-4) * np.abs(result).max()
    assert right.difference((rough,)) and right.difference((rough,), exact=False) is None
    cost = workload.cost(job, (result,))
    assert cost.flops > 0 and cost.bytes_written == result.nbytes
    assert cost.bytes_read == sum(a.nbytes for a in job.arrays.values())


# of each method and dtype the first: expressions do not depend on the size
EXPRESSIONS = {(w.method, w.label if w.label[0].isalpha() else "", w.dtype): w for w in reversed(MORE.values()) if w.family == "expression"}


@pytest.mark.parametrize("workload", EXPRESSIONS.values(), ids=lambda w: w.name)
def test_expressions_are_right(workload):
    job = workload.job(cpuops.CpuBackend())
    for got, wanted in zip(parts(workload.expression(*job.arrays.values())), workload.expected(job)[0], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=reference.ROUGHLY * np.abs(wanted).max())
        assert got.dtype in (workload.dtype, np.int64)


def test_demands(tmp_path, capsys):
    names = {f"{w.family} {w.name}" for w in (WORKLOADS | MORE).values()}
    left = set(names)
    for pattern, _ in demands.DEMANDS:
        matching = {name for name in left if re.search(pattern, name)}
        assert matching, f"{pattern} matches no workload that another does not"
        left -= matching
    assert {name.split()[0] for name in left} <= {"deform"}, "no peer has it"
    path = tmp_path / "peers.json"

    def asked(*results):
        resultfile.write(path, contents(*results))
        return __main__.main(["demands", str(path)])

    assert asked(result(ns=100), result(contestant="torch", ns=170), result(contestant="numpy", ns=200)) == 0
    assert "1 of 1 reach" in capsys.readouterr().out
    assert asked(result(ns=100), result(contestant="torch", ns=160)) == 1
    assert "relu/64" in capsys.readouterr().out
    assert asked(result(ns=100)) == 2


def test_engines_are_named():
    assert "cpuops" in ENGINES and set(PEERS) == {"torch", "onnxruntime", "numpy", "jax", "mlx"}


# ---------------------------------------------------------------- files


def result(name="relu/64", contestant="cpuops", ns=100.0, threads=1, rounds=15, seed=0, spread=0.01, control_ns=1000):
    rng = np.random.default_rng(seed)
    times = [float(ns * (1 + spread * v)) for v in rng.uniform(-1, 1, rounds)]
    return {
        "workload": name, "family": "small", "dtype": "float32", "threads": threads, "contestant": contestant, "variant": "",
        "rounds_ns": times, "control_ns": [control_ns] * rounds, "drift": [1.0] * rounds, "control_usual_ns": control_ns, "quiet": rounds,
        "median_ns": statistics.median(times), "mad_ns": statistics.mad(times),
        "flops": 64.0, "bytes_read": 256, "bytes_written": 256, "limit_ns": 10.0, "limit": "memory 16K", "fraction": 0.1,
    }  # fmt: skip


def contents(*results):
    return {
        "schema": resultfile.SCHEMA, "created": "2026-01-01T00:00:00Z", "command": "run", "revision": "abc",
        "machine": {"cpu": "one"},
        "contestants": {"cpuops": {"version": "1", "config": {}}}, "settings": {"launches": 3}, "limits": {},
        "noise": 1.0, "missing": {}, "wrong": {}, "unmeasured": {}, "results": list(results),
    }  # fmt: skip


def test_launches_that_overlap_do_not_tell():
    base, new = result(), result(seed=1, ns=120)
    words = [compare.judge("relu/64", 1, base, new, 0.01, 1.05, launches=n) for n in ((3, 3), (1, 3), (3, 1))]
    assert [v.word for v in words] == ["slower", "unjudged", "unjudged"] and "one launch" in words[1].why
    base["rounds_ns"][12:] = [122.0] * 3  # the last of five launches was as slow as the new ones
    told = compare.judge("relu/64", 1, base, new, 0.01, 1.05, launches=(5, 5))
    assert told.word == "unjudged" and "overlap" in told.why
    assert compare.judge("relu/64", 1, base, new, 0.01, 1.05).word == "slower"


def test_files_are_checked(tmp_path):
    good = contents(result())
    path = tmp_path / "run.json"
    resultfile.write(path, good)
    assert resultfile.read(path) == good

    def refused(change, match):
        bad = copy.deepcopy(good)
        change(bad)
        path.write_text(json.dumps(bad))
        with pytest.raises(BenchError, match=match):
            resultfile.read(path)

    refused(lambda c: c.update(schema="cpuops-bench/0"), "schema 'cpuops-bench/0'")
    refused(lambda c: c.pop("machine"), "no 'machine'")
    refused(lambda c: c["results"][0].pop("rounds_ns"), "result 0 has no 'rounds_ns'")
    refused(lambda c: c["results"][0].update(median_ns="1"), "'median_ns' is a str")
    refused(lambda c: c["results"][0].update(rounds_ns=[]), "0 rounds")
    path.write_text("{")
    with pytest.raises(BenchError, match="no JSON"):
        resultfile.read(path)
    path.write_text("[]")
    with pytest.raises(BenchError, match="schema None"):
        resultfile.read(path)
    with pytest.raises(BenchError, match="No such file"):
        resultfile.read(tmp_path / "absent.json")


# ---------------------------------------------------------------- compare


def status(tmp_path, base, new, *words):
    paths = [tmp_path / "base.json", tmp_path / "new.json"]
    for path, one in zip(paths, (base, new), strict=True):
        resultfile.write(path, one)
    return __main__.main(["compare", *map(str, paths), *words])


def test_compare_finds_a_regression(tmp_path, capsys):
    base = contents(result(seed=1), result("add/64", seed=2))
    assert status(tmp_path, base, contents(result(seed=3), result("add/64", seed=4))) == 0
    assert status(tmp_path, base, contents(result(seed=3, ns=110), result("add/64", seed=4))) == 1
    assert "slower" in capsys.readouterr().out
    assert status(tmp_path, base, contents(result(seed=3, ns=90), result("add/64", seed=4))) == 0
    assert "1 faster" in capsys.readouterr().out
    # a small but certain change is below the factor, unless that is asked for
    assert status(tmp_path, base, contents(result(seed=3, ns=103), result("add/64", seed=4))) == 0
    assert status(tmp_path, base, contents(result(seed=3, ns=103), result("add/64", seed=4)), "--factor", "1.02") == 1


def test_pairs_cancel_what_slows_down_both():
    waves = np.random.default_rng(0).uniform(1, 2, 15)
    base, new = result(seed=1), result(seed=2, ns=110)
    for r in (base, new):
        r["rounds_ns"] = list(waves * r["rounds_ns"])
    assert compare.judge("relu/64", 1, base, new, 0.01, 1.05).word == "unjudged"
    verdict = compare.judge_pairs("relu/64", 1, base, new, 0.01, 1.05)
    assert verdict.word == "slower" and verdict.ratio == pytest.approx(1.1, rel=0.02)
    assert compare.judge_pairs("relu/64", 1, base, base, 0.01, 1.05).word == "same"
    assert compare.judge_pairs("relu/64", 1, new, base, 0.01, 1.05).word == "faster"
    new["drift"][:11] = [1.3] * 11
    assert compare.judge_pairs("relu/64", 1, base, new, 0.01, 1.05).why == "4 quiet rounds of 15"


def test_compare_says_when_it_cannot_tell(tmp_path, capsys):
    base = contents(result(seed=1))

    def refused(new, match, *words):
        assert status(tmp_path, base, new, *words) == 2
        message = capsys.readouterr().err
        assert match in message and message.count("\n") == 1

    refused(contents(result("add/64")), "nothing matched")
    refused(contents(result(threads=2)), "nothing matched")
    refused(contents(result(seed=2, spread=0.5)), "could not be judged")
    refused(contents(result(seed=2, ns=200, control_ns=2000)), "could not be judged")
    refused(contents(result(rounds=4)), "could not be judged")
    refused(contents(result(seed=2)), "--factor", "--factor", "0.9")


def test_bad_words_are_refused(capsys):
    assert __main__.main(["run", "--only", "nothing-like-this"]) == 2
    assert __main__.main(["ab", "no-such-revision", "."]) == 2
    assert __main__.main(["peers", "--peers", "abacus"]) == 2
    assert __main__.main(["plot", "absent.json"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4 and all(line.startswith("bench: ") for line in lines)
    with pytest.raises(SystemExit) as stopped:
        __main__.main(["run", "--threads", "0"])
    assert stopped.value.code == 2


# ---------------------------------------------------------------- reports, shares, counts


def test_the_best_peer_counts():
    file = contents(result(ns=100), result(contestant="torch", ns=150), result(contestant="numpy", ns=80), result("add/64"))
    (mine, peer), (_, alone) = report.best_peers(file)
    assert (mine["contestant"], peer["contestant"], alone) == ("cpuops", "numpy", None)
    ((family, threads, mean, least, count, without),) = report.families(file)
    assert (family, threads, count, without) == ("small", 1, 2, 1)
    assert mean == least == pytest.approx(0.8, rel=0.02)
    assert [m["workload"] for m, _ in report.worst(file)] == ["relu/64"]
    assert "none has it" in report.peers_report(file)
    assert report.duration(1234567) == "1.23 ms" and report.duration(999) == "999 ns"


def test_shares():
    assert shares.largest_to_mean(100, 1) == 1
    assert shares.largest_to_mean(100, 8) == 13 * 8 / 100
    assert shares.largest_to_mean(3, 8) == 8 / 3
    assert shares.largest_to_mean(0, 8) == 1


LARGE = "matmul/2048 linear_weight_backward/ pad/ avg_pool2d/ layer_norm_backward/ conv2d/resnet50-3x3-512@7".split()


@pytest.mark.parametrize("name", LARGE)
def test_shares_of_large_work_are_even(name):
    workload = next(w for w in large.LARGE if w.name.startswith(name))
    share, silent = shares.of_workload(workload, workload.job(cpuops.CpuBackend()), shares.TARGET_THREADS)
    assert 1 <= share <= shares.TARGET and not silent


def test_instruction_counts(capsys):
    assert instructions.judge({"a": 1000}, {"a": 1029}) == 0
    assert instructions.judge({"a": 1000}, {"a": 1031}) == 1
    assert instructions.judge({"a": 1000}, {"a": 969}) == 1
    assert instructions.judge({"a": 1000}, {"a": 1000, "b": 5}) == 1
    assert instructions.judge({"a": 1000, "b": 5}, {"a": 1000}) == 1
    assert "--update" in capsys.readouterr().out


SMALL_STEPS = {
    "mlp": step.draw_mlp(3), "lenet": step.draw_lenet(2), "digits": step.draw_digits(3), "resnet-block": step.draw_block(2, 4, 6),
    "feed-forward": step.draw_feed_forward(5),
}  # fmt: skip


@pytest.mark.parametrize("workload", [w for w in WORKLOADS.values() if w.family == "step"], ids=lambda w: w.label)
def test_steps_run_on_the_oracle(workload, tmp_path):
    """Methods, operands and results of every network fit together, on a backend that is the oracle itself."""
    small = replace(workload, draw=SMALL_STEPS[workload.network])
    job = small.job(None)
    reference.make_reference(job, tmp_path / "step.npz")
    results = tuple(small.call(job, Oracle())())
    assert len(results) > 5
    assert reference.Reference(tmp_path / "step.npz").difference(results) is None
    assert small.cost(job, results).flops > 1e4


SMALL_TRAININGS = {
    "mlp": (training.mlp, training.labelled(3, 784)),
    "lenet": (training.lenet, training.labelled(2, 1, 28, 28)),
    "resnet-block": (lambda: training.ResidualBlock(4), training.aimed(2, 4, 6, 6)),
    "transformer-block": (lambda: training.TransformerBlock(8, 2), training.aimed(2, 5, 8)),
    "lstm": (lambda: training.Recurrent(training.nn.LSTM, 5), training.labelled(4, 3, 5, batch_axis=1)),
    "gru": (lambda: training.Recurrent(training.nn.GRU, 5), training.labelled(4, 3, 5, batch_axis=1)),
}


@pytest.mark.parametrize("workload", [w for w in WORKLOADS.values() if w.family == "training"], ids=lambda w: w.label)
def test_trainings_agree_with_the_oracle(workload, tmp_path):
    """A step on the tape, on kernels and again, is that of the oracle; every method that it calls is named."""
    make, batch = SMALL_TRAININGS.get(workload.network, (workload.make, workload.batch))
    small = replace(workload, make=make, batch=batch)
    job = small.job(None)
    reference.make_reference(job, tmp_path / "training.npz")
    right = reference.Reference(tmp_path / "training.npz")
    call = small.call(job, cpuops.CpuBackend())
    for _ in range(2):
        results = tuple(call())
        assert len(results) == 1 + len(job.args) - 2 and right.difference(results) is None
    assert small.cost(job, results).flops > 1e5


@pytest.mark.parametrize("workload", [w for w in WORKLOADS.values() if w.family == "training"], ids=lambda w: w.label)
def test_trainings_of_torch_have_the_same_parameters(workload):
    torch_training = pytest.importorskip("bench.peers.torch_training", reason="PyTorch is not installed", exc_type=ImportError)
    make, _ = torch_training.NETWORKS[workload.network]
    words, theirs = torch_training.NETWORKS[workload.network][1], {n: tuple(p.shape) for n, p in make().named_parameters()}
    module = make()
    for name, p in workload.make().named_parameters():
        their = torch_training.theirs(name, words)
        shape = p.shape[::-1] if torch_training.turned(module, their) else p.shape
        assert theirs.pop(their) == shape
    assert not theirs
