from __future__ import annotations

import json
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from emulator.kernel.job_states import RunOutcome
from emulator.metrics import summarize
from emulator.record.run_record import LeaseOutcome, Mark, NodePool, PoolMove, RunRecord, RunTable
from emulator.report import columns, files, sheets, tables
from emulator.workload.table import JobTable, Kind

US = 1_000_000
DATA = (files.JOBS_CSV, files.JOBS, files.EVENTS)


def as_plain(value):
    """A record as nested plain values, with the types of its arrays."""
    if isinstance(value, np.ndarray):
        return value.dtype.name, value.tolist()
    if isinstance(value, dict):
        return {name: as_plain(item) for name, item in value.items()}
    if isinstance(value, RunRecord | RunTable | JobTable):
        return {field.name: as_plain(getattr(value, field.name)) for field in fields(value)}
    return value


@pytest.fixture
def small() -> RunRecord:
    """Job 7 is requeued by a fault and runs again, lease 8 is granted, lease 9 rejected, job 10 is killed."""
    return RunRecord(
        jobs=JobTable.build(
            number=[7, 8, 9, 10],
            submit_us=[0, 10 * US, 12 * US, 20 * US],
            run_us=[30 * US, 20 * US, 5 * US, 90 * US],
            estimate_us=[60 * US, 20 * US, 5 * US, 40 * US],
            nodes=[3, 1, 9, 2],
            kind=[Kind.BATCH, Kind.ON_DEMAND, Kind.ON_DEMAND, Kind.BATCH],
            user=[5, -1, -1, 6],
        ),
        node_names=("n0", "n1", "n2", "n3", "n4", "n5"),
        state=np.array([3, 3, 4, 3], np.int8),
        start_us=np.array([40 * US, 10 * US, -1, 20 * US]),
        end_us=np.array([70 * US, 30 * US, -1, 60 * US]),
        runs=RunTable(
            job=np.array([0, 1, 3, 0], np.int32),
            start_us=np.array([0, 10, 20, 40]) * US,
            end_us=np.array([12, 30, 60, 70]) * US,
            outcome=np.array([3, 1, 2, 1], np.int8),
            first=np.array([0, 3, 4, 6, 9]),
            node=np.array([0, 1, 2, 5, 3, 4, 2, 0, 1], np.int32),
        ),
        begin_us=0,
        horizon_us=100 * US,
        moves=(
            PoolMove(0, (5,), NodePool.OD_RESERVE),
            PoolMove(10 * US, (5,), NodePool.OD_ALLOC),
            PoolMove(12 * US, (0,), NodePool.DOWN),
            PoolMove(30 * US, (5,), NodePool.OD_RESERVE),
            PoolMove(40 * US, (0,), NodePool.OA_IDLE),
        ),
        leases=(LeaseOutcome(1, True, 10 * US), LeaseOutcome(2, False, 12 * US, "too few nodes")),
        marks=(Mark(12 * US, "n0 fails"),),
        left_out={"no run time": 2},
        counted={"estimate missing": 1},
        scenario={"name": "small, but all there", "nodes": 6},
        seed=11,
        wall_s=0.5,
    )


def test_a_record_comes_back_from_its_folder_as_it_was(small, week, live_week, tmp_path):
    for name, record in (("small", small), ("week", week), ("live", live_week)):
        files.write(record, tmp_path / name)

        assert as_plain(files.load(tmp_path / name)) == as_plain(record)


def test_a_record_without_node_identities_comes_back(small, tmp_path):
    runs = replace(small.runs, first=np.zeros(5, np.int64), node=np.empty(0, np.int32))
    record = replace(small, runs=runs)

    files.write(record, tmp_path / "run")

    assert as_plain(files.load(tmp_path / "run")) == as_plain(record)


def test_further_columns_and_the_work_of_runs_come_back(small, tmp_path):
    runs = replace(
        small.runs, done_node_us=np.array([36, 20, 80, 90]) * US, lost_node_us=np.array([36, 0, 0, 0]) * US
    )
    jobs = small.jobs.with_extra(setup_us=np.array([-1, 0, 3, 4]))

    files.write(replace(small, runs=runs, jobs=jobs), tmp_path / "run")

    assert as_plain(files.load(tmp_path / "run")) == as_plain(replace(small, runs=runs, jobs=jobs))


def test_an_empty_record_can_be_written_and_read(small, tmp_path):
    empty = np.empty(0, np.int64)
    runs = RunTable(
        empty.astype(np.int32),
        empty,
        empty,
        empty.astype(np.int8),
        np.zeros(1, np.int64),
        empty.astype(np.int32),
    )
    record = replace(
        small,
        jobs=JobTable.empty(),
        state=empty.astype(np.int8),
        start_us=empty,
        end_us=empty,
        runs=runs,
        moves=(),
        leases=(),
        marks=(),
    )

    files.write(record, tmp_path / "run")

    assert as_plain(files.load(tmp_path / "run")) == as_plain(record)


def test_jobs_csv_has_the_columns_of_batsim(small, tmp_path):
    files.write(small, tmp_path / "run")

    header, *rows = (tmp_path / "run/jobs.csv").read_text().replace('"', "").splitlines()
    assert header.split(",") == [
        *("job_id", "workload_name", "profile", "submission_time", "requested_number_of_resources"),
        *("requested_time", "success", "final_state", "starting_time", "execution_time", "finish_time"),
        *("waiting_time", "turnaround_time", "stretch", "allocated_resources", "consumed_energy", "metadata"),
    ]
    name, done = "small, but all there", "COMPLETED_SUCCESSFULLY"
    assert rows == [
        f"7,{name},batch,0,3,60,1,{done},40,30,70,40,70,2.3333333333333335,0-2,-1,runs=2",
        f"8,{name},on_demand,10,1,20,1,{done},10,20,30,0,20,1,5,-1,runs=1",
        f"9,{name},on_demand,12,9,5,0,REJECTED,,,,,,,,-1,runs=0",
        f"10,{name},batch,20,2,40,0,COMPLETED_WALLTIME_REACHED,20,40,60,0,40,1,3-4,-1,runs=1",
    ]


def test_events_are_in_the_order_in_which_they_happened(small):
    events = tables.events_table(small).whole().to_pylist()

    assert [(event["time_us"] // US, event["event"], event["job"]) for event in events] == [
        (0, "move", None),
        (0, "submit", 7),
        (0, "start", 7),
        (10, "lease_request", 8),
        (10, "move", None),
        (10, "lease_grant", 8),
        (10, "lease_start", 8),
        (12, "requeue", 7),
        (12, "failure", None),
        (12, "lease_request", 9),
        (12, "lease_reject", 9),
        (12, "mark", None),
        (20, "submit", 10),
        (20, "start", 10),
        (30, "lease_end", 8),
        (30, "move", None),
        (40, "failure", None),
        (40, "start", 7),
        (60, "kill", 10),
        (70, "end", 7),
    ]
    assert events[2]["nodes"] == [0, 1, 2]
    assert (events[2]["run"], events[7]["run"], events[-1]["run"]) == (0, 0, 3)


def test_moves_of_one_time_stay_in_their_order(small):
    moves = (
        PoolMove(5 * US, (5,), NodePool.OD_RESERVE),
        PoolMove(5 * US, (5,), NodePool.DOWN),
        PoolMove(5 * US, (4,), NodePool.OD_ALLOC),
    )
    record = replace(small, moves=moves)

    table = tables.events_table(record).whole()

    assert tables.events_from(table, record.jobs)[1] == moves


def test_nodes_are_written_as_intervals():
    first, node = np.array([0, 4, 4, 5, 8]), np.array([7, 0, 2, 1, 3, 9, 5, 4], np.int32)

    texts = columns.intervals(first, node, np.array([0, 1, -1, 3, 2]))

    assert texts.to_pylist() == ["0-2 7", "", None, "4-5 9", "3"]


def test_intervals_do_not_depend_on_how_many_are_made_at_once(monkeypatch):
    rng = np.random.default_rng(1)
    widths = rng.integers(0, 40, 200)
    first = np.concatenate(([0], np.cumsum(widths)))
    node = np.concatenate([rng.permutation(4000)[:width] for width in widths]).astype(np.int32)
    whole = columns.intervals(first, node, np.arange(200)).to_pylist()

    monkeypatch.setattr(columns, "_CHUNK", 1)

    assert columns.intervals(first, node, np.arange(200)).to_pylist() == whole
    for row, text in enumerate(whole):
        ends = [part.split("-") for part in text.split()]
        nodes = [at for end in ends for at in range(int(end[0]), int(end[-1]) + 1)]
        assert nodes == sorted(node[first[row] : first[row + 1]])
        assert all(int(b[0]) > int(a[-1]) + 1 for a, b in pairwise(ends))


def test_results_do_not_depend_on_how_many_rows_are_written_at_once(simulated, tmp_path, monkeypatch):
    files.write(simulated(jobs=60, leases=6), tmp_path / "whole", report=False)
    monkeypatch.setattr(sheets, "MOST_NODES", 5)
    files.write(simulated(jobs=60, leases=6), tmp_path / "blocks", report=False)

    assert (tmp_path / "whole" / files.JOBS_CSV).read_bytes() == (
        tmp_path / "blocks" / files.JOBS_CSV
    ).read_bytes()
    for name in (files.JOBS, files.EVENTS):
        whole, blocks = (pq.ParquetFile(tmp_path / folder / name) for folder in ("whole", "blocks"))
        assert blocks.num_row_groups > whole.num_row_groups == 1
        assert blocks.read() == whole.read()


def test_the_same_run_gives_the_same_bytes_whatever_the_wall_time(simulated, tmp_path):
    files.write(simulated(), tmp_path / "a")
    files.write(replace(simulated(), wall_s=99.0), tmp_path / "b")

    for name in DATA:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    one, other = (files.load_summary(tmp_path / name) for name in "ab")
    assert {key for key in one if one[key] != other[key]} == {"wall_s", "jobs_per_s"}
    assert list(one) == list(other)


def test_the_same_record_gives_the_same_report(week, tmp_path):
    for name in "ab":
        files.write(week, tmp_path / name)

    assert (tmp_path / "a/report.html").read_bytes() == (tmp_path / "b/report.html").read_bytes()


def test_the_summary_on_disk_is_what_write_returns(week, tmp_path):
    summary = files.write(week, tmp_path / "run")

    assert files.load_summary(tmp_path / "run") == summary == json.loads(json.dumps(summarize(week)))


def test_results_replace_older_results_and_leave_other_files_alone(small, week, tmp_path):
    files.write(week, tmp_path / "run")
    (tmp_path / "run/notes.txt").write_text("mine")

    files.write(small, tmp_path / "run")

    assert as_plain(files.load(tmp_path / "run")) == as_plain(small)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == sorted(
        [*files.RESULT_FILES, "notes.txt"]
    )
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_an_empty_folder_and_one_with_logs_can_take_results(small, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "live/logs").mkdir(parents=True)

    for name in ("empty", "live", "new/deep"):
        files.write(small, tmp_path / name)
        assert (tmp_path / name / "summary.json").exists()


def test_a_folder_with_other_things_is_refused_and_left_as_it_is(small, tmp_path):
    (tmp_path / "thesis.tex").write_text("chapter 1")

    with pytest.raises(files.ResultsError, match="is not empty and holds no results of ours"):
        files.write(small, tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_summary_of_another_program_is_not_overwritten(small, tmp_path):
    (tmp_path / "summary.json").write_text('{"format": "other"}')

    with pytest.raises(files.ResultsError, match="was not written by this program"):
        files.write(small, tmp_path)


def test_a_file_is_no_folder_for_results(small, tmp_path):
    (tmp_path / "run").write_text("")

    with pytest.raises(files.ResultsError, match="is a file; name a folder"):
        files.write(small, tmp_path / "run")


def test_a_full_disk_leaves_nothing_half_written(small, week, tmp_path, monkeypatch):
    files.write(small, tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}

    def full(self: Path, *args: object, **kwargs: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    for name in ("run", "new"):
        with pytest.raises(files.ResultsError, match="No space left on device; free space or name another"):
            files.write(week, tmp_path / name)

    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_folder_below_a_file_cannot_be_written(small, tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(files.ResultsError, match="is a file; name another folder"):
        files.write(small, tmp_path / "file/run")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("summary.json", b"{", "cannot read .*summary.json"),
        ("summary.json", b"[]", "is not a summary in the format emulator-results/1"),
        ("jobs.parquet", b"nonsense", "cannot read the results in"),
        ("events.parquet", b"", "cannot read the results in"),
    ],
)
def test_damaged_results_are_named(small, tmp_path, name, content, message):
    files.write(small, tmp_path / "run")
    (tmp_path / "run" / name).write_bytes(content)

    with pytest.raises(files.ResultsError, match=message):
        files.load(tmp_path / "run")


def test_parquet_files_of_another_kind_are_refused(small, tmp_path):
    files.write(small, tmp_path / "run")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "run/jobs.parquet")

    with pytest.raises(files.ResultsError, match="cannot read the results in"):
        files.load(tmp_path / "run")


def test_jobs_parquet_has_one_typed_row_a_job(small, tmp_path):
    files.write(small, tmp_path / "run")

    first = pq.read_table(tmp_path / "run/jobs.parquet").to_pylist()[0]

    assert first == {
        "job": 7,
        "kind": "batch",
        "state": "ended",
        "submit_us": 0,
        "start_us": 40 * US,
        "end_us": 70 * US,
        "wait_us": 40 * US,
        "response_us": 70 * US,
        "run_us": 30 * US,
        "estimate_us": 60 * US,
        "nodes": 3,
        "runs": 2,
        "node_list": [2, 0, 1],
        "queue": None,
        "user": 5,
        "group": None,
        "status": None,
    }


def test_a_run_that_goes_on_is_written_with_its_start_and_no_end(small, tmp_path):
    state = small.state.copy()
    state[3] = 2
    runs = replace(
        small.runs,
        end_us=np.array([12 * US, 30 * US, -1, 70 * US]),
        outcome=np.array([3, 1, RunOutcome.RUNNING, 1], np.int8),
    )
    start_us, end_us = small.start_us.copy(), small.end_us.copy()
    start_us[3] = end_us[3] = -1
    record = replace(small, state=state, runs=runs, start_us=start_us, end_us=end_us)

    files.write(record, tmp_path / "run")

    last = (tmp_path / "run/jobs.csv").read_text().splitlines()[-1].replace('"', "")
    assert last.endswith(",0,RUNNING,20,,,0,,,3-4,-1,runs=1")
    assert as_plain(files.load(tmp_path / "run")) == as_plain(record)


def test_a_file_of_results_in_the_place_of_their_folder_is_told_with_the_folder(tmp_path):
    for name in ("summary.json", "jobs.csv"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(
        files.ResultsError, match=rf"jobs.csv is a file; name the folder .* into, {tmp_path}$"
    ):
        files.load(tmp_path / "jobs.csv")
