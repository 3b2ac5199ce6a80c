"""What the real Slurm is told of a scenario's failures and maintenance."""

import subprocess

import pytest

from balancer.clock import US
from emulator.events.node_failures import Outage
from emulator.events.node_outages import NodeOutages, Window
from emulator.live.slurm.requirements import PlayedOutages, problem_with_outages
from emulator.runs.scenario import from_mapping
from emulator.schedulers.slurm.conf_fragment import Fragment, slurm_conf

NAMES = ("n001", "n002", "n003", "n004")
DOWN, DRAIN, RESUME = ("State=down", "Reason=emulator"), ("State=drain", "Reason=emulator"), ("State=resume",)


def told(node, state):
    return ("scontrol", "update", f"NodeName={node}", *state)


def played(failures=(), windows=(), ask=None, note=None):
    """What Slurm was told until each of these seconds."""
    heard = []
    outages = NodeOutages(4, iter(failures), windows=windows)
    return PlayedOutages(outages, NAMES, ask or (lambda *words: heard.append(words)), note), heard


def test_a_node_that_fails_is_set_down_and_told_to_resume():
    outages, heard = played([Outage(10 * US, 20 * US, 1)])
    outages.until(9 * US)
    assert heard == []
    outages.until(10 * US)
    assert heard == [told("n002", DOWN)]
    outages.until(3600 * US)
    assert heard == [told("n002", DOWN), told("n002", RESUME)]


def test_nodes_that_fail_at_one_time_are_told_of_by_one_command():
    outages, heard = played(
        [Outage(10 * US, 20 * US, node) for node in (0, 1, 3)] + [Outage(20 * US, 30 * US, 2)]
    )
    outages.until(3600 * US)
    assert heard == [
        told("n[001-002,004]", DOWN),
        told("n[001-002,004]", RESUME),
        told("n003", DOWN),
        told("n003", RESUME),
    ]


def test_maintenance_drains_sets_down_and_resumes_all_its_nodes_at_once():
    window = Window(drain_us=5 * US, begin_us=10 * US, end_us=20 * US, nodes=(0, 1, 3))
    outages, heard = played(windows=[window])
    outages.until(3600 * US)
    assert heard == [told("n[001-002,004]", state) for state in (DRAIN, DOWN, RESUME)]


def test_a_node_that_fails_in_a_window_is_back_when_both_are_over():
    window = Window(drain_us=0, begin_us=0, end_us=20 * US, nodes=(0,))
    outages, heard = played([Outage(10 * US, 30 * US, 0)], [window])
    outages.until(29 * US)
    assert heard == [told("n001", DRAIN), told("n001", DOWN)]
    outages.until(30 * US)
    assert heard[2:] == [told("n001", RESUME)]


def test_what_slurm_refuses_is_noted_and_the_rest_goes_on():
    def refuse(*words):
        raise subprocess.CalledProcessError(1, words, "", "Invalid node state specified\n")

    said = []
    outages, _ = played([Outage(10 * US, 20 * US, 1)], ask=refuse, note=said.append)
    outages.until(20 * US)
    assert said == [
        "scontrol update NodeName=n002 State=down Reason=emulator: Invalid node state specified",
        "scontrol update NodeName=n002 State=resume: Invalid node state specified",
    ]


def test_a_node_that_is_set_down_stays_so_whatever_the_site_says(tmp_path):
    where = {"home": tmp_path, "spool": tmp_path, "log": tmp_path / "log", "jobcomp": tmp_path / "jobs"}
    text = slurm_conf(
        Fragment(("ReturnToService=2", "KillWait=10")), NAMES[:1], **where, host="h", user="u", port=1,
        node_ports=[2], speed=1, hooks={}, has_outages=True,
    )  # fmt: skip
    said = [line for line in text.splitlines() if line.startswith(("ReturnToService", "KillWait"))]
    assert said == ["KillWait=10", "ReturnToService=1"]


@pytest.mark.parametrize(
    ("keys", "lines", "problem"),
    [
        ({"maintenance": [{"begin_s": 5, "end_s": 9}]}, (), ""),
        ({}, ("JobRequeue=0",), ""),
        ({"maintenance": [{"begin_s": 5, "end_s": 9, "jobs": "lost"}]}, (), "leave out `jobs: lost`"),
        (
            {"failures": {"model": {"weibull": {"node_mtbf_s": 9}}, "jobs": "lost"}},
            (),
            "leave out `jobs: lost`",
        ),
        ({"maintenance": [{"begin_s": 5, "end_s": 9}]}, ("JobRequeue=0",), "JobRequeue=0"),
    ],
)
def test_jobs_are_not_lost_with_their_nodes_in_a_live_run(keys, lines, problem):
    workload = {"generate": [{"daily_batch": {"days": 0.1, "jobs": 5, "load": 0.5}}]}
    found = problem_with_outages(from_mapping({"nodes": 4, "workload": workload, **keys}), Fragment(lines))
    assert problem in found
    assert bool(problem) == bool(found)
