"""A run whose jobs will never start ends, and says why; one that is only slow goes on."""

from balancer.clock import micros
from emulator.live.slurm.batch import Patience

HOUR_US = micros(3600)


def test_jobs_that_wait_for_hours_while_nothing_runs_end_the_run():
    patience = Patience(speed=300)
    assert patience.look(0, ["PENDING", "PENDING"]) is None
    assert patience.look(3 * HOUR_US - 1, ["PENDING", "PENDING"]) is None
    assert (
        patience.look(3 * HOUR_US, ["PENDING"])
        == "1 jobs wait in Slurm's queue, and nothing has run for hours"
    )


def test_whatever_runs_meanwhile_begins_the_wait_anew():
    patience = Patience(speed=300)
    patience.look(0, ["PENDING"])
    assert patience.look(2 * HOUR_US, ["PENDING", "COMPLETING"]) is None
    patience.look(2 * HOUR_US + 1, ["PENDING"])
    assert patience.look(4 * HOUR_US, ["PENDING"]) is None
    assert patience.look(5 * HOUR_US + 1, ["PENDING"]) is not None


def test_a_queue_without_the_jobs_that_are_missing_is_told():
    patience = Patience(speed=300)
    patience.look(0, [])
    assert patience.look(3 * HOUR_US, []) == "Slurm has forgotten jobs that it had accepted"


def test_a_controller_that_stays_silent_ends_the_run_and_one_that_comes_back_does_not():
    patience = Patience(speed=300)
    assert patience.look(0, None) is None
    assert patience.look(micros(89 * 300), None) is None
    patience.look(micros(89.5 * 300), ["RUNNING"])
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
