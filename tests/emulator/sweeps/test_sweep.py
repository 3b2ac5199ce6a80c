"""Sweeps: from a file to runs, done once, kept whole, in order."""

from __future__ import annotations

import json
import shutil

import pyarrow.parquet as pq
import pytest
import yaml

from command_line import emulate
from emulator.runs.scenario import ScenarioError
from emulator.sweeps.grid import load_sweep
from emulator.sweeps.pools import Cores, Done, Here
from emulator.sweeps.store import Store
from emulator.sweeps.sweep import describe, run_sweep

SCENARIO = {
    "nodes": 8,
    "workload": {"generate": [{"daily_batch": {"days": 0.5, "jobs": 20}}, {"bursty_leases": {"days": 0.5}}]},
    "mechanism": "balancer",
}
RESERVE = "mechanism.balancer.static_reserve"


@pytest.fixture
def sweep_file(tmp_path):
    """`sweep_file(grid=..., ...)` -> the path of a sweep file over a small scenario."""

    def write(**keys):
        path = tmp_path / "grid.yaml"
        path.write_text(yaml.safe_dump({"name": "small", "scenario": SCENARIO} | keys))
        return path

    return write


def rows(store: Store) -> list[dict]:
    return pq.read_table(store.folder / "results.parquet").to_pylist()


def test_every_point_meets_every_combination_and_seed_in_a_fixed_order(sweep_file):
    path = sweep_file(
        points=[{"label": "none", "mechanism": None}, {"label": "balancer"}],
        grid={"workload.generate.0.daily_batch.load": [0.5, 0.7]},
        seeds=2,
    )
    assert [describe(run) for run in load_sweep(path).runs] == [
        f"label={label}, {mechanism}workload.generate.0.daily_batch.load={load}, seed={seed}"
        for label, mechanism in (("none", "mechanism=None, "), ("balancer", ""))
        for load in (0.5, 0.7)
        for seed in (1, 2)
    ]


def test_the_key_of_a_run_is_its_whole_configuration_and_nothing_else(sweep_file):
    one = load_sweep(sweep_file(grid={RESERVE: [0, 2]}, seeds=[3])).runs
    other = load_sweep(sweep_file(points=[{"label": "x", RESERVE: 2}], seeds=[3], name="another")).runs
    assert one[0].key != one[1].key
    assert one[1].key == other[0].key
    assert load_sweep(sweep_file(grid={RESERVE: [2]}, seeds=[4])).runs[0].key != other[0].key


def test_runs_of_other_code_have_other_keys_and_rows_name_theirs(sweep_file, tmp_path, monkeypatch):
    before = load_sweep(sweep_file()).runs[0].key
    monkeypatch.setattr("emulator.record.provenance.sources", lambda: "patched")
    patched = load_sweep(sweep_file())
    assert patched.runs[0].key != before
    monkeypatch.setattr("emulator.sweeps.store.sources", lambda: "patched")
    store = Store(tmp_path / "out")
    run_sweep(patched, store, Here())
    assert [row["sources"] for row in rows(store)] == ["patched"]


def test_another_content_of_a_trace_is_another_run(sweep_file, tmp_path):
    trace = tmp_path / "log.swf"
    line = "; MaxNodes: 8\n1 0 -1 {run} 1 -1 -1 1 100 -1 1 1 1 1 1 1 -1 -1\n"
    keys = []
    for name, run in (("a", 10), ("b", 20)):
        trace = tmp_path / f"{name}.swf"
        trace.write_text(line.format(run=run))
        keys.append(load_sweep(sweep_file(scenario={"workload": {"trace": str(trace)}})).runs[0].key)
    assert keys[0] != keys[1]


def test_a_sweep_leaves_one_row_a_run_with_the_varied_keys_and_all_figures(sweep_file, tmp_path):
    store = Store(tmp_path / "out")
    outcome = run_sweep(load_sweep(sweep_file(grid={RESERVE: [0, 2]}, seeds=2)), store, Here())
    assert (outcome.rows, outcome.skipped, outcome.failed, outcome.interrupted) == (4, 0, (), False)
    found = rows(store)
    assert [(row[RESERVE], row["seed"]) for row in found] == [(0, 1), (0, 2), (2, 1), (2, 2)]
    assert {"mean_wait_s", "utilization", "ondemand_rejected", "node_time_h.OA_BUSY"} <= found[0].keys()
    assert len((store.folder / "results.csv").read_text().splitlines()) == 5


def test_finished_runs_are_not_done_again_and_a_larger_grid_adds_only_what_is_new(sweep_file, tmp_path):
    class Counting(Here):
        done_runs: list[str] = []  # noqa: RUF012

        def done(self, runs, stop):
            self.done_runs.extend(describe(run) for run in runs)
            return Here().done(runs, stop)

    store = Store(tmp_path / "out")
    run_sweep(load_sweep(sweep_file(grid={RESERVE: [0]})), store, Counting())
    outcome = run_sweep(load_sweep(sweep_file(grid={RESERVE: [0, 2]})), store, Counting())
    assert Counting.done_runs == [f"{RESERVE}=0, seed=1", f"{RESERVE}=2, seed=1"]
    assert (outcome.rows, outcome.skipped) == (2, 1)


def test_an_interrupted_sweep_keeps_what_is_finished(sweep_file, tmp_path):
    store = Store(tmp_path / "out")
    over = []
    outcome = run_sweep(
        load_sweep(sweep_file(grid={RESERVE: [0, 1, 2]})), store, Here(),
        stop=lambda: bool(over), on_done=lambda done, _: over.extend([done] if done else []),
    )  # fmt: skip
    assert (outcome.rows, outcome.interrupted) == (1, True)
    assert [row[RESERVE] for row in rows(store)] == [0]


def test_what_a_killed_sweep_was_writing_is_not_taken_for_a_row(sweep_file, tmp_path):
    store = Store(tmp_path / "out")
    run = load_sweep(sweep_file()).runs[0]
    half = tmp_path / "out" / "runs" / "0.jsonl"
    half.write_text(f'{{"config_hash": "{run.key}", "row": {{"mean_wa')
    assert Store(tmp_path / "out").row(run) is None
    store.keep(run, {"a": 1})
    assert store.row(run) == Store(tmp_path / "out").row(run) == {"a": 1}


@pytest.mark.parametrize("line", ['{"config_hash": "1"}', "[]", "nonsense"])
def test_a_damaged_line_is_named_with_its_file(tmp_path, line):
    Store(tmp_path)
    file = tmp_path / "runs" / "0.jsonl"
    file.write_text(f'{{"config_hash": "1", "row": {{}}}}\n{line}\n')
    with pytest.raises(ScenarioError, match=rf"^{file}, line 2: damaged \(.*\); delete it$"):
        Store(tmp_path)


def test_the_tables_have_what_another_sweep_of_the_folder_has_finished_meanwhile(sweep_file, tmp_path):
    sweep = load_sweep(sweep_file(seeds=2))
    store, other = Store(tmp_path), Store(tmp_path)
    other.keep(sweep.runs[1], {"a": 2})
    store.keep(sweep.runs[0], {"a": 1})
    assert store.write_tables(sweep) == 2
    assert [row["a"] for row in rows(store)] == [1, 2]


def test_a_sweep_whose_folder_cannot_be_written_says_so(sweep_file, tmp_path):
    class Gone(Here):
        def done(self, runs, stop):
            shutil.rmtree(tmp_path / "out")
            yield Done(next(iter(runs)), {"a": 1})

    with pytest.raises(
        ScenarioError, match=rf"^{tmp_path}/out[^:]*: .*No such file or directory; what is finished is kept"
    ):
        run_sweep(load_sweep(sweep_file()), Store(tmp_path / "out"), Gone())


def test_a_run_that_fails_is_named_and_the_others_are_kept(sweep_file, tmp_path):
    class Failing:
        def done(self, runs, stop):
            yield Done(runs[0], None, "no nodes")
            yield Done(runs[1], {"mean_wait_s": 1.0})

    store = Store(tmp_path / "out")
    outcome = run_sweep(load_sweep(sweep_file(grid={RESERVE: [0, 1]})), store, Failing())
    assert [(describe(run), reason) for run, reason in outcome.failed] == [
        (f"{RESERVE}=0, seed=1", "no nodes")
    ]
    assert [row["mean_wait_s"] for row in rows(store)] == [1.0]


def test_processes_give_the_same_rows_as_one_after_the_other(sweep_file, tmp_path):
    sweep = load_sweep(sweep_file(grid={RESERVE: [0, 2]}, seeds=2))
    measured = {"wall_s", "jobs_per_s"}
    found = []
    for name, pool in (("here", Here()), ("cores", Cores(2))):
        store = Store(tmp_path / name)
        run_sweep(sweep, store, pool)
        found.append(
            [{key: value for key, value in row.items() if key not in measured} for row in rows(store)]
        )
    assert found[0] == found[1]


def test_short_runs_that_go_to_a_process_together_fail_one_by_one(sweep_file, tmp_path):
    log = tmp_path / "wide.swf"
    log.write_text(
        "; MaxNodes: 4\n" + "".join(f"{k} {k} -1 9 4 -1 -1 4 9 -1 1 1 1 1 1 -1 -1 -1\n" for k in (1, 2, 3))
    )
    path = sweep_file(scenario={"workload": {"trace": str(log)}}, grid={"nodes": [4, 2]}, seeds=60)
    found = {}
    for name, pool in (("here", Here()), ("cores", Cores(2))):
        store = Store(tmp_path / name)
        outcome = run_sweep(load_sweep(path), store, pool)
        assert not outcome.interrupted
        told = [
            {key: value for key, value in row.items() if key not in {"wall_s", "jobs_per_s"}}
            for row in rows(store)
        ]
        found[name] = (told, [(describe(run), reason) for run, reason in outcome.failed])
    assert found["here"] == found["cores"]
    assert [len(each) for each in found["cores"]] == [60, 60]
    assert "no job can be replayed on 2 nodes" in found["cores"][1][0][1]


def test_a_window_has_figures_of_its_own(sweep_file, tmp_path):
    store = Store(tmp_path / "out")
    run_sweep(load_sweep(sweep_file(set={"results.window_s": [0, 43_200]})), store, Here())
    (row,) = rows(store)
    assert row["window.jobs_submitted"] == 20
    assert row["window.utilization"] == pytest.approx(
        row["window.batch_utilization"] + row["window.ondemand_utilization"]
    )


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"grid": {"mechanism.balancer.static_reserv": [1]}}, "did you mean 'static_reserve'"),
        ({"grid": {RESERVE: []}}, f"grid: {RESERVE} has no values"),
        ({"gird": {}}, "gird: there is no such key; there are:"),
        ({"grid": {"workload.generate.7.x": [1]}}, "7 is no place in a list of 2"),
        ({"base": "x.yaml"}, "give either `base`"),
        ({"set": {"workload.trace": "absent.swf"}}, "absent.swf does not exist"),
        ({"seeds": [1, 2, 1]}, "seeds: 1 is there twice; for timings say `repeats`"),
        ({"grid": {RESERVE: [0, 6, 0]}}, f"grid: {RESERVE}: 0 is there twice"),
        (
            {"grid": {RESERVE: [0]}, "points": [{RESERVE: 1}]},
            f"{RESERVE} is in the grid and in a point; say it in one",
        ),
        (
            {"grid": {"seed": [1, 2]}, "seeds": 3},
            "seeds: there is a key `seed` as well; say it in one of them",
        ),
    ],
)
def test_a_wrong_sweep_file_is_an_error_before_any_run(sweep_file, keys, text):
    with pytest.raises(ScenarioError) as error:
        load_sweep(sweep_file(**keys))
    assert text in str(error.value)


def test_the_command_prints_where_the_rows_are_and_refuses_bad_input_with_status_2(sweep_file, tmp_path):
    out = str(tmp_path / "out")
    done = emulate("sweep", sweep_file(seeds=2), "--out", out, "--jobs", "1")
    assert done.exit_code == 0, done.output
    assert done.stdout == (
        f"2 runs in {out}/results.parquet and results.csv\n"
        f"The settings in order, with intervals: {out}/report.html\n"
    )
    again = emulate("sweep", sweep_file(seeds=2), "--out", out, "--jobs", "1")
    assert "2 runs (2 were there already)" in again.output
    bad = emulate("sweep", sweep_file(nope=1))
    assert bad.exit_code == 2
    assert "nope" in bad.output


def test_a_dry_run_lists_the_runs(sweep_file):
    listed = emulate("sweep", sweep_file(seeds=2), "--dry-run")
    assert [line.split("  ")[1] for line in listed.stdout.splitlines()] == ["seed=1", "seed=2"]
    assert listed.stderr == "2 runs; --dry-run does none of them\n"


def test_a_stored_row_is_plain_json(sweep_file, tmp_path):
    store = Store(tmp_path / "out")
    sweep = load_sweep(sweep_file())
    run_sweep(sweep, store, Here())
    (path,) = (tmp_path / "out" / "runs").iterdir()
    stored = json.loads(path.read_text())
    assert (stored["config_hash"], stored["row"]["nodes"]) == (sweep.runs[0].key, 8)
