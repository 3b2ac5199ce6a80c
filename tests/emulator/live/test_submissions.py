"""Jobs go to the batch system in the order of the log, however far ahead they are prepared."""

from pathlib import Path

import pytest

from emulator.live.qsub import QsubError
from emulator.live.replayer_config import ReplayerConfig
from emulator.live.submissions import Job, Submissions

CONFIG = ReplayerConfig(workload=Path("workload"), result=Path("result"))


class Noting:
    """A submitter that prepares, and notes what it is asked to do."""

    ahead = 2

    def __init__(self, refused=()):
        self.refused = refused
        self.noted = []

    def prepare(self, job):
        self.noted.append(f"prepare {job.name}")

    def send(self, job):
        self.noted.append(f"send {job.name}")

    def submit(self, job):
        self.noted.append(f"submit {job.name}")
        if job.name in self.refused:
            raise QsubError("no")
        return job.name

    def find(self, name):
        return None

    def close(self):
        self.noted.append("close")


def job(number, submit_us):
    return Job(number, submit_us, 1, 1, 1)


def submissions(submitter, jobs):
    made = Submissions(CONFIG, submitter)
    for each in jobs:
        made.expect(each)
    made.prepare()
    return made


def test_the_next_jobs_are_prepared_while_one_is_submitted():
    noting, jobs = Noting(), [job(3, 20), job(1, 10), job(4, 30), job(2, 10)]
    made = submissions(noting, jobs)
    assert noting.noted == ["prepare j1", "prepare j2"]
    for each in sorted(jobs, key=lambda job: job.submit_us):
        made.submit(each)
    made.close()
    assert noting.noted[2:] == [
        "send j1", "prepare j3", "submit j1",
        "send j2", "prepare j4", "submit j2",
        "send j3", "submit j3",
        "send j4", "submit j4",
        "close",
    ]  # fmt: skip


def test_a_job_that_was_refused_is_offered_again_as_one_that_was_never_prepared():
    noting, jobs = Noting(refused=("j1",)), [job(1, 10), job(2, 10), job(3, 10)]
    made = submissions(noting, jobs)
    for _ in range(2):
        with pytest.raises(QsubError):
            made.submit(jobs[0])
    assert noting.noted == ["prepare j1", "prepare j2", "send j1", "prepare j3", "submit j1", "submit j1"]


def test_a_submitter_that_only_submits_is_asked_for_nothing_else():
    class Plain:
        def submit(self, job):
            return job.name

        def find(self, name):
            return name

    made = submissions(Plain(), [job(1, 10)])
    assert (made.submit(job(1, 10)), made.find(job(1, 10))) == ("j1", "j1")
    made.close()
