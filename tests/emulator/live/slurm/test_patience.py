"""A run whose jobs will never start ends, and says why; one that is only slow goes on."""

from balancer.clock import micros
from emulator.live.slurm.patience import Patience, QueuedJob

HOUR_US = micros(3600)
HELD = QueuedJob.of("17|PENDING|2026-01-01T00:00:00|N/A||launch failed requeued held")
BUSY = QueuedJob.of("18|PENDING|2026-01-01T00:00:00|N/A||Resources")
ENDS = QueuedJob.of("18|COMPLETING|2026-01-01T00:00:00|2026-01-01T01:00:00|n001|None")


def test_jobs_that_wait_for_hours_while_nothing_runs_end_the_run():
    patience = Patience(speed=300)
    assert patience.look(0, [HELD, BUSY]) is None
    assert patience.look(3 * HOUR_US - 1, [HELD, BUSY]) is None
    assert (
        patience.look(3 * HOUR_US, [HELD])
        == "1 jobs wait in Slurm's queue, and nothing has run for hours (job 17: launch failed requeued held)"
    )


def test_whatever_runs_meanwhile_begins_the_wait_anew():
    patience = Patience(speed=300)
    patience.look(0, [HELD])
    assert patience.look(2 * HOUR_US, [HELD, ENDS]) is None
    patience.look(2 * HOUR_US + 1, [HELD])
    assert patience.look(4 * HOUR_US, [HELD]) is None
    assert patience.look(5 * HOUR_US + 1, [HELD]) is not None


def test_a_queue_without_the_jobs_that_are_missing_is_told():
    patience = Patience(speed=300)
    patience.look(0, [])
    assert patience.look(3 * HOUR_US, []) == "Slurm has forgotten jobs that it had accepted"


def test_a_controller_that_stays_silent_ends_the_run_and_one_that_comes_back_does_not():
    patience = Patience(speed=300)
    assert patience.look(0, None) is None
    assert patience.look(micros(89 * 300), None) is None
    patience.look(micros(89.5 * 300), [ENDS])
    assert patience.look(micros(90 * 300), None) is None
    assert patience.look(micros(180 * 300), None) == "slurmctld does not answer any more"


def test_slurm_is_asked_once_a_second_of_wall_time():
    patience = Patience(speed=300)
    assert [patience.is_due(micros(at_s)) for at_s in (0, 1, 299, 300, 301)] == [
        True,
        False,
        False,
        True,
        False,
    ]
