"""evalys (the analysis library of Batsim's users) reads `jobs.csv` and finds the same figures."""

from __future__ import annotations

import pytest
from evalys.jobset import JobSet

from balancer.clock import US
from emulator.metrics import summarize
from emulator.metrics.timeline import timeline
from emulator.report import files


# evalys 4.0.7 works with pandas 3.1, which warns of what pandas 4 will take away.
@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_evalys_reads_jobs_csv_and_agrees(simulated, tmp_path):
    record = simulated(jobs=80, leases=0)
    files.write(record, tmp_path / "run")

    jobs = JobSet.from_csv(tmp_path / "run/jobs.csv", resource_bounds=(0, 63))

    done = jobs.df[jobs.df.final_state.str.startswith("COMPLETED")]
    assert done.waiting_time.mean() == pytest.approx(summarize(record)["mean_wait_s"])
    line = timeline(record)
    starts = line.at_us[line.used_nodes != 0] / US
    ours = line.used_nodes[line.used_nodes != 0]
    # evalys adds up starts in floating point, so it is asked half a microsecond later.
    theirs = [int(jobs.utilisation.load[: at_s + 5e-7].iloc[-1]) for at_s in starts]
    assert theirs == ours.tolist()
