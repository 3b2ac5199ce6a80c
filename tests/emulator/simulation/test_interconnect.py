"""Nodes that go together: equal to the slow reference job by job and node by node, laws, and each by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from balancer.clock import US
from emulator.cluster.interconnect import hilbert, interconnect_of, snake
from emulator.config.scenario_parts import PlacementPart
from emulator.kernel.job_states import RunOutcome
from emulator.metrics.spread import spread_of
from emulator.metrics.summary import summarize
from emulator.runs.preparation import prepare
from emulator.runs.runner import check_live, run_virtual
from emulator.runs.scenario import Scenario, ScenarioError, from_mapping, load
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.loop import Loop
from emulator.simulation.run import make_cluster, simulate
from emulator.validation.laws import assert_lawful, check
from emulator.workload.table import JobTable
from gates import GATE
from oracle.interconnect import WiredMachine, Wiring
from oracle.records import schedule_of
from oracle.reference import BACKFILLS, CHOICES, Options
from oracle.workloads import job_table, random_workload
from scenario_kit import assert_refused

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.record.run_record import RunRecord
    from oracle.reference import Job

_POLICIES = ("basic", "contiguous", "best_effort_contiguous", "local", "best_effort_local")
_REQUIRED = ("contiguous", "local")


def run_on(
    jobs: JobTable, nodes: int, part: PlacementPart, scheduler: SchedulerConfig, *, kills: bool = False
) -> RunRecord:
    cluster = make_cluster(nodes, scheduler, jobs, interconnect=interconnect_of(part, nodes, kills=kills))
    loop = Loop(cluster)
    loop.run()
    record = loop.record()
    return replace(record, scenario={"placement": part.model_dump(mode="json")})


def nodes_of(record: RunRecord) -> dict[int, set[int]]:
    """The nodes of each job's one run, by its number."""
    runs = record.runs
    return {
        int(record.jobs.number[job]): set(runs.node[runs.first[row] : runs.first[row + 1]].tolist())
        for row, job in enumerate(runs.job.tolist())
    }


def random_switches(rng: np.random.Generator, nodes: int) -> dict[str, dict[str, str]]:
    """Leaf switches with any of the nodes, and a tree above them."""
    leaves = np.array_split(
        rng.permutation(nodes) + 1, np.sort(rng.integers(0, nodes + 1, int(rng.integers(0, 5))))
    )
    found = {
        f"s{number}": {"nodes": ",".join(f"n{node}" for node in leaf.tolist())}
        for number, leaf in enumerate(leaves)
        if len(leaf)
    }
    open_ = list(found)
    while len(open_) > 1:
        below = [str(each) for each in rng.permutation(open_)[: int(rng.integers(2, 4))]]
        name = f"s{len(found)}x"
        found[name] = {"switches": ",".join(below)}
        open_ = [each for each in open_ if each not in below] + [name]
    return found


def lying(part: PlacementPart, nodes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The node at each position, and the switch or group of each, by the scenario's words; curves are as they are."""
    if part.switches is None:
        size = part.switch_nodes or part.group_nodes
        units = tuple(place // size for place in range(nodes)) if size else ()
        return tuple(interconnect_of(part, nodes).order.tolist()), units
    above = {child for each in part.switches.values() for child in (each.switches or "").split(",")}
    ahead = [name for name in part.switches if name not in above]
    leaves: list[list[int]] = []
    while ahead:
        each = part.switches[ahead.pop(0)]
        ahead = (each.switches.split(",") if each.switches else []) + ahead
        leaves += [sorted(int(name[1:]) - 1 for name in each.nodes.split(","))] if each.nodes else []
    return (
        tuple(node for leaf in leaves for node in leaf),
        tuple(unit for unit, leaf in enumerate(leaves) for _ in leaf),
    )


def random_part(rng: np.random.Generator, policy: str, nodes: int) -> PlacementPart:
    """A topology that the policy goes with; a torus where the nodes have a divisor."""
    kinds = ["tree", "dragonfly"] if policy.endswith("local") else ["line", "tree", "torus"]
    kind = str(rng.choice(kinds))
    keys: dict[str, Any] = {}
    if kind == "tree" and rng.random() < 0.5:
        keys["switches"] = random_switches(rng, nodes)
    elif kind == "tree":
        keys["switch_nodes"] = int(rng.integers(1, nodes + 2))
    elif kind == "dragonfly":
        keys["group_nodes"] = int(rng.integers(1, nodes + 2))
    elif kind == "torus":
        side = int(rng.choice([each for each in range(1, nodes + 1) if nodes % each == 0]))
        keys["dimensions"] = (side, nodes // side)
    penalty = float(rng.choice([0, 0.1, 1.5]))
    return PlacementPart(policy=policy, topology=kind, spread_penalty=penalty, **keys)  # type: ignore[arg-type]


def compare(rng: np.random.Generator, policy: str, backfill: str) -> None:
    estimates = str(rng.choice(("exact", "longer", "mixed", "shorter")))
    jobs, nodes = random_workload(rng, jobs=30, estimates=estimates)
    part = random_part(rng, policy, nodes)
    kills = bool(rng.random() < 0.5) and estimates != "shorter"
    order = str(rng.choice(("fcfs", "sjf", "wfp3")))
    options: dict[str, Any] = {"cycle_s": float(rng.choice([0, 0, 0, 7]))}
    if policy not in _REQUIRED and backfill == "easy" and not options["cycle_s"]:
        options |= {"choice": str(rng.choice(CHOICES)), "pass_": str(rng.choice(["instant", "event"]))}
    config = SchedulerConfig(order=order, backfill=backfill, **options)  # type: ignore[arg-type]
    record = run_on(job_table(jobs), nodes, part, config, kills=kills)
    order_of, units = lying(part, nodes)
    wiring = Wiring(policy, order_of, units, part.spread_penalty, kills)
    oracle = WiredMachine(jobs, order, backfill, Options(**options), wiring)
    assert schedule_of(record) == oracle.run()
    assert nodes_of(record) == {
        number: {order_of[place] for place in places} for number, places in oracle.on.items()
    }
    killed = record.runs.job[record.runs.outcome == RunOutcome.KILLED]
    assert set(record.jobs.number[killed].tolist()) == oracle.killed
    assert_lawful(record, jobs_in=len(jobs))


@pytest.mark.parametrize("policy", _POLICIES)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_jobs_start_when_and_on_the_nodes_that_the_reference_says(policy: str, backfill: str) -> None:
    rng = np.random.default_rng([51, *f"{policy}+{backfill}".encode()])
    for _ in range(15):
        compare(rng, policy, backfill)


@pytest.mark.slow
@pytest.mark.parametrize("policy", _POLICIES)
@pytest.mark.parametrize("backfill", BACKFILLS)
def test_thousands_of_workloads_get_the_nodes_of_the_reference(policy: str, backfill: str) -> None:
    rng = np.random.default_rng([52, *f"{policy}+{backfill}".encode()])
    for _ in range(GATE.reference_workloads):
        compare(rng, policy, backfill)


# Laws.


@pytest.mark.parametrize("policy", ["basic", "best_effort_contiguous", "best_effort_local"])
def test_where_it_is_only_preferred_every_job_starts_as_without_it(policy: str) -> None:
    rng = np.random.default_rng([53, *policy.encode()])
    schedulers = [{"like": each} for each in ("pyss", "batsim", "cqsim")]
    schedulers += [{"backfill": each} for each in BACKFILLS]
    for keys in schedulers:
        config = SchedulerConfig.from_mapping({"easy": keys} if "like" in keys else {"order": "fcfs", **keys})
        for _ in range(4):
            jobs, nodes = random_workload(rng)
            part = random_part(rng, policy, nodes).model_copy(update={"spread_penalty": 0.0})
            record = run_on(job_table(jobs), nodes, part, config)
            assert schedule_of(record) == schedule_of(simulate(job_table(jobs), nodes, config))


@pytest.mark.parametrize("policy", _REQUIRED)
def test_what_starts_behind_a_head_never_delays_its_reservation(policy: str) -> None:
    """With exact estimates the head starts at the first time that it was promised, or earlier."""

    class Promises(WiredMachine):
        promised: dict[int, int]

        def backfill_beside(self, head: Job) -> None:
            queued = list(self.queue)
            self.queue = queued[:1]
            super().backfill_beside(head)  # nobody is behind it: only `held_from` is set
            self.promised.setdefault(head.number, self.held_from)
            self.queue = queued
            super().backfill_beside(head)

    rng = np.random.default_rng([54, *policy.encode()])
    heads = 0
    for _ in range(25):
        jobs, nodes = random_workload(rng, jobs=30, estimates="exact")
        part = random_part(rng, policy, nodes).model_copy(update={"spread_penalty": 0.0})
        oracle = Promises(jobs, "fcfs", "easy", Options(), Wiring(policy, *lying(part, nodes)))
        oracle.promised = {}
        oracle.run()
        heads += len(oracle.promised)
        record = run_on(job_table(jobs), nodes, part, SchedulerConfig())
        started = {number: start for number, (start, _) in schedule_of(record).items()}
        assert all(started[head] <= promised for head, promised in oracle.promised.items())
    assert heads > 100


@pytest.mark.parametrize("backfill", BACKFILLS)
@pytest.mark.parametrize("policy", _POLICIES)
def test_jobs_of_one_node_are_never_spread_and_start_as_without_it(policy: str, backfill: str) -> None:
    rng = np.random.default_rng([55, *policy.encode()])
    config = SchedulerConfig(backfill=backfill)  # type: ignore[arg-type]
    for _ in range(3):
        jobs, nodes = random_workload(rng)
        jobs = [job._replace(nodes=1) for job in jobs]
        record = run_on(job_table(jobs), nodes, random_part(rng, policy, nodes), config)
        assert schedule_of(record) == schedule_of(simulate(job_table(jobs), nodes, config))


@pytest.mark.parametrize("curve", [snake, hilbert])
@pytest.mark.parametrize("dimensions", [(8,), (4, 4), (8, 8), (4, 4, 4), (2, 2, 2, 2), (16, 16), (1, 1)])
def test_a_curve_goes_through_all_nodes_from_neighbour_to_neighbour(
    curve: Any, dimensions: tuple[int, ...]
) -> None:
    order = curve(dimensions)
    assert sorted(order.tolist()) == list(range(int(np.prod(dimensions))))
    where = np.stack(np.unravel_index(order, dimensions))
    assert (np.abs(np.diff(where)).sum(axis=0) == 1).all()


def test_the_snake_goes_through_any_box_and_hilberts_curve_keeps_its_quarters_together() -> None:
    where = np.stack(np.unravel_index(snake((3, 5, 2)), (3, 5, 2)))
    assert (np.abs(np.diff(where)).sum(axis=0) == 1).all()
    x, y = np.unravel_index(hilbert((8, 8)), (8, 8))
    for quarter in range(4):
        part = slice(quarter * 16, quarter * 16 + 16)
        assert len(set(x[part] // 4)) == len(set(y[part] // 4)) == 1


def test_the_mean_distance_in_a_torus_is_that_of_all_pairs() -> None:
    wires = interconnect_of(PlacementPart(policy="basic", topology="torus", dimensions=(3, 4, 5)), 60)
    rng = np.random.default_rng(56)
    for _ in range(5):
        nodes = rng.permutation(60)[: int(rng.integers(2, 20))].astype(np.int32)
        where = np.stack(np.unravel_index(nodes, (3, 4, 5)), axis=1)
        apart = np.abs(where[:, None] - where[None])
        hops = np.minimum(apart, np.array([3, 4, 5]) - apart).sum(axis=2)
        count = len(nodes)
        assert wires.mean_hops(nodes) == pytest.approx(hops.sum() / (count * (count - 1)))


# By hand: jobs of ten seconds unless it says otherwise; times in seconds.


def by_hand(
    widths: list[int], run_s: list[int], nodes: int, *, scheduler: str = "fcfs+easy", kills: bool = False,
    estimate_s: list[int] | None = None, submit_s: list[int] | None = None, **part: Any,
) -> tuple[dict[int, tuple[float, float]], dict[int, set[int]], RunRecord]:  # fmt: skip
    """Start and end, and the nodes, of each job; and the record."""
    jobs = JobTable.build(
        submit_us=[each * US for each in submit_s or [0] * len(widths)],
        run_us=[each * US for each in run_s],
        nodes=widths,
        estimate_us=[each * US for each in estimate_s or run_s],
    )
    found = PlacementPart.model_validate(part)
    record = run_on(jobs, nodes, found, SchedulerConfig.parse(scheduler), kills=kills)
    assert_lawful(record)
    times = {number: (start / US, end / US) for number, (start, end) in schedule_of(record).items()}
    return times, nodes_of(record), record


# Four jobs on nodes 0, 1, 2 and 3; the first and third end after 5 s, and leave two nodes that are no neighbours.
_HOLES: dict[str, Any] = {"widths": [1, 1, 1, 1, 2], "run_s": [5, 20, 5, 20, 10], "nodes": 4}


def test_a_job_waits_for_neighbours_where_they_are_required_and_not_where_they_are_preferred() -> None:
    times, nodes, _ = by_hand(**_HOLES, policy="contiguous")
    assert (times[5], nodes[5]) == ((20, 30), {0, 1})
    times, nodes, _ = by_hand(**_HOLES, policy="best_effort_contiguous")
    assert (times[5], nodes[5]) == ((5, 15), {0, 2})


def test_behind_a_head_that_waits_for_neighbours_only_nodes_that_are_not_reserved_go_for_long() -> None:
    holes = _HOLES | {"widths": [1, 1, 1, 1, 2, 1, 1], "run_s": [5, 20, 5, 20, 10, 30, 15]}
    times, nodes, _ = by_hand(**holes, policy="contiguous")
    assert times[5] == (20, 30)
    assert (times[6], nodes[6]) == ((5, 35), {2})  # the head has 0 and 1 from 20 s on
    assert (times[7], nodes[7]) == ((5, 20), {0})


def test_a_job_has_the_fullest_switch_that_holds_it_and_else_the_fewest_from_the_emptiest_on() -> None:
    # Switches of four: one node of the first, three of the second and two of the third are taken for long.
    first = {"topology": "tree", "switch_nodes": 4, "nodes": 12, "policy": "best_effort_local"}
    _, nodes, _ = by_hand([4, 4, 1, 3, 2, 2], [1, 1, 9, 9, 9, 9], submit_s=[0, 0, 0, 0, 1, 1], **first)
    assert (nodes[3], nodes[4]) == ({8}, {9, 10, 11})
    assert (nodes[5], nodes[6]) == ({0, 1}, {2, 3})


def test_a_job_may_wait_for_a_switch_of_its_own() -> None:
    keys: dict[str, Any] = {"topology": "dragonfly", "group_nodes": 2, "nodes": 4, "widths": [1, 1, 1, 1, 2]}
    keys["run_s"] = [5, 20, 5, 30, 10]
    times, nodes, _ = by_hand(**keys, policy="local")
    assert (times[5], nodes[5]) == ((20, 30), {0, 1})
    times, _, record = by_hand(**keys, policy="best_effort_local")
    assert times[5] == (5, 15)
    assert spread_of(record) == {"runs": 1, "mean_groups": 2, "share_fewest": 0, "share_contiguous": 0}


def test_a_run_takes_longer_by_a_share_for_each_switch_too_many_and_its_estimate_knows_nothing_of_it() -> (
    None
):
    keys: dict[str, Any] = {"topology": "tree", "switch_nodes": 2, "nodes": 4, "widths": [1, 1, 1, 1, 2, 4]}
    keys |= {"run_s": [5, 20, 5, 30, 10, 10], "policy": "best_effort_local", "spread_penalty": 0.5}
    times, _, record = by_hand(**keys)
    assert times[5] == (5, 20)
    assert times[6] == (30, 40)  # two switches are the fewest that it can have
    assert record.jobs.run_us[4] == 15 * US
    times, _, record = by_hand(**keys, kills=True, estimate_s=[5, 20, 5, 30, 12, 10])
    assert times[5] == (5, 17)
    assert record.runs.outcome.tolist().count(RunOutcome.KILLED) == 1


# Switches of a topology.conf.

_CONF = """\
# two racks, and a switch above them
SwitchName=s1 Nodes=tux[4-6,10]   # the names are the site's
switchname=S2 nodes=tux[0-2] LinkSpeed=100
SwitchName=top \\
    Switches=S2,s1
"""


def with_conf(tmp_path: Path, text: str, nodes: int = 7) -> Scenario:
    (tmp_path / "topology.conf").write_text(text)
    path = tmp_path / "s.yaml"
    path.write_text(
        f"nodes: {nodes}\nworkload: {{generate: [{{daily_batch: {{days: 1, jobs: 40}}}}]}}\n"
        "placement: {policy: best_effort_local, topology: tree, switches: topology.conf}\n"
    )
    return load(path)


def test_a_topology_conf_says_which_nodes_are_on_which_switch_and_results_have_it(tmp_path: Path) -> None:
    given = with_conf(tmp_path, _CONF)
    assert given.placement is not None
    wires = interconnect_of(given.placement, 7)
    # tux0 is n001, tux10 the last; the first switch below the top is S2
    assert (wires.order.tolist(), wires.unit.tolist()) == ([0, 1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 1, 1, 1])
    assert wires.fewest(np.arange(8)).tolist() == [0, 1, 1, 1, 1, 2, 2, 2]
    assert from_mapping(given.as_json()) == given
    record = run_virtual(given, prepare(given))
    assert_lawful(record)
    assert summarize(record)["placement"]["mean_switches"] >= 1


_YAML = """\
---
- topology: racks
  block:
    block_sizes: [4]
    blocks:
      - block: b1
        nodes: tux[0-10]
- topology: wires   # as in topology.conf
  cluster_default: true
  tree:
    switches:
      - switch: s1
        nodes: tux[4-6,10]
      - switch: S2
        nodes: tux[0-2]
      - switch: top
        children: S2,s1
"""


def with_yaml(tmp_path: Path, text: str) -> Scenario:
    (tmp_path / "topology.yaml").write_text(text)
    path = tmp_path / "s.yaml"
    path.write_text(
        "nodes: 7\nworkload: {generate: [{daily_batch: {days: 1, jobs: 40}}]}\n"
        "placement: {policy: best_effort_local, topology: tree, switches: topology.yaml}\n"
    )
    return load(path)


def test_a_topology_yaml_says_the_same_as_a_topology_conf(tmp_path: Path) -> None:
    given = with_yaml(tmp_path, _YAML)
    assert given.placement == with_conf(tmp_path, _CONF).placement
    first = _YAML.replace("  cluster_default: true\n", "").replace("---\n", "", 1)
    trees = first[first.index("- topology: wires") :] + first[: first.index("- topology: wires")]
    assert with_yaml(tmp_path, "\N{ZERO WIDTH NO-BREAK SPACE}" + trees).placement == given.placement


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            _YAML.replace("true", "false"),
            "topology.yaml: topology racks: it has block, and a tree with a list of switches is what is read",
        ),
        ("- topology: a\n  flat: true\n", "topology a: it has flat, and a tree"),
        ("- topology: a\n", "topology a: it has nothing, and a tree"),
        ("- topology: a\n  tree: {switches: []}\n", "topology a: it has tree, and a tree with a list"),
        ("switches: []\n", "topology.yaml: expected a list of topologies, each `- topology: NAME`"),
        ("- [\n", "topology.yaml: no YAML: "),
        (
            _YAML.replace("children", "childs"),
            "topology wires: switch number 3: expected switch, and nodes or children",
        ),
        (_YAML.replace("S2,s1", "S2,s3"), "topology wires: there is no switch s3"),
        (_YAML.replace("tux[0-2]", "tux[0-"), "topology wires: switch S2: "),
    ],
)
def test_what_is_wrong_in_a_topology_yaml_is_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(said)):
        with_yaml(tmp_path, text)


def test_a_switch_holds_any_nodes_and_the_smallest_one_that_a_job_fits_on_is_taken_first() -> None:
    said = {
        "a": {"nodes": "x[1,4,6]"},
        "b": {"nodes": "x[2-3,5]"},
        "c": {"nodes": "x[7-8]"},
        "t": {"switches": "a,b,c"},
    }
    _, nodes, _ = by_hand([2, 3, 3], [9, 9, 9], nodes=8, topology="tree", switches=said, policy="local")
    assert nodes == {1: {6, 7}, 2: {0, 3, 5}, 3: {1, 2, 4}}


_ONE = "SwitchName=s1 Nodes=n[1-7]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_ONE + "SwitchName=s1 Nodes=n8\n", "conf:2: switch s1 is there twice"),
        (_ONE + "SwitchName=s2 Nodes=n[4,9]\n", "conf:2: node n4 is on switch s1 already"),
        ("\nSwitchName=s1 Nodes=n[1-7] Switches=s2\n", "conf:2: switch s1 has either Nodes or Switches"),
        ("SwitchName=s1\n", "conf:1: switch s1 has either Nodes or Switches"),
        ("SwitchName=s1 Nodes=n[1-\n", "conf:1: switch s1: "),
        (
            "SwitchName=s1 Nods=n1\n",
            "conf:1: expected SwitchName=, Nodes=, Switches= or LinkSpeed=, not 'Nods=",
        ),
        ("BlockName=b1 Nodes=n[1-7]\n", "conf:1: BlockName=b1 is of topology/block; a tree"),
        ("Nodes=n[1-7]\n", "conf:1: a line of a switch begins with SwitchName="),
        ("SwitchName=s1 Nodes=n1 Nodes=n2\n", "conf:1: Nodes is there twice"),
        (_ONE + "SwitchName=t Switches=s[1-2]\n", "conf:2: there is no switch s2"),
        (_ONE + "SwitchName=s2 Nodes=n8\n", "conf:2: nothing connects switch s2 with s1"),
        (
            _ONE + "SwitchName=a Switches=s1\nSwitchName=b Switches=s1,a\n",
            "conf:3: switch s1 is below a already",
        ),
        (_ONE + "SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "conf:2: switch a is below itself"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", "conf:1: switch a is below itself"),
        ("SwitchName=s1 Nodes=n[1-7] \\\n", "conf:1: the file ends where this line goes on"),
        ("# nothing\n", "conf: there is no switch in it"),
    ],
)
def test_what_is_wrong_in_a_topology_conf_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(said)):
        with_conf(tmp_path, text)


def test_there_are_as_many_nodes_on_switches_as_in_the_run_and_the_file_is_there(tmp_path: Path) -> None:
    given = with_conf(tmp_path, _CONF, nodes=8)
    with pytest.raises(
        ScenarioError, match=r"switches: there are 7 nodes on its switches, and 8 in this run"
    ):
        run_virtual(given, prepare(given))
    (tmp_path / "topology.conf").unlink()
    with pytest.raises(ScenarioError, match=r"topology.conf cannot be read"):
        load(tmp_path / "s.yaml")


# Whole scenarios.


def scenario(**keys: object) -> Scenario:
    work = {"generate": [{"daily_batch": {"days": 1, "jobs": 60}}]}
    return from_mapping({"nodes": 16, "workload": work, **keys})


_TREE = {"policy": "best_effort_local", "topology": "tree", "switch_nodes": 4}


def test_the_figures_say_what_a_policy_is_worth() -> None:
    def figures(policy: str) -> Any:
        given = scenario(placement=_TREE | {"policy": policy})
        return summarize(run_virtual(given, prepare(given)))["placement"]

    basic, preferred, required = map(figures, ("basic", "best_effort_local", "local"))
    assert basic["mean_switches"] > preferred["mean_switches"] > required["mean_switches"] > 1
    assert basic["share_fewest"] < preferred["share_fewest"] < required["share_fewest"] == 1
    assert figures("contiguous")["share_contiguous"] == 1
    torus = scenario(placement={"policy": "contiguous", "topology": "torus", "dimensions": [4, 4]})
    found = summarize(run_virtual(torus, prepare(torus)))["placement"]
    assert (found["mean_pieces"], found["share_contiguous"], found["mean_hops"] > 1) == (1, 1, True)


def test_it_goes_with_nodes_that_fail_are_maintained_or_sleep_and_with_limits() -> None:
    for policy in ("contiguous", "best_effort_contiguous"):
        given = scenario(
            placement={"policy": policy},
            failures={"model": {"exponential": {"mtbf_s": 50_000}}},
            maintenance=[{"begin_s": 30_000, "end_s": 50_000, "nodes": ["n003"], "drain_s": 3600}],
            limits=[{"by": "user", "jobs": 3}],
            energy={"busy_w": 200, "idle_w": 100, "sleep_after_s": 600, "boot_s": 60},
        )
        record = run_virtual(given, prepare(given))
        assert_lawful(record)
        assert (record.runs.outcome == RunOutcome.PREEMPTED).any()


def test_a_job_on_nodes_that_its_policy_forbids_is_a_breach_that_names_it() -> None:
    for part, said in (
        ({"policy": "contiguous"}, "2 runs of consecutive nodes"),
        ({"policy": "local", "topology": "tree", "switch_nodes": 2}, "2 switches or groups"),
    ):
        _, _, record = by_hand(**_HOLES, policy="basic")
        wrong = replace(record, scenario={"placement": PlacementPart.model_validate(part).model_dump()})
        assert [str(each) for each in check(wrong)] == [
            f"jobs_wait_for_nodes_that_go_together: job 5 is on {said}; 1 are required"
        ]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"placement": {"policy": "local"}}, "a line has no switches or groups; take contiguous"),
        ({"placement": {"policy": "basic", "topology": "tree"}}, "a tree needs switch_nodes"),
        ({"placement": {"policy": "basic", "switch_nodes": 4}}, "switch_nodes is of a tree"),
        ({"placement": {"policy": "basic", "switches": "x"}}, "switches is of a tree"),
        (
            {"placement": {"policy": "basic", "topology": "tree", "switch_nodes": 4, "switches": "x"}},
            "give `switch_nodes` or `switches`, not both",
        ),
        ({"placement": {"policy": "basic", "curve": "snake"}}, "curve is of a torus"),
    ],
)
def test_keys_that_do_not_go_together_are_told(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        scenario(**keys)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"mechanism": {"static_partition": {"ondemand_nodes": 2}}},
            "the mechanism static_partition chooses",
        ),
        ({"mechanism": "balancer"}, "the mechanism balancer chooses"),
        ({"features": {"gpu": {"nodes": "n001", "users": [1]}}}, "leave out `features`"),
        ({"scheduler": {"slurm": {}}}, "slurm decides in a way of its own"),
        ({"failures": {"model": {"exponential": {"mtbf_s": 9e4}}}}, "spread_penalty does not go with"),
        (
            {"placement": {"policy": "contiguous"}, "scheduler": "fcfs+easy+best_fit"},
            "scheduler choice: where a job waits for nodes that go together",
        ),
        (
            {"placement": {"policy": "basic", "topology": "torus", "dimensions": [4, 5]}},
            "placement.dimensions: 4 x 5 are 20 nodes; there are 16",
        ),
        (
            {"placement": {"policy": "basic", "topology": "torus", "dimensions": [8, 2], "curve": "hilbert"}},
            "placement.curve: hilbert needs",
        ),
    ],
)
def test_what_it_does_not_go_with_is_refused(keys: dict[str, Any], said: str) -> None:
    assert_refused(scenario(**{"placement": _TREE | {"spread_penalty": 0.1}, **keys}), said)


def test_a_live_run_refuses_it() -> None:
    given = scenario(placement=_TREE)
    with pytest.raises(ScenarioError, match=r"placement.*for virtual time only"):
        check_live(given, prepare(given))
