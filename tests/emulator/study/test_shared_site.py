"""A made machine whose nodes are shared, and whose truth is known: a study meets its waits, or says that it does not.

The truth is a small scheduler of its own, first come, first served for all jobs: small ones start on the first node
that has room, those of whole nodes on the last empty ones.
"""

from __future__ import annotations

import heapq
import json
import random
from dataclasses import replace

import pytest

from command_line import study_merge
from emulator.runs.scenario import ScenarioError
from emulator.study.logs import read_logs
from emulator.workload.formats import load
from emulator.workload.swf import SwfLog, write_swf

NODES, CORES = 16, 8
DAY, HOUR, WEEKS = 86_400, 3600, 2
SUNDAY = 1_767_484_800
"""2026-01-04, midnight UTC."""


def small_jobs(rng, cores):
    """(submit_s, run_s, cores): jobs of these sizes that keep a third of all cores busy, more of them by day."""
    found = []
    for day in range(7 * WEEKS):
        for _ in range(NODES * CORES * 24 * len(cores) // (3 * 3 * sum(cores))):
            hour = rng.triangular(0, 24, 14)
            found.append((day * DAY + int(hour * HOUR), rng.randrange(HOUR, 5 * HOUR), rng.choice(cores)))
    return sorted(found)


def wide_jobs(rng):
    return sorted(
        (
            day * DAY + rng.randrange(6 * HOUR, 18 * HOUR),
            rng.randrange(HOUR, 6 * HOUR),
            CORES * rng.choice((1, 2, 4)),
        )
        for day in range(7 * WEEKS)
        for _ in range(16)
    )


def truth(small, wide):
    """How long each waits on NODES nodes, and on which it runs: what the site's log would say."""
    free = [CORES] * NODES
    ends, queue, runs, order = [], [], {}, 0

    def begin(now, job, nodes, cores):
        nonlocal order
        for node in nodes:
            free[node] -= cores
        order += 1
        heapq.heappush(ends, (now + job[1], order, nodes, cores))
        runs.setdefault(job, []).append((now - job[0], nodes))

    def look(now):
        while queue:
            job = queue[0]
            if job[2] < CORES:
                found = [node for node in range(NODES) if free[node] >= job[2]][:1]
            else:
                found = [node for node in reversed(range(NODES)) if free[node] == CORES][: job[2] // CORES]
            if len(found) < max(1, job[2] // CORES):
                return
            begin(now, queue.pop(0), found, min(job[2], CORES))

    def until(now):
        while ends and ends[0][0] <= now:
            at = ends[0][0]
            while ends and ends[0][0] == at:
                _, _, nodes, cores = heapq.heappop(ends)
                for node in nodes:
                    free[node] += cores
            look(at)

    for job in sorted([*small, *wide]):
        until(job[0])
        queue.append(job)
        look(job[0])
    until(float("inf"))
    return runs


def log(jobs, waits, path):
    header = [f"; UnixStartTime: {SUNDAY}", f"; MaxProcs: {NODES * CORES}", f"; MaxNodes: {NODES}"]
    submit, run, procs = zip(*jobs, strict=True)
    write_swf(
        SwfLog.build(
            len(jobs), header, submit_s=submit, run_s=run, allocated_procs=procs, requested_procs=procs, wait_s=waits,
            number=list(range(1, len(jobs) + 1)),
        ),
        path,
    )  # fmt: skip


def sacct(jobs, waits, places=()):
    """The same as `sacct --parsable2` prints it, with the node list if there are places."""
    lines = ["JobIDRaw|Submit|Start|ElapsedRaw|NNodes|NCPUS|State|User" + "|NodeList" * bool(places)]
    lines += [
        f"{at}|{SUNDAY + submit}|{SUNDAY + submit + wait}|{run}|{max(1, procs // CORES)}|{procs}|COMPLETED|u"
        for at, ((submit, run, procs), wait) in enumerate(zip(jobs, waits, strict=True), 1)
    ]
    for at, nodes in enumerate(places, 1):
        numbers = ",".join(f"{node:03}" for node in nodes)
        lines[at] += f"|nid[{numbers}]" if len(nodes) > 1 else f"|nid{numbers}"
    return "\n".join(lines) + "\n"


@pytest.fixture
def site(tmp_path):
    """A builder of the two logs of a machine with small jobs of these sizes."""

    def build(*cores):
        rng = random.Random(5)
        small, wide = small_jobs(rng, cores), wide_jobs(rng)
        started = truth(small, wide)
        jobs = sorted([*small, *wide])
        waits, places = zip(*(started[job].pop(0) for job in jobs), strict=True)
        log(jobs, waits, tmp_path / "batch.swf")
        (tmp_path / "sacct.txt").write_text(sacct(jobs, waits))
        (tmp_path / "listed.txt").write_text(sacct(jobs, waits, places))
        leases = [(day * DAY + 12 * HOUR, HOUR, 1) for day in range(7 * WEEKS)]
        log(leases, [0] * len(leases), tmp_path / "ondemand.swf")
        return tmp_path

    return build


def study(site, *more):
    return study_merge(
        site / "batch.swf", site / "ondemand.swf", site / "out", "--nodes", f"{NODES}+2", "--reserve", 1,
        "--wait-min", 0, "--pairings", 1, "--procs-per-node", CORES, "--scheduler", "fcfs", "--cores-per-node", 0,
        "--json", *more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cores", "near", "more"),
    [
        ((1,), 0.1, ()),
        ((1, 2, 3), 0.1, ()),
        ((2, 3), 0.1, ()),
        ((3, 5), 0.15, ("--accept-today", "1.15")),
    ],
)
def test_whole_node_jobs_wait_as_long_as_the_log_says(site, cores, near, more):
    """Jobs of three and five cores leave holes on nodes of eight: there the order in which nodes empty matters most."""
    done = study(site(*cores), "--shared-nodes", *more)
    assert done.exit_code == 0, done.output
    for today in json.loads(done.stdout)["today"]:
        assert today["recorded_wait_min"] > 10
        assert today["simulated_wait_min"] == pytest.approx(today["recorded_wait_min"], rel=near)


def test_waits_more_than_a_tenth_off_end_it_with_the_reason(site):
    """Somebody says one node too many: the jobs wait less than they did."""
    done = study(site(1, 2, 3), "--shared-nodes", "--nodes", f"{NODES + 1}+2")
    assert done.exit_code == 2
    assert "Today is not understood: by the log batch jobs of these weeks waited" in done.stderr
    assert "fewer nodes than --nodes says" in done.stderr


def test_sacct_of_the_machine_is_the_same_log(site):
    """What it has beside SWF, the nodes of each job, hides no job that shares one."""
    folder = site(1, 2, 3)
    ondemand = load(folder / "ondemand.swf")
    options = {"batch_nodes": NODES, "procs_per_node": CORES, "shared_nodes": True}
    read = [read_logs(load(folder / name), ondemand, **options) for name in ("batch.swf", "sacct.txt")]
    columns = [
        sorted(
            zip(
                (each.batch.submit_us - each.batch.submit_us.min()).tolist(),
                each.batch.run_us.tolist(),
                each.batch.nodes.tolist(),
                each.waited_us.tolist(),
                strict=True,
            )
        )
        for each in read
    ]
    assert columns[0] == columns[1]
    assert read[0].notes == read[1].notes


def test_the_logs_own_node_list_is_used_where_there_is_one(site):
    """Even with jobs of three and five cores, whose holes first fit fills otherwise, waits are then within a tenth."""
    folder = site(3, 5)
    ondemand = load(folder / "ondemand.swf")
    options = {"batch_nodes": NODES, "procs_per_node": CORES, "shared_nodes": True}
    read = {name: read_logs(load(folder / name), ondemand, **options) for name in ("batch.swf", "listed.txt")}
    by_list = next(note for note in read["listed.txt"].notes if "node list" in note)
    by_fit = next(note for note in read["batch.swf"].notes if "share nodes" in note)
    at_once = [int(note.split("at most ")[1].split()[0]) for note in (by_list, by_fit)]
    assert at_once[0] <= NODES
    assert f"at once by the log's own node list (first fit would need {at_once[1]})" in by_list
    done = study(site(3, 5), "--shared-nodes", "--batch", str(folder / "listed.txt"))
    assert done.exit_code == 0, done.output
    for today in json.loads(done.stdout)["today"]:
        assert today["simulated_wait_min"] == pytest.approx(today["recorded_wait_min"], rel=0.1)


@pytest.mark.parametrize(
    ("name", "why"),
    [("batch.swf", "MaxProcs / MaxNodes of its header"), ("sacct.txt", "no job has more on a node")],
)
def test_the_processors_of_a_node_are_guessed_and_that_is_said(site, name, why):
    folder = site(1, 2, 3)
    told, guessed = (
        read_logs(
            load(folder / name), load(folder / "ondemand.swf"), batch_nodes=NODES, shared_nodes=True, **more
        )
        for more in ({"procs_per_node": CORES}, {})
    )
    assert guessed.notes == (
        f"batch: a node is taken to have 8 processors ({why}); --procs-per-node says what it really has",
        *told.notes,
    )
    assert (guessed.batch.nodes == told.batch.nodes).all()


def test_who_has_a_log_that_does_not_tell_is_asked(site):
    folder = site(1, 2, 3)
    silent = replace(load(folder / "batch.swf"), header=(f"; UnixStartTime: {SUNDAY}",))
    with pytest.raises(ScenarioError, match="say with --procs-per-node how many processors a batch node has"):
        read_logs(silent, load(folder / "ondemand.swf"), batch_nodes=NODES, shared_nodes=True)


def test_without_the_option_it_stops_with_the_reason(site):
    done = study(site(1, 2, 3))
    assert done.exit_code == 2
    assert "jobs share nodes: say --shared-nodes" in done.stderr


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--gpus-per-node", "4"), "--gpus-per-node goes with --shared-nodes"),
        (("--memory-per-node", "64"), "--memory-per-node goes with --shared-nodes"),
        (
            ("--shared-nodes", "--gpus-per-node", "4"),
            "it does not say which jobs had GPUs (sacct: AllocTRES; PBS:",
        ),
    ],
)
def test_what_a_node_has_is_asked_of_shared_nodes_and_of_logs_that_say_it(site, more, why):
    done = study(site(1), *more)
    assert (done.exit_code, why in done.stderr) == (2, True), done.output
