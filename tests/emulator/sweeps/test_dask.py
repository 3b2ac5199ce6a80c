"""Sweeps on a real Dask cluster: a scheduler and two workers, each a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import distributed
import pyarrow.parquet as pq
import pytest
import yaml

from command_line import emulate
from emulator.runs.scenario import ScenarioError
from emulator.sweeps import execute, pools
from emulator.sweeps.grid import load_sweep
from emulator.sweeps.pools import DaskCluster, Here
from emulator.sweeps.pools import _text as text_of
from emulator.sweeps.store import Store
from emulator.sweeps.sweep import run_sweep
from polling import until

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[3]
MEASURED = {"wall_s", "jobs_per_s"}


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address_file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen] = []

    def begin(self, workers: int = 2) -> None:
        self.start("dask_scheduler", "--port", "0", "--no-dashboard", "--no-jupyter")
        until(lambda: self.address_file.exists() and self.address_file.read_text().endswith("}"))
        self.address = json.loads(self.address_file.read_text())["address"]
        self.workers = [
            self.start("dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard")
            for _ in range(workers)
        ]
        with self.client() as client:
            client.wait_for_workers(workers, timeout=120)

    def start(self, program: str, *options: str) -> subprocess.Popen:
        command = ["-m", f"distributed.cli.{program}", "--host", "127.0.0.1"]
        with (self.folder / f"{program}-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *command, *options, "--scheduler-file", str(self.address_file)],
                stdout=log, stderr=log, cwd=self.folder,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            )  # fmt: skip
        self.processes.append(process)
        return process

    def client(self) -> distributed.Client:
        return distributed.Client(self.address, timeout="60s")

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


@pytest.fixture
def cluster(tmp_path, request):
    folder = tmp_path / "dask"
    folder.mkdir()
    found = Cluster(folder)
    try:
        found.begin(getattr(request, "param", 2))
        yield found
    finally:
        found.stop()


@pytest.fixture
def one_death_is_enough(monkeypatch):
    """A task whose worker has died is not tried on another one."""
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")


@pytest.fixture
def grid(tmp_path):
    scenario = {
        "nodes": 8,
        "workload": {
            "generate": [{"daily_batch": {"days": 0.5, "jobs": 20}}, {"bursty_leases": {"days": 0.5}}]
        },
        "mechanism": "balancer",
    }
    path = tmp_path / "grid.yaml"
    path.write_text(
        yaml.safe_dump(
            {"scenario": scenario, "grid": {"mechanism.balancer.static_reserve": [0, 2]}, "seeds": 4}
        )
    )
    return path


def rows(folder: Path) -> list[dict]:
    table = pq.read_table(folder / "results.parquet").to_pylist()
    return [{name: value for name, value in row.items() if name not in MEASURED} for row in table]


@pytest.mark.slow
def test_two_workers_give_the_rows_that_one_process_gives(cluster, grid, tmp_path):
    here = Store(tmp_path / "here")
    run_sweep(load_sweep(grid), here, Here())
    done = emulate("sweep", grid, "--dask", cluster.address, "--out", tmp_path / "dask-out")
    assert done.exit_code == 0, done.output
    assert rows(tmp_path / "dask-out") == rows(here.folder)
    with cluster.client() as client:
        prepared = client.run(lambda: len(execute._kept))
    assert len(prepared) == 2
    assert all(prepared.values()), "each of the workers did some of the runs"


@pytest.mark.slow
def test_a_worker_that_dies_costs_no_run(cluster, grid, tmp_path):
    store, killed = Store(tmp_path / "out"), []

    def kill_one(over, _):
        if over == 2 and not killed:
            killed.append(cluster.workers[0].pid)
            os.kill(cluster.workers[0].pid, signal.SIGKILL)

    outcome = run_sweep(load_sweep(grid), store, DaskCluster(cluster.address), on_done=kill_one)
    assert killed
    assert (outcome.rows, outcome.failed) == (8, ())


FATAL = """
import os
from dataclasses import dataclass

@dataclass
class Fatal:
    plugin_kind = "transform"
    at: int = 37
    def apply(self, jobs, *, nodes):
        if nodes == self.at:
            os._exit(1)
        return jobs
"""


@pytest.mark.slow
@pytest.mark.parametrize("cluster", [3], indirect=True)
def test_a_run_that_ends_its_worker_takes_none_of_those_handed_over_with_it(
    one_death_is_enough, cluster, tmp_path, monkeypatch
):
    (tmp_path / "fatal.py").write_text(FATAL)
    workload = {
        "generate": [{"daily_batch": {"days": 0.5, "jobs": 20}}],
        "transforms": ["fatal"],
    }
    scenario = {"plugins": [f"{tmp_path / 'fatal.py'}:Fatal"], "workload": workload}
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump({"scenario": scenario, "grid": {"nodes": [*range(8, 48)]}}))
    handed_over = []
    monkeypatch.setattr(pools, "_text", lambda run: handed_over.append(run) or text_of(run))

    outcome = run_sweep(load_sweep(path), Store(tmp_path / "out"), DaskCluster(cluster.address))

    assert [(run.scenario.nodes, reason.split(":")[0]) for run, reason in outcome.failed] == [
        (37, "KilledWorker")
    ]
    assert outcome.rows == 39
    assert len(handed_over) > 40, "it was in a batch, whose runs were given again one by one"


@pytest.mark.slow
def test_a_run_that_cannot_be_done_there_is_named_and_the_others_are_kept(cluster, grid, tmp_path):
    document = yaml.safe_load(grid.read_text())
    document["grid"] = {"mechanism.balancer.static_reserve": [0, 9]}
    grid.write_text(yaml.safe_dump(document | {"seeds": 1}))
    done = emulate("sweep", grid, "--dask", cluster.address, "--out", tmp_path / "out")
    assert done.exit_code == 1, done.output
    assert "static_reserve is 9, the cluster has 8 nodes" in done.stderr
    assert len(rows(tmp_path / "out")) == 1


@pytest.mark.slow
def test_a_scheduler_that_dies_ends_the_sweep_with_a_reason_and_what_is_finished_is_kept(
    cluster, grid, tmp_path
):
    grid.write_text(yaml.safe_dump(yaml.safe_load(grid.read_text()) | {"seeds": 40}))
    store, killed = Store(tmp_path / "out"), []

    def kill_it(over, _):
        if over == 2 and not killed:
            killed.append(cluster.processes[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    with pytest.raises(ScenarioError, match=r"the scheduler is gone .* the same command goes on"):
        run_sweep(load_sweep(grid), store, DaskCluster(cluster.address), on_done=kill_it)
    assert 2 <= len(rows(tmp_path / "out")) < 80


@pytest.mark.slow
def test_without_a_scheduler_the_address_is_named_with_status_2(grid, tmp_path):
    done = emulate("sweep", grid, "--dask", "tcp://127.0.0.1:9", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "no scheduler answers there" in done.stderr
