"""What the runs of a sweep share in one process, and what its progress tells."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from emulator.commands import sweep as cli
from emulator.runs import preparation
from emulator.runs.scenario import from_mapping
from emulator.sweeps import execute
from emulator.sweeps.grid import Sweep, make_run
from emulator.workload.hybrid_machines import ThetaYear

US = 1_000_000


def scenario(*, seed=1, notices="W5"):
    generated = {"theta_year": {"days": 10, "jobs": 300}}
    return from_mapping(
        {
            "seed": seed,
            "nodes": 4392,
            "workload": {"generate": [generated], "transforms": [{"hybrid_kinds": {"notices": notices}}]},
            "mechanism": "hybrid",
        }
    )


@pytest.fixture
def made(monkeypatch):
    """The seeds for which a log was generated, in order."""
    found = []
    generate = ThetaYear.generate

    def watched(self, rng, *, nodes):
        found.append(nodes)
        return generate(self, rng, nodes=nodes)

    monkeypatch.setattr(ThetaYear, "generate", watched)
    monkeypatch.setattr(execute, "_kept", type(execute._kept)())
    preparation._only_generated.cache_clear()
    return found


def test_workloads_made_of_one_generated_log_share_it(made):
    first, second = (preparation.prepare(scenario(notices=mix)).jobs for mix in ("W1", "W2"))
    assert len(made) == 1
    assert first.submit_us is second.submit_us
    assert first.extra["notice_us"].tolist() != second.extra["notice_us"].tolist()
    preparation._only_generated.cache_clear()
    again = preparation.prepare(scenario(notices="W2")).jobs
    assert again.submit_us.tolist() == second.submit_us.tolist()
    assert again.extra["notice_us"].tolist() == second.extra["notice_us"].tolist()
    preparation.prepare(scenario(seed=2))
    assert len(made) == 3


LOG = """\
JobIDRaw|Submit|Start|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|State|User|QOS
1|1767225600|1767225600|600|20|1|2|COMPLETED|ann|high
2|1767225601|1767225601|600|20|1|2|COMPLETED|bob|low
3|1767225602|1767225602|600|20|2|8|COMPLETED|ann|high
4|1767225603|1767225603|600|20|1|2|COMPLETED|bob|low
"""


@pytest.mark.parametrize(
    "slurm",
    [
        {},
        {"select": {}},
        {"select": {"cores": 4}},
        {"qos": {"high": {}, "low": {"GrpJobs": 1}}, "enforce_limits": True},
    ],
)
def test_a_run_of_slurm_s_twin_has_the_jobs_that_it_has_alone(tmp_path, slurm):
    """Their nodes, cores and QOS are read as its settings say; two whose other settings differ share them."""
    (tmp_path / "log.txt").write_text(LOG)
    (tmp_path / "slurm.conf").write_text(
        "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nNodeName=c[1-2] CPUs=4\n"
        "PartitionName=all Nodes=ALL\n"
    )
    one, other = (
        from_mapping({
            "workload": {"trace": str(tmp_path / "log.txt")},
            "scheduler": {"slurm": {"conf": str(tmp_path / "slurm.conf"), "bf_interval": each, **slurm}},
        })
        for each in (30, 60)
    )  # fmt: skip
    found, alone = execute.prepared_for(one), preparation.prepare(one)
    assert (found.nodes, found.qos_names) == (alone.nodes, alone.qos_names) == (2, alone.qos_names)
    assert found.jobs.extra.keys() == alone.jobs.extra.keys()
    for name, column in alone.jobs.extra.items():
        assert found.jobs.extra[name].tolist() == column.tolist()
    assert execute.prepared_for(other) is found


def test_the_last_few_workloads_are_kept_and_of_large_ones_the_last(made, monkeypatch):
    mixes = ("W1", "W2", "W3", "W4")
    kept = [execute.prepared_for(scenario(notices=mix)) for mix in mixes]
    assert [execute.prepared_for(scenario(notices=mix)) for mix in mixes] == kept
    execute.prepared_for(scenario(notices="W5"))
    assert len(execute._kept) == len(mixes)
    assert execute.prepared_for(scenario(notices="W1")) is not kept[0], "the first of five is gone"
    monkeypatch.setattr(execute, "_MOST_BYTES", 1000)
    last = execute.prepared_for(scenario(notices="W2", seed=3))
    assert list(execute._kept.values()) == [last]


def test_runs_with_the_same_jobs_are_begun_one_after_another_and_one_with_two_labels_once():
    every = [
        make_run({"nodes": 8, "seed": seed, "workload": {"generate": ["bursty_leases"]}, "scheduler": scheduler},
                 {"label": label, "seed": seed}, where=label)
        for label, scheduler in (("a", "fcfs+easy"), ("b", "sjf+easy"), ("again", "fcfs+easy")) for seed in (1, 2)
    ]  # fmt: skip
    begun = [(run.varied["label"], run.varied["seed"]) for run in Sweep("four", tuple(every)).in_turn]
    assert begun == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


class Lines:
    """A progress that is no terminal, and the clock that it goes by."""

    def __init__(self, monkeypatch):
        self.now_us, self._text = 0, io.StringIO()
        monkeypatch.setattr(cli, "wall_us", lambda: self.now_us)

    def told(self, costs, seen):
        progress = cli.SweepProgress(quiet=False, costs=costs)
        progress._console = Console(file=self._text, width=100)
        for at_s, over, total in seen:
            self.now_us = at_s * US
            progress.update(over, total)
        return self._text.getvalue().splitlines()


def test_progress_tells_how_long_it_takes_by_what_runs_cost(monkeypatch):
    # Eight runs of which the last two cost twenty times as much as the others; two were done before.
    costs = [1, 1, 1, 1, 1, 1, 20, 20]
    told = Lines(monkeypatch).told(
        costs, [(0, 2, 8), (3, 2, 8), (10, 4, 8), (11, 5, 8), (40, 7, 8), (60, 8, 8)]
    )
    assert told == [
        "2 of 8 runs done",
        "4 of 8 runs done",
        "7 of 8 runs done, about 27 s left",
        "8 of 8 runs done",
    ]


def test_a_count_that_begins_anew_has_a_time_of_its_own(monkeypatch):
    told = Lines(monkeypatch).told(
        [], [(0, 0, 2), (30, 1, 2), (31, 2, 2), (41, 0, 4), (51, 1, 4), (61, 2, 4)]
    )
    assert told[1:] == ["0 of 4 runs done", "1 of 4 runs done", "2 of 4 runs done, about 20 s left"]


def test_runs_of_unknown_cost_cost_the_same_and_the_first_one_tells_nothing(monkeypatch):
    told = Lines(monkeypatch).told([], [(0, 0, 4), (30, 1, 4), (40, 2, 4)])
    assert told == ["1 of 4 runs done", "2 of 4 runs done, about 20 s left"]
