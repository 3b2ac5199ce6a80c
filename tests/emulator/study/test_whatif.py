"""What another slurm.conf would have done: against logs that the twin itself wrote."""

from __future__ import annotations

import json
import random

import pytest

from command_line import emulate
from emulator.runs.scenario import ScenarioError
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate
from emulator.study.whatif import answer, read_site, settings
from emulator.workload.formats import load
from emulator.workload.swf import SwfLog, write_swf
from emulator.workload.table import JobTable

NODES, DAY, US = 8, 86_400, 1_000_000
CONF = """
PartitionName=batch Nodes=ALL Default=YES PriorityTier=1
PartitionName=debug Nodes=ALL MaxTime=60 PriorityTier=10
"""


def made_jobs():
    """(submit, run, limit in minutes, nodes, partition, account), 40 a day for a week; debug jobs are short."""
    rng = random.Random(5)
    found = []
    for day in range(7):
        for _ in range(40):
            queue = rng.choice([1, 1, 1, 2])
            run = rng.randrange(60, 1800) if queue == 2 else rng.randrange(600, 14_000)
            limit = 60 if queue == 2 else run // 60 * 2 + 1
            found.append(
                (
                    day * DAY + rng.randrange(40_000),
                    run,
                    limit,
                    rng.choice([1, 1, 2, 4]),
                    queue,
                    rng.randrange(2),
                )
            )
    return sorted(found)


def waits_of(jobs, **slurm):
    submit, run, limit, nodes, queue, _ = zip(*jobs, strict=True)
    table = JobTable.build(
        submit_us=[each * US for each in submit],
        run_us=[each * US for each in run],
        estimate_us=[each * 60 * US for each in limit],
        nodes=list(nodes),
        queue=list(queue),
    )
    record = simulate(table, NODES, SchedulerConfig(decide={"slurm": slurm}))
    return [
        int(start - submit) // US
        for start, submit in zip(record.start_us, record.jobs.submit_us, strict=True)
    ]


@pytest.fixture
def conf(tmp_path):
    path = tmp_path / "slurm.conf"
    path.write_text(CONF)
    return path


def written(jobs, path, waits):
    """These jobs, and what they waited, as a log."""
    submit, run, limit, nodes, queue, group = zip(*jobs, strict=True)
    log = SwfLog.build(
        len(jobs),
        [f"; MaxNodes: {NODES}", f"; MaxProcs: {NODES}", "; Queue: 1 batch", "; Queue: 2 debug"],
        number=list(range(1, len(jobs) + 1)),
        submit_s=submit,
        wait_s=waits,
        run_s=run,
        allocated_procs=nodes,
        requested_procs=nodes,
        requested_s=[60 * each for each in limit],
        queue=queue,
        group=group,
        status=[1] * len(jobs),
    )
    write_swf(log, path)
    return path


def answered(log, *options):
    done = emulate("whatif", "--log", log, *options, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture
def site(tmp_path, conf):
    """A log that the twin wrote under this slurm.conf."""
    jobs = made_jobs()
    waits = waits_of(jobs, conf=conf, queues={1: "batch", 2: "debug"})
    return written(jobs, tmp_path / "log.swf", waits)


@pytest.fixture
def whatif(site):
    def run(*options):
        return emulate("whatif", "--log", site, *options)

    return run


def mean_min(waits):
    return pytest.approx(sum(waits) / len(waits) / 60)


def test_today_is_the_log_and_the_change_is_that_of_the_changed_rules(whatif, conf):
    done = whatif("--slurm-conf", str(conf), "--set", "bf_interval=-1", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["doubts"] == []
    everybody, *groups = found["groups"]
    jobs = made_jobs()
    changed = waits_of(jobs, conf=conf, queues={1: "batch", 2: "debug"}, bf_interval=-1)
    assert everybody["today_min"] == pytest.approx(everybody["recorded_min"])
    assert everybody["changed_min"] == mean_min(changed)
    assert everybody["low_min"] < everybody["changed_min"] - everybody["today_min"] < everybody["high_min"]
    assert (found["blocks"], found["unit"]) == (7, "days")
    kinds = [(each["by"], each["name"], each["jobs"]) for each in groups]
    assert [each[:2] for each in kinds] == [
        ("partition", "batch"), ("partition", "debug"), ("account", kinds[2][1]), ("account", kinds[3][1]),
        ("size", "1 node"), ("size", "2 to 4 nodes"),
    ]  # fmt: skip
    for by in ("partition", "account", "size"):
        assert sum(count for kind, _, count in kinds if kind == by) == len(jobs)
    debug = next(each for each in groups if each["name"] == "debug")
    assert debug["changed_min"] == mean_min(
        [wait for wait, job in zip(changed, jobs, strict=True) if job[4] == 2]
    )


def test_a_log_of_a_day_gives_no_interval(tmp_path, conf):
    jobs = [job for job in made_jobs() if job[0] < DAY]
    log = written(jobs, tmp_path / "day.swf", waits_of(jobs, conf=conf))
    found = answered(log, "--slurm-conf", str(conf), "--set", "bf_interval=-1")
    assert {(each["low_min"], each["high_min"]) for each in found["groups"]} == {(None, None)}
    done = emulate("whatif", "--log", log, "--set", "bf_interval=-1")
    assert "(no interval: the log has too few days to draw from)" in done.stdout


def test_jobs_without_a_recorded_start_are_held_against_nothing(tmp_path, conf):
    """Half of the log, and all of debug, has no starts: the others wait as they did, and nobody doubts that."""
    jobs = made_jobs()
    waits = waits_of(jobs, conf=conf, queues={1: "batch", 2: "debug"})
    known = [job[4] == 1 and number % 2 == 0 for number, job in enumerate(jobs)]
    log = written(jobs, tmp_path / "half.swf", [w if k else -1 for w, k in zip(waits, known, strict=True)])
    found = answered(log, "--slurm-conf", str(conf), "--set", "bf_interval=-1")
    mean = mean_min([wait for wait, k in zip(waits, known, strict=True) if k])
    everybody = found["groups"][0]
    assert (everybody["recorded_min"], everybody["same_jobs_min"]) == (mean, mean)
    assert everybody["today_min"] == mean_min(waits)
    assert found["doubts"] == [
        "Of jobs of partition debug the log has no starts: whether the twin is right there cannot be seen."
    ]
    unknown = len(jobs) - sum(known)
    assert f"{unknown} jobs have no recorded start: recorded waits are those of the others" in found["notes"]


def test_lent_nodes_are_nobodys_and_jobs_that_they_make_impossible_are_left_out_of_both(whatif, conf):
    done = whatif("--slurm-conf", str(conf), "--set", "nodes.lent=5", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    jobs = [job for job in made_jobs() if job[3] <= 3]
    slurm = {"conf": conf, "queues": {1: "batch", 2: "debug"}}
    assert found["groups"][0]["jobs"] == len(jobs)
    assert found["groups"][0]["today_min"] == mean_min(waits_of(jobs, **slurm))
    assert found["groups"][0]["changed_min"] == mean_min(waits_of(jobs, **slurm, nodes_lent=5))
    assert found["notes"][-1] == (
        f"left out: {len(made_jobs()) - len(jobs)} jobs that the changed settings would never start: "
        "50 since partition batch takes no more than 3 nodes, 12 since partition debug takes no more than 3 nodes"
    )


def with_a_time_out(jobs):
    """These, but the fifth ran to the longest limit of its partition, and 20 s more until it was dead."""
    submit, _, _, nodes, _, account = jobs[4]
    return [*jobs[:4], (submit, 3620, 60, nodes, 2, account), *jobs[5:]]


def test_a_job_that_ran_to_its_partition_s_limit_is_one_of_the_twin_too(tmp_path, conf):
    jobs = with_a_time_out(made_jobs())
    waits = waits_of(jobs, conf=conf, queues={1: "batch", 2: "debug"})
    found = answered(
        written(jobs, tmp_path / "log.swf", waits), "--slurm-conf", str(conf), "--set", "bf_interval=60"
    )
    everybody = found["groups"][0]
    assert (everybody["jobs"], everybody["today_min"]) == (
        len(jobs),
        pytest.approx(everybody["recorded_min"]),
    )
    assert found["notes"] == [
        "1 job ran longer than the limit; the twin ends them at it",
        "nobody says the site's version of Slurm: the rules of 26.05 are taken (--release)",
    ]


def test_the_site_s_version_of_slurm_says_whose_rules_both_runs_follow(whatif, conf):
    def said(*more):
        done = whatif("--slurm-conf", str(conf), "--set", "nodes.lent=1", *more, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    old, new = said("--release", "23.02.6"), said("--release", "26.05")
    assert old["groups"][0]["today_min"] != new["groups"][0]["today_min"]
    assert said()["groups"] == new["groups"]
    assert ["--release" in " ".join(each["notes"]) for each in (old, new, said())] == [False, False, True]
    done = whatif("--slurm-conf", str(conf), "--set", "nodes.lent=1", "--release", "new")
    assert (done.exit_code, "'new' is no version of Slurm, as 24.11.5" in done.output) == (2, True)


def test_jobs_whose_limit_the_log_does_not_say_are_counted(tmp_path, conf):
    path = written(made_jobs(), tmp_path / "log.swf", [0] * len(made_jobs()))
    lines = [line.split() for line in path.read_text().splitlines()]
    path.write_text("\n".join(" ".join(w if w[0] == ";" else [*w[:8], "-1", *w[9:]]) for w in lines))
    found = answered(path, "--slurm-conf", str(conf), "--set", "bf_interval=60")
    assert found["notes"][0] == "280 jobs: the log does not say the limit; the run time is taken for it"


def test_a_run_under_extended_limits_says_which_rule_keeps_them(tmp_path, conf):
    jobs = with_a_time_out(made_jobs())
    log = written(jobs, tmp_path / "log.swf", [0] * len(jobs))
    words = ["run", str(log), "--scheduler", f"slurm:{conf}", "--no-report", "--out", str(tmp_path / "out")]
    refused = emulate(*words)
    assert refused.exit_code == 2
    assert "partition debug takes limits up to 60 minutes" in " ".join(refused.output.split())
    assert "are the log's with `overrun: kill`" in " ".join(refused.output.split())
    assert emulate(*words, "--overrun", "kill").exit_code == 0


def test_progress_is_of_both_runs_as_one(site, conf):
    log = load(site)
    found = read_site(log, nodes=None, conf=conf, changes={"bf_interval": -1})
    ended = []

    def on_progress(_now_us, done, _granted, _rejected):
        ended.append(done)
        return True

    answer(found, seed=1, on_progress=on_progress)
    assert ended == sorted(ended)
    assert (ended[-1], len(found.jobs) in ended) == (2 * len(found.jobs), True)


def test_a_twin_that_is_not_the_site_is_said_to_be_none(whatif):
    """Without its slurm.conf, debug jobs have no priority: they wait for hours that they did not wait."""
    done = whatif("--set", "bf_interval=60")
    assert done.exit_code == 0, done.output
    assert "Today: jobs waited" in done.stdout
    assert "* Jobs of partition debug waited" in done.stdout
    assert "the twin has them wait for what the site did not" in done.stdout
    assert "With bf_interval=60:" in done.stdout
    assert "by partition" in done.stdout


def test_partitions_that_the_slurm_conf_does_not_have_are_named(whatif, tmp_path):
    other = tmp_path / "other.conf"
    other.write_text("PartitionName=batch Nodes=ALL Default=YES\n")
    done = whatif("--slurm-conf", str(other), "--set", "bf_interval=60", "--json")
    assert (
        f"no such partition in {other}, taken for the default one: debug" in json.loads(done.stdout)["notes"]
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("bf_intervall=60", "bf_intervall: no setting of Slurm's twin; known: nodes.lent, accounts"),
        ("bf_interval", "expected KEY=VALUE"),
        ("bf_interval=0", "bf_interval"),
        ("nodes.lent=8", "nodes.lent: 8 of 8 nodes; some must be left"),
        ("nodes.lent=some", "nodes.lent: how many nodes, not 'some'"),
        ("bf_window={", "is no value"),
        ("select={coress: 4}", "select: coress: there is no such key"),
        ("reservations={r: {node: ALL}}", "reservations: r.node: there is no such key"),
        ("defer=maybe", "defer: must be true or false, not 'maybe'"),
        ("release=23.02", "release is one of 22.05, 24.11, 26.05, not 23.02"),
        ("bf_interval=", "bf_interval: it needs a value"),
        (f"bf_interval={10**22}", f"bf_interval must be at most 4294967295, not {10**22}"),
        ("shares={ann: 3}", "shares: expected numbers of the trace, not 'ann'"),
        ("queues={debug: batch}", "queues: expected numbers of the trace, not 'debug'"),
    ],
)
def test_a_change_that_cannot_be_made_is_named_with_status_2(whatif, change, reason):
    done = whatif("--set", change)
    assert done.exit_code == 2, done.output
    assert reason in done.stderr


def test_a_setting_that_is_changed_twice_is_refused(whatif):
    for again in ("bf_interval=20", "BF.Interval=20"):
        done = whatif("--set", "bf_interval=10", "--set", again)
        assert (done.exit_code, "set twice" in done.stderr) == (2, True), done.output


@pytest.mark.parametrize("change", ["release=26.05", "preempt_mode=off", "select={cores: 1}"])
def test_what_yaml_takes_for_a_number_or_a_table_is_what_it_is_in_a_scenario(whatif, change):
    done = whatif("--set", change)
    assert done.exit_code == 0, done.output


def test_settings_may_be_written_as_in_the_docs():
    assert settings({"nodes.lent": 3, "BF_Interval": 60}) == ({"bf_interval": 60}, 3)
    with pytest.raises(ScenarioError, match=r"nodes\.lent: how many"):
        settings({"nodes.lent": -1})
