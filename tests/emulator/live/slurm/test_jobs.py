"""What Slurm is told when a mechanism decides, step by step, as Slurm and the jobs answer."""

from dataclasses import replace

import pytest

from balancer.clock import NEVER_US
from emulator.kernel.job_states import RunOutcome
from emulator.live.job.control import Order
from emulator.live.slurm.jobs import SlurmJobs, refusals_in
from emulator.machine.account import Account

ACCOUNT = Account(total=100, done=0, since_us=0)


class Commands:
    """Notes what it is asked to do, and answers what it was told to."""

    def __init__(self):
        self.told = []
        self.answers = {}

    def run(self, program, *arguments):
        if program != "squeue":
            self.told.append(" ".join([program, *arguments]))
        return self.answers.get(program, "")


class Plan:
    """A mechanism's account of one job."""

    now_us = 0

    def __init__(self):
        self.nodes, self.told = [2, 3], ACCOUNT

    def nodes_of(self, row):
        return self.nodes

    def account(self, row):
        return self.told


class Site:
    def __init__(self, folder):
        self.folder, self.commands, self.plan = folder, Commands(), Plan()
        self.jobs = SlurmJobs(
            self.commands, [7], ["n1", "n2", "n3", "n4"], orders=folder, refusals=folder / "refused"
        )
        self.jobs.follow(self.plan)
        self.jobs.submitted(7, "100")

    def order(self):
        return Order.read(self.folder / "j7")

    def said(self):
        said, self.commands.told = self.commands.told, []
        return said

    def answers(self):
        self.jobs.heard("j7", self.order().seq)

    def runs(self):
        self.jobs.run_begins(0, 0)
        self.answers()
        self.said()


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def test_a_job_is_released_on_its_nodes_without_the_wait_of_a_requeue(site):
    site.jobs.run_begins(0, 0)
    assert site.said() == [
        "scontrol update JobId=100 ReqNodeList=n1,n2 NumNodes=2-2 NumCPUs=2 StartTime=now",
        "scontrol release 100",
    ]
    assert (site.order().nodes, site.order().idle_us) == (2, 0)


@pytest.mark.parametrize(("save", "save_us"), [(True, 0), (False, None)])
def test_a_job_that_has_to_leave_is_requeued_when_it_stands_still_and_waits_until_slurm_has_cleaned_up(
    site, save, save_us
):
    site.runs()
    site.jobs.run_leaves(0, 0, save=save)
    assert site.said() == ["scancel --batch --signal=USR2 100"]
    assert (site.order().idle_us, site.order().save_us) == (None, save_us)
    site.answers()
    assert site.said() == ["scontrol requeuehold 100"]
    site.jobs.run_ended("j7", RunOutcome.REQUEUED)
    site.jobs.run_begins(0, 0)
    site.jobs.look()
    assert site.said() == []
    site.commands.answers["squeue"] = "100\n"
    site.jobs.look()
    assert site.said()[-1] == "scontrol release 100"


def test_a_suspended_job_stands_still_before_slurm_stops_it_and_goes_on_before_it_is_told_to(site):
    site.runs()
    site.plan.told = replace(ACCOUNT, done=5, since_us=NEVER_US, suspended=True)
    site.jobs.run_changes(0, 0)
    assert site.said() == ["scancel --batch --signal=USR2 100"]
    site.answers()
    assert site.said() == ["scontrol suspend 100"]
    site.plan.told = replace(ACCOUNT, done=5)
    site.jobs.run_changes(0, 0)
    assert site.said() == ["scontrol resume 100", "scancel --batch --signal=USR2 100"]
    assert site.order().idle_us == 0


def test_a_job_shrinks_once_and_then_has_to_move(site):
    site.plan.nodes = [1, 2, 3]
    site.runs()
    site.plan.nodes, site.plan.told = [2, 3], replace(ACCOUNT, done=5)
    site.jobs.run_changes(0, 0)
    assert site.said() == ["scancel --batch --signal=USR2 100", "scontrol update JobId=100 NodeList=n1,n2"]
    assert site.order().nodes == 2
    site.plan.nodes, site.plan.told = [3], replace(ACCOUNT, done=6)
    site.jobs.run_changes(0, 0)  # Slurm without slurmdbd does not take a second one
    site.answers()
    assert site.said() == ["scancel --batch --signal=USR2 100", "scontrol requeuehold 100"]


def test_an_order_that_a_job_has_not_begun_by_is_told_to_it_when_it_answers(site):
    site.jobs.run_begins(0, 0)
    first = site.order().seq
    site.plan.told = replace(ACCOUNT, done=5)
    site.jobs.run_changes(0, 0)
    site.said()
    site.jobs.heard("j7", first)
    assert site.said() == ["scancel --batch --signal=USR2 100"]


def test_an_on_demand_job_that_gets_nothing_is_cancelled_and_the_reason_kept(site):
    site.jobs.job_rejected(0, "no nodes", 3_000_000)
    assert site.said() == ["scancel 100"]
    assert refusals_in(site.folder / "refused") == {7: (3.0, "no nodes")}
