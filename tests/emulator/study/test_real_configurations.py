"""The whole path for three sites whose slurm.conf has the form of real ones (`tests/recorded/README.md`)."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

import pytest

from command_line import emulate
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate
from emulator.workload.table import JobTable
from testdata import RECORDED

CONFS = RECORDED / "sites/slurm_conf"
DAYS, DAY_S, US = 21, 86_400, 1_000_000
BEGIN_S = 1_767_484_800
"""Sunday, 2026-01-04, midnight UTC."""
SERVERS = 3


@dataclass(frozen=True)
class Site:
    """Its slurm.conf, how many nodes that has, and of each partition jobs a day, widest job and longest limit (min).

    Jobs that share nodes take up to so many `cores` of each, and of memory `core_mib` for each core.
    """

    conf: str
    nodes: int
    cores: int
    core_mib: int
    partitions: dict[str, tuple[int, int, int]]
    told: tuple[str, ...]


SITES = (
    Site(
        "tree.conf", 12, 4, 128,
        {"debug": (8, 1, 120), "standby": (10, 4, 300), "memory": (4, 1, 300), "dgx": (2, 1, 300), "bank": (2, 1, 300)},
        ("tree.conf: TopologyPlugin=topology/tree: Slurm would keep a job on few switches",
         "tree.conf: partition bank: AllowGroups=bank: Slurm would refuse others"),
    ),
    Site(
        "weights.conf", 8, 20, 2048,
        {"main": (8, 2, 240), "long": (5, 2, 480), "debug": (6, 1, 30)},
        ("weights.conf: PriorityWeightFairshare: no table says what accounts and shares there are (associations), so",
         "weights.conf: PriorityWeightTRES=CPU=1000,Mem=1000: the twin has no weights of TRES",
         "weights.conf: partition long: TRESBillingWeights=cpu=1.5,mem=.50G: usage is counted in nodes"),
    ),
    Site(
        "included/slurm.conf", 8, 16, 2048,
        {"cpubase_bycore_b1": (14, 3, 300), "gpubase": (3, 1, 300)},
        ("slurm.conf: bf_max_job_assoc: no table says whose associations there are (associations)",
         "slurm.conf: State=FUTURE of pool1, pool2, pool3, pool4, pool5 and 15 more: the twin has no nodes"),
    ),
)  # fmt: skip


def jobs_of(site):
    """(submit, run, limit in minutes, nodes, partition) of each job, by submit."""
    rng = random.Random(site.conf)
    found = []
    for day in range(DAYS):
        for name, (count, widest, longest) in site.partitions.items():
            for _ in range(count):
                limit = rng.randrange(20, longest + 1, 10)
                run = rng.randrange(60 * limit // 3, 60 * limit)
                submit = BEGIN_S + day * DAY_S + rng.randrange(8 * 3600, 17 * 3600)
                found.append((submit, run, limit, rng.randrange(1, widest + 1), name))
    return sorted(found)


def waits_of(site, jobs, **more):
    """What they wait by the rules of the site's slurm.conf, and `more`."""
    names = dict(enumerate(site.partitions, 1))
    numbers = {name: number for number, name in names.items()}
    submit, run, limit, nodes, partition = zip(*jobs, strict=True)
    table = JobTable.build(
        submit_us=[each * US for each in submit],
        run_us=[each * US for each in run],
        estimate_us=[each * 60 * US for each in limit],
        nodes=list(nodes),
        queue=[numbers[each] for each in partition],
        user=[1] * len(jobs),
        extra=parts_of(site, jobs) if "select" in more else {},
    )
    rules = SchedulerConfig(decide={"slurm": {"conf": CONFS / site.conf, "queues": names, **more}})
    record = simulate(table, site.nodes, rules)
    return [
        int(start - since) // US for start, since in zip(record.start_us, record.jobs.submit_us, strict=True)
    ]


def parts_of(site, jobs):
    cores = cores_of(site, jobs)
    return {"cores": cores, "memory_kib": [each * site.core_mib * 1024 for each in cores]}


def cores_of(site, jobs):
    """How many of each of its nodes each job has."""
    return [1 + run % site.cores for _, run, *_ in jobs]


def sacct_of(site, jobs, waits):
    """With the nodes of each job, and with its part of them."""
    rows = []
    for number, (job, cores, wait) in enumerate(zip(jobs, cores_of(site, jobs), waits, strict=True), 1):
        submit, run, limit, nodes, name = job
        of_nodes = f"cpu={nodes * cores},mem={nodes * cores * site.core_mib}M,node={nodes}"
        rows.append(
            f"{number}|{submit}|{submit + wait}|{run}|{limit}|{nodes}|{of_nodes}|COMPLETED|ann|{name}"
        )
    heading = "JobIDRaw|Submit|Start|ElapsedRaw|TimelimitRaw|AllocNodes|AllocTRES|State|User|Partition"
    return "\n".join([heading, *rows, ""])


def usage():
    """Nova's report of servers, at most three at once, from 10 to noon of each day."""
    rows = [
        {"instance_id": f"{day}-{at}", "vcpus": 16, "started_at": begin, "ended_at": begin + 7200}
        for day in range(DAYS)
        for at in range(SERVERS)
        for begin in [BEGIN_S + day * DAY_S + 36_000 + 60 * at]
    ]
    return json.dumps({"tenant_usage": {"tenant_id": "p", "server_usages": rows}})


@pytest.fixture(scope="module", params=SITES, ids=lambda site: site.conf)
def site(request, tmp_path_factory):
    """A site, its two logs, and what its jobs waited."""
    folder = tmp_path_factory.mktemp("site")
    jobs = jobs_of(request.param)
    waits = waits_of(request.param, jobs)
    (folder / "slurm.txt").write_text(sacct_of(request.param, jobs, waits))
    (folder / "usage.json").write_text(usage())
    return request.param, folder, jobs, waits


def ran(*words):
    done = emulate(*words)
    assert done.exit_code == 0, done.output
    return done


def what_if(log, conf, *more):
    asked = ["--log", log, "--slurm-conf", conf, "--set", "bf_interval=600", *more, "--json"]
    return json.loads(ran("whatif", *asked).stdout)


def assert_waits(found, jobs, waits, partitions):
    """Of all jobs and of those of each partition, as they were recorded; and nothing is doubted."""
    everybody, *groups = found["groups"]
    assert (found["doubts"], everybody["jobs"]) == ([], len(jobs))
    assert everybody["today_min"] == pytest.approx(sum(waits) / len(waits) / 60)
    by_name = {each["name"]: each for each in groups if each["by"] == "partition"}
    assert set(by_name) == set(partitions)
    for name, each in by_name.items():
        mine = [wait for job, wait in zip(jobs, waits, strict=True) if job[-1] == name]
        assert (each["jobs"], each["today_min"]) == (len(mine), pytest.approx(sum(mine) / len(mine) / 60))


def test_the_twin_waits_as_the_site_did_and_says_what_of_the_file_it_does_not_follow(site):
    its, folder, jobs, waits = site
    conf = CONFS / its.conf
    found = what_if(folder / "slurm.txt", conf, "--procs-per-node", 1)
    assert_waits(found, jobs, waits, its.partitions)
    assert f"{its.nodes} nodes, by the NodeName lines of {conf}" in found["notes"]
    for sentence in its.told:
        assert any(note.startswith(sentence) for note in found["notes"]), sentence


def test_jobs_share_nodes_where_the_site_s_file_says_so(site, tmp_path):
    its, _, jobs, _ = site
    conf, log = CONFS / its.conf, tmp_path / "slurm.txt"
    waits = waits_of(its, jobs, select={}, preempt_type="none")
    log.write_text(sacct_of(its, jobs, waits))
    found = what_if(log, conf)
    assert_waits(found, jobs, waits, its.partitions)
    assert f"jobs share nodes, as {conf.name} says (whole nodes: --procs-per-node)" in found["notes"]
    assert not [
        note for note in found["notes"] if "unless `select` is set" in note or "CR_Core_Memory:" in note
    ]
    others = [each for each in its.told if "partition" in each or "State" in each or "TRES" in each]
    for sentence in others:
        assert any(note.startswith(sentence) for note in found["notes"]), sentence


def test_a_run_under_the_file_has_the_waits_of_the_log(site):
    its, folder, jobs, waits = site
    said = f"slurm:{CONFS / its.conf}"
    ran("run", folder / "slurm.txt", "--scheduler", said, "--out", folder / "out")
    summary = json.loads((folder / "out/summary.json").read_text())
    assert summary["nodes"] == its.nodes  # by its NodeName lines
    # A run begins at 0, so that its passes are not at the seconds of the log's.
    assert summary["recorded_waits"] == {
        "jobs": len(jobs),
        "mean_recorded_s": pytest.approx(sum(waits) / len(waits)),
        "mean_simulated_s": pytest.approx(sum(waits) / len(waits), rel=1e-3),
    }
    for sentence in its.told:
        assert any(note.startswith(sentence) for note in summary["not_followed"]), sentence


def study(site, *more):
    its, folder, _, _ = site
    logs = [
        "--batch",
        folder / "slurm.txt",
        "--ondemand",
        folder / "usage.json",
        "--nodes",
        f"{its.nodes}+{SERVERS}",
    ]
    return [str(word) for word in ("study", "merge", *logs, "--quick", "--cores-per-node", 16, *more)]


@pytest.mark.slow
def test_a_study_of_the_site_s_two_logs_compares_today_with_mergers(site):
    its, folder, _, _ = site
    # Partitions keep nodes from jobs, which the study's one queue does not: its waits are shorter.
    more = ["--accept-today", 100, "--reserve", "2", "--wait-min", "0", "--out", folder / "study", "--json"]
    found = json.loads(ran(*study(site, *more)).stdout)
    assert (found["batch_nodes"], found["ondemand_nodes"], len(found["weeks"])) == (its.nodes, SERVERS, 2)
    settings = {each["setting"]: each for each in found["settings"]}
    assert [settings[name]["requests"] for name in ("split", "batch only", "basic R=2 W=0")] == [42, 42, 42]
    assert (settings["split"]["rejected"], settings["batch only"]["rejected"]) == (0, 42)
    assert settings["batch only"]["wait_min"] < settings["split"]["wait_min"]


@pytest.mark.slow
def test_under_the_site_s_own_file_on_demand_nodes_come_behind_those_that_it_has(site):
    its, folder, _, waits = site
    conf = CONFS / its.conf
    more = ["--scheduler", f"slurm:{conf}", "--accept-today", 3, "--reserve", "2", "--wait-min", "0"]
    found = json.loads(ran(*study(site, *more, "--out", folder / "own", "--json")).stdout)
    settings = {each["setting"]: each for each in found["settings"]}
    assert (settings["split"]["rejected"], settings["batch only"]["rejected"]) == (0, 42)
    # Partitions are kept to: the split has the waits of the log, and not those of one queue on all nodes.
    assert settings["split"]["wait_min"] == pytest.approx(sum(waits) / len(waits) / 60, rel=0.5)
    notes = " ".join(found["notes"])
    assert f"{conf.name} has the {its.nodes} batch nodes; the {SERVERS} on-demand nodes are put into" in notes
    for sentence in its.told:
        assert sentence in notes


@pytest.mark.parametrize("site", SITES[:1], indirect=True, ids=["tree.conf"])
def test_a_study_under_a_file_of_another_size_says_so(site):
    its, folder, _, _ = site
    words = study(site, "--scheduler", f"slurm:{CONFS / its.conf}", "--out", folder / "failed")
    words[words.index("--nodes") + 1] = "10+3"
    done = emulate(*words)
    assert done.exit_code == 2
    assert (
        "is one of 12 nodes of the site (kari-c-001 to kari-dgx1-002), and the run has 10: say 12 nodes"
        in " ".join(done.output.split())
    )


@pytest.mark.parametrize("site", SITES[:1], indirect=True, ids=["tree.conf"])
def test_a_study_whose_runs_all_fail_says_why(site, monkeypatch):
    its, folder, _, _ = site
    monkeypatch.setattr(
        "emulator.study.site_scheduler.under_scheduler",
        lambda logs, scheduler, _nodes, **_files: (logs, scheduler),
    )
    words = study(site, "--scheduler", f"slurm:{CONFS / its.conf}", "--out", folder / "failed")
    done = emulate(*words)
    assert done.exit_code == 2
    said = " ".join(done.output.split())
    assert "no run of today could be made" in said
    assert (
        "is one of 12 nodes of the site (kari-c-001 to kari-dgx1-002), and the run has 15: say 12 nodes"
        in said
    )
