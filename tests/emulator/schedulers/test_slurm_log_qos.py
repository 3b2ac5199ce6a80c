"""The QOS that a log says of each job is the job's in Slurm's twin, where there is a table of them."""

from __future__ import annotations

import json
import random

import pytest

from command_line import emulate
from emulator.workload.formats import load
from emulator.workload.swf import write_swf

MIDNIGHT, NODES = 1_767_225_600, 4
CONF = """\
PriorityType=priority/multifactor
PriorityWeightQOS=1000
AccountingStorageEnforce=limits,qos
PartitionName=all Nodes=ALL Default=YES
"""
TABLE = "Name|Priority|MaxJobsPU|MaxWall\nnormal|0||\nhigh|10||\nscavenger|0|1|\n"
QOS_OF = {"ann": "high", "bob": "normal", "cy": "scavenger"}


def sacct(*, with_qos=True, renamed=()):
    """Forty jobs of three users, each with the QOS of its own."""
    rng, lines = random.Random(3), []
    heading = "JobIDRaw|Submit|Start|ElapsedRaw|TimelimitRaw|NNodes|State|User|Partition"
    for number in range(1, 41):
        user, submit = rng.choice(sorted(QOS_OF)), MIDNIGHT + 60 * number
        qos = dict(renamed).get(QOS_OF[user], QOS_OF[user])
        width, run = rng.choice([1, 2, 4]), rng.randrange(300, 3000)
        line = f"{number}|{submit}|{submit}|{run}|60|{width}|COMPLETED|{user}|all"
        lines.append(f"{line}|{qos}" if with_qos else line)
    return "\n".join([f"{heading}|QOS" if with_qos else heading, *lines]) + "\n"


@pytest.fixture
def emulator(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("slurm.conf", CONF), ("qos.txt", TABLE), ("log.txt", sacct())):
        (tmp_path / name).write_text(text)

    def run(*words):
        done = emulate(*words)
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


def mean_wait_s(emulator, log, slurm="qos: qos.txt"):
    scheduler = f"scheduler={{slurm: {{conf: slurm.conf, {slurm}}}}}"
    said = emulator("run", log, "--nodes", NODES, "--set", scheduler, "--out", "out", "--no-report", "--json")
    return json.loads(said)["mean_wait_s"]


def whatif(emulator, log, *more):
    words = [
        "whatif",
        "--log",
        log,
        "--nodes",
        NODES,
        "--slurm-conf",
        "slurm.conf",
        "--set",
        "bf_interval=-1",
    ]
    return json.loads(emulator(*words, *more, "--json"))


def test_a_run_and_whatif_take_each_job_s_qos_from_the_log(emulator, tmp_path):
    (tmp_path / "without.txt").write_text(sacct(with_qos=False))
    numbers = {name: number for number, name in load(tmp_path / "log.txt").user_names.items()}
    by_user = ", ".join(f"{numbers[name]}: {qos}" for name, qos in QOS_OF.items())
    expected = mean_wait_s(emulator, "without.txt", f"qos: qos.txt, user_qos: {{{by_user}}}")
    assert mean_wait_s(emulator, "log.txt") == expected
    assert mean_wait_s(emulator, "without.txt") != expected
    found = whatif(emulator, "log.txt", "--qos", "qos.txt")
    assert found["groups"][0]["today_min"] == pytest.approx(expected / 60)


def test_what_is_set_of_a_queue_or_user_comes_before_the_log(emulator, tmp_path):
    (tmp_path / "without.txt").write_text(sacct(with_qos=False))
    assert mean_wait_s(emulator, "log.txt", "qos: qos.txt, queue_qos: {1: normal}") == mean_wait_s(
        emulator, "without.txt"
    )


def test_a_qos_that_the_table_does_not_have_is_named_and_the_job_has_the_default(emulator, tmp_path):
    renamed = [("high", "normal"), ("scavenger", "low")]
    (tmp_path / "other.txt").write_text(sacct(renamed=renamed))
    (tmp_path / "without.txt").write_text(sacct(with_qos=False))
    found = whatif(emulator, "other.txt", "--qos", "qos.txt")
    assert "QOS of the log that no table has, taken for the user's default: low" in found["notes"]
    without = whatif(emulator, "without.txt", "--qos", "qos.txt")
    assert found["groups"][0]["today_min"] == without["groups"][0]["today_min"]


def test_without_a_table_the_log_s_qos_are_named(emulator):
    found = whatif(emulator, "log.txt")
    said = "QOS of the log (high, normal, scavenger): no table says what they are (qos; whatif --qos)"
    assert said in found["notes"]
    ran = json.loads(
        emulator("run", "log.txt", "--nodes", NODES, "--scheduler", "slurm", "--out", "out", "--json")
    )
    assert said in ran["not_followed"]


def test_qos_survive_a_conversion_to_swf(emulator, tmp_path):
    write_swf(load(tmp_path / "log.txt"), tmp_path / "log.swf")
    assert mean_wait_s(emulator, "log.swf") == mean_wait_s(emulator, "log.txt")


LEASES = "workload.generate=[{bursty_leases: {days: 1}}]"


def test_leases_beside_a_log_leave_its_names_of_qos_queues_and_users(emulator, tmp_path):
    """Without a mechanism they are refused, so the log's jobs run as alone."""

    def run(*more):
        scheduler = "scheduler={slurm: {conf: slurm.conf, qos: qos.txt}}"
        said = emulator(
            "run", "log.txt", "--nodes", NODES, "--set", scheduler, "--out", "out", *more, "--json"
        )
        found = json.loads(said)
        return found["mean_wait_s"], found["jobs_run"], found.get("not_followed")

    assert run("--set", LEASES) == run()
    assert "ann" in (tmp_path / "out/users.csv").read_text()
    rest = "PartitionName=rest Nodes=ALL Default=YES\n"
    (tmp_path / "slurm.conf").write_text(CONF.replace("Default=YES", "MaxNodes=1") + rest)
    done = emulate("run", "log.txt", "--nodes", NODES, "--scheduler", "slurm:slurm.conf", "--set", LEASES)
    assert "partition all takes no more than 1 nodes" in done.output, (
        "its queues are partitions by their names"
    )


def test_generated_users_are_none_of_those_that_the_log_names(emulator, tmp_path):
    import emulator as api  # noqa: PLC0415 - the fixture has its name

    made = [{"daily_batch": {"days": 0.1, "load": 1, "users": 3, "groups": 2}}]
    found = api.run(
        {"nodes": NODES, "workload": {"trace": str(tmp_path / "log.txt"), "generate": made}}, seed=2
    )
    jobs = found.to_pandas()
    named = load(tmp_path / "log.txt").user_names
    generated = jobs[~jobs.job.isin(range(1, 41))]
    assert len(generated) > 0
    assert {*generated.user} <= {max(named) + 1 + number for number in (1, 2, 3)}
    assert {*jobs[jobs.job.isin(range(1, 41))].user} <= {*named}
