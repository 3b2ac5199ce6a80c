"""The Compose profile `slurm`: a scenario on the real Slurm, in containers."""

import subprocess

import pytest

from emulator.kernel.job_states import JobState
from emulator.report import files
from emulator.validation.laws import check
from emulator.workload.table import Kind

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.needs("slurm-image"), pytest.mark.timeout(600)]
_OTHERS = ("slurmctld", "slurmd", "slurm-balancer", "slurm-ondemand", "slurm-replayer")


def test_a_day_on_the_real_slurm_in_containers_has_all_its_jobs_and_everybody_comes_to_an_end(
    compose, slurm_image
):
    fleet = compose("onslurm", environ=slurm_image, service="slurm", batch="slurm", speed=400)
    status, folder = fleet.result("slurm")

    assert status == 0, fleet("logs", "--tail", "50", check=False)
    assert (folder / "summary.json").stat().st_uid == fleet.runs.stat().st_uid
    record = files.load(folder)
    assert check(record) == []
    assert record.interrupted == ""
    batch = record.jobs.kind == Kind.BATCH
    assert batch.sum() == 40
    assert (record.state[batch] == JobState.ENDED).all()
    assert set(record.state[~batch].tolist()) <= {JobState.ENDED, JobState.REJECTED}
    assert record.moves
    assert len((folder / "logs" / "jobcomp.txt").read_text().splitlines()) >= 40
    for service in _OTHERS:
        (container,) = fleet("ps", "-q", service).split()
        waited = subprocess.run(
            ["docker", "wait", container],
            env=fleet.environ,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert waited.stdout.strip() == "0", service
    assert [path.name for path in fleet.runs.iterdir()] == ["onslurm-live"]
