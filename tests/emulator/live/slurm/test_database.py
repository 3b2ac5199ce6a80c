"""Results from slurmdbd: what Slurm's database tells of a run is what its job log tells."""

import os
import pwd
import re
import signal
import subprocess
from contextlib import ExitStack
from functools import partial
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from emulator.kernel.job_states import JobState, RunOutcome
from emulator.live.fleet import Fleet
from emulator.live.process import FleetProcess
from emulator.live.slurm.accounting import read_jobs, read_sacct
from emulator.live.slurm.database import Database, associations
from emulator.live.slurm.programs import Programs
from emulator.runs.preparation import prepare
from emulator.runs.scenario import from_mapping
from emulator.validation.laws import check
from fleet_kit.both_clocks import run_live
from slurm_releases import batch, each_root, release_of


def test_users_have_the_accounts_that_their_jobs_name():
    made = associations("root", {5: "alice", 6: "bob"}, {5: "physics", 7: "maths"}, [["add", "qos", "long"]])
    assert made.accounts == {"root": {"emulator", "maths"}, "alice": {"physics"}, "bob": {"emulator"}}
    words = [" ".join(command) for command in made.commands()]
    assert words[0] == "add cluster emulator"
    assert words[1:4] == [
        f"add account {n} Description={n} Organization={n}" for n in ("emulator", "maths", "physics")
    ]
    assert words[4:] == [
        "add user alice Account=physics DefaultAccount=physics",
        "add user bob Account=emulator DefaultAccount=emulator",
        "add user root Account=emulator,maths DefaultAccount=emulator",
        "add qos long",
    ]


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.needs("slurmdbd", "libfaketime")
@pytest.mark.timeout(120)
def test_a_server_that_starts_leaves_the_temporary_tables_of_others_alone(tmp_path):
    for folder in ("bin", "logs", "others"):
        (tmp_path / folder).mkdir()
    foreign = tmp_path / "others" / "#sql-temptable-1-2-3.MAI"
    foreign.touch()
    with ExitStack() as stack:

        def start(name, program, *arguments):
            process = FleetProcess(name, [str(tmp_path / "bin" / program), *arguments], tmp_path / "logs")
            stack.callback(process.stop)
            return process

        # Not below tmp_path: the name of a socket may not be long.
        home = Path(stack.enter_context(TemporaryDirectory(prefix="db-")))
        user = pwd.getpwuid(os.geteuid()).pw_name
        stored = Database(home / "db", tmp_path / "bin", tmp_path / "log", user, "127.0.0.1", 1, start)
        environ = {"PATH": os.environ["PATH"], "TMPDIR": str(foreign.parent)}
        stored.install(Programs(), environ, environ, tmp_path / "slurmdbd.conf")
        stored.start_mariadb()
    assert foreign.exists()


CONF = """\
PriorityType=priority/multifactor
PriorityWeightFairshare=1000
AccountingStorageEnforce=associations
PartitionName=batch Nodes=ALL Default=YES AllowAccounts=physics,chemistry
"""


class Meddler:
    """Kills both servers of the database and requeues a job, once each, when a job has ended."""

    reason = ""
    fleet = None
    is_done = False

    def __bool__(self):
        counts = self.fleet._batch.counts(self.fleet.replay_log)
        counts.look()
        if counts.ended and not self.is_done:
            ask = partial(subprocess.run, capture_output=True, text=True, check=True)
            squeue = [self.fleet.bin / "squeue", "--noheader", "--states=RUNNING", "--format=%A"]
            running = ask(squeue).stdout.split()
            if running:
                self.is_done = True
                ask([self.fleet.bin / "scontrol", "requeue", running[-1]])
                for name in ("mariadbd", "slurmdbd"):
                    os.kill(self.fleet.processes[name].pid, signal.SIGKILL)
        return False


def swf(number, submit_s, run_s, nodes, user):
    return f"{number} {submit_s} -1 {run_s} {nodes} -1 -1 {nodes} {2 * run_s} -1 1 {user} 1 -1 1 -1 -1 -1\n"


@pytest.mark.live
@pytest.mark.needs("slurmdbd")
@pytest.mark.parametrize("root", each_root("libfaketime", by_night=True))
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run_by_slurmdbd_is_that_of_the_job_log_job_by_job_though_its_servers_die(tmp_path, root):
    (tmp_path / "site.conf").write_text(CONF)
    jobs = [
        swf(number, 60 * number, 400 + 50 * (number % 5), 1 + number % 4, 1 + number % 2)
        for number in range(1, 11)
    ]
    (tmp_path / "ten.swf").write_text("; MaxNodes: 8\n" + "".join(jobs))
    slurm = {
        "conf": str(tmp_path / "site.conf"),
        "accounting": "slurmdbd",
        "accounts": {1: "physics", 2: "chemistry"},
        "sacctmgr": ["modify account physics set fairshare=10"],
    }
    scenario = from_mapping(
        {
            "name": "stored",
            "nodes": 8,
            "workload": {"trace": str(tmp_path / "ten.swf")},
            "live": {"batch": batch(root, **slurm), "speed": 150},
        }
    )
    meddler, work = Meddler(), tmp_path / "work"
    work.mkdir()
    meddler.fleet = fleet = Fleet(scenario, prepare(scenario), work)
    record = fleet.run(meddler, quiet=True)

    assert not fleet._batch._spool.exists()
    assert check(record) == []
    assert record.interrupted == ""
    assert set(record.state.tolist()) == {JobState.ENDED}
    said = {mark.text for mark in record.marks}
    killed = {f"{name} ended with status -9 and was started again" for name in ("mariadbd", "slurmdbd")}
    # Slurm itself may lose the end of a job that it had not told of when slurmdbd died; then that is said.
    lost = {
        int(number)
        for text in said
        for found in re.findall(r"^slurmdbd lost the end of jobs (.*);", text)
        for number in found.split(", ")
    }
    assert {text for text in said if not text.startswith("slurmdbd lost the end of jobs ")} == killed
    assert len(lost) < 3
    assert (record.runs.outcome == RunOutcome.REQUEUED).sum() == 1

    stored = (work / "logs" / "sacct.txt").read_text().splitlines()
    logged = (work / "logs" / "jobcomp.txt").read_text().splitlines()
    begun_s = fleet._batch._begun_s
    by_sacct, by_log = read_sacct(stored, fleet.names, begun_s), read_jobs(logged, [], fleet.names, begun_s)
    assert by_number(by_sacct, lost) == by_number(by_log, lost)
    heading, *rows = (line.split("|") for line in stored)
    accounts = {row[0]: row[heading.index("Account")] for row in rows}
    wanted = {str(number): ("physics", "chemistry")[number % 2] for number in range(1, 11)}
    assert accounts.items() <= wanted.items()
    assert {int(number) for number in wanted.keys() - accounts} <= lost
    trace = prepare(from_mapping({"workload": {"trace": str(work / "logs" / "sacct.txt")}, "nodes": 8}))
    assert set(range(1, 11)) - set(trace.jobs.number.tolist()) <= lost


def run_on_four_nodes(tmp_path, root, conf, jobs, speed, **slurm):
    """The record of these jobs under this slurm.conf and slurmdbd; it keeps the laws."""
    (tmp_path / "site.conf").write_text(conf)
    (tmp_path / "log.swf").write_text("; MaxNodes: 4\n" + "".join(jobs))
    slurm |= {"conf": str(tmp_path / "site.conf"), "accounting": "slurmdbd"}
    scenario = from_mapping(
        {
            "name": "four",
            "nodes": 4,
            "workload": {"trace": str(tmp_path / "log.swf")},
            "live": {"batch": batch(root, **slurm), "speed": speed},
        }
    )
    record = run_live(tmp_path, scenario, prepare(scenario).jobs)
    assert check(record) == []
    return record


FAIR = """\
PriorityType=priority/multifactor
PriorityWeightFairshare=100000
PriorityCalcPeriod=1
"""


@pytest.mark.live
@pytest.mark.needs("slurmdbd")
@pytest.mark.parametrize("root", each_root("libfaketime", by_night=True))
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_by_fair_share_an_account_that_has_used_nothing_goes_before_one_that_has(tmp_path, root):
    # Physics has the machine for an hour; then it asks before chemistry does, and both want all of it.
    jobs = [swf(1, 0, 3600, 4, 1), swf(2, 1800, 300, 4, 1), swf(3, 2400, 300, 4, 2)]
    accounts = {1: "physics", 2: "chemistry"}
    record = run_on_four_nodes(tmp_path, root, FAIR, jobs, 150, accounts=accounts)

    assert [mark.text for mark in record.marks if "slurmdbd" in mark.text] == []
    assert record.jobs.number[record.start_us.argsort()].tolist() == [1, 3, 2]


@pytest.mark.live
@pytest.mark.needs("slurmdbd")
@pytest.mark.parametrize("root", each_root("libfaketime", by_night=True))
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_job_takes_the_nodes_of_one_whose_qos_its_own_names(tmp_path, root):
    assert outcomes_by_qos(tmp_path, root) == [["REQUEUED", "FINISHED"], ["FINISHED"]]


@pytest.mark.live
@pytest.mark.needs("slurmdbd")
@pytest.mark.parametrize("root", each_root("libfaketime", by_night=True))
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_grace_of_a_qos_is_long_enough_to_end_in(tmp_path, root):
    found = outcomes_by_qos(tmp_path, root, "modify qos low set gracetime=1800")
    low = ["FINISHED"] if release_of(root) == "22.05" else ["REQUEUED", "FINISHED"]
    assert found == [low, ["FINISHED"]]


def outcomes_by_qos(tmp_path, root, *more):
    """Of the runs of a job of all nodes, and of one whose QOS takes the nodes of the first; told `more` by sacctmgr."""
    conf = "PreemptType=preempt/qos\nPreemptMode=REQUEUE\n"
    jobs = [swf(1, 0, 900, 4, 1), swf(2, 300, 120, 2, 2)]
    told = ["add qos low", "add qos high", "modify qos high set preempt=low"]
    told += [
        f"modify account {account} set qos={qos} defaultqos={qos}"
        for account, qos in (("cheap", "low"), ("dear", "high"))
    ]
    accounts = {1: "cheap", 2: "dear"}
    record = run_on_four_nodes(tmp_path, root, conf, jobs, 60, accounts=accounts, sacctmgr=[*told, *more])
    runs = record.runs
    return [[RunOutcome(how).name for how in runs.outcome[runs.job == job]] for job in (0, 1)]


def by_number(jobs, without=()):
    return sorted((job for job in jobs if job["number"] not in without), key=itemgetter("number"))
