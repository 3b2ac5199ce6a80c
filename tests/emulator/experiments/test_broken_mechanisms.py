"""A mechanism that does not do its work loses claims: its runs are replaced by those of the sweep that do as much.

The figures are recorded (tests/recorded/claims): no preparation is a run without notices, a reserve that nobody
keeps is a run without one. So what is tried is whether claims notice, in less than a second a paper.
"""

from __future__ import annotations

import re
from functools import cache

import pyarrow.parquet as pq
import pytest

from emulator.experiments.claims import World, judge, worlds
from emulator.experiments.criteria import Outcome
from emulator.experiments.paper import Options, find_paper
from testdata import RECORDED, TRACES

WHOLE = {"oversubscribe"}
"""Papers of which the whole experiment is recorded, not the quick one."""

STAND_IN = {"balancer"}
"""Papers of which the experiment on made workloads is recorded, not that on the log."""

BROKEN = {
    "balancer": {
        "no reserve is kept": (r"^t1/R\d+W\d+$", "t1/R0W0"),
        "nobody waits for nodes": (r"^t1/R0W5$", "t1/R0W0"),
        "a large static reserve is given to batch jobs": (r"^R\d+/(.*)$", r"basic/\1/10"),
        "how dense the batch load is makes no difference": (r"^basic/U88-M/", "basic/U66-M/"),
        "the predictor expects nothing": (r"^predictive/", "basic/"),
        "a hint is not acted on": (r"^H\d+/", "basic/"),
        "dedicated nodes are used by batch jobs": (r"^t1/static$", "t1/R0W0"),
    },
    "realtime": {
        "the high-priority queue is the baseline": (r"^hpq/", "baseline/"),
        "PRE-REST never preempts": (r"^pre_rest/", "baseline/"),
        "PRE-REST only queues": (r"^pre_rest/", "hpq/"),
        "a checkpoint is lost": (r"^pre_ckpt(_sys|_app)?/", "pre_rest/"),
        "all schemes queue": (r"^pre_\w+/", "hpq/"),
        "no scheme does anything": (r"^(hpq|pre_\w+)/", "baseline/"),
    },
    "oversubscribe": {
        "nobody shares": (r"^unilu/M[24]$", "unilu/M1"),
        "one node too few is kept for interactive jobs": (r"^unilu/R10$", "unilu/R5"),
        "no nodes are kept for interactive jobs": (r"^unilu/R(\d+)$", "unilu/M1"),
        "FCFS for EASY": (r"^unilu/(R[57]|M[24])$", r"unilu-fcfs/\1"),
        "only interactive jobs share": (r"^unilu/M4$", "unilu-low-use/M4"),
        "M is not looked at": (r"^unilu/M4$", "unilu/M8"),
    },
    "hybrid": {
        "nothing is preempted": (r"^(theta|cori)/W\d/.*$", r"\1/baseline"),
        "malleable jobs are not shrunk": (r"\+spaa$", "+paa"),
        "checkpoints are not written as often as asked for": (r"/ck0\.5/", "/ck1/"),
        "nothing fails": (r"^mtbf5/", "mtbf50/"),
        "on-demand jobs wait as without a mechanism": (r"^(theta|cori)/(W\d/[a-z]+\+paa)$", r"\1/baseline"),
        "how flexible a job is is not looked at": (r"^min0\.8/", "theta/W5/"),
    },
    "malleable": {
        "malleable jobs neither shrink nor grow": (r"/malleable-(\d+)$", r"/moldable-\1"),
        "malleable jobs are rigid": (r"/malleable-(\d+)$", "/rigid"),
        "moldable jobs are rigid": (r"/moldable-(\d+)$", "/rigid"),
        "no equipartition: who came first keeps its width": (r"/malleable-(\d+)$", r"/malleable-\1/placed"),
        "malleable jobs keep what they asked for": (r"/malleable-(\d+)$", r"/malleable-\1/requested"),
        "moldable jobs beside malleable ones are rigid": (r"/mixed-25$", "/malleable-50"),
    },
}  # fmt: skip


@cache
def recorded(name: str) -> tuple[World, ...]:
    return worlds(pq.read_table(RECORDED / "claims" / f"{name}.parquet").to_pylist())


def outcomes(name: str, found: tuple[World, ...]) -> dict[str, Outcome]:
    paper = find_paper(name)
    reads = paper.reads_logs and name not in STAND_IN
    options = Options(quick=name not in WHOLE, traces=TRACES if reads else None)
    return {verdict.claim.id: verdict.outcome for verdict in judge(paper.claims(options), found)}


def broken(world: World, pattern: str, other: str) -> World:
    """The world in which every run whose label matches is that of the other label."""
    rows = {label: world.rows.get(re.sub(pattern, other, label)) for label in world.rows}
    return World(world.seed, {label: row for label, row in rows.items() if row is not None})


@pytest.mark.parametrize("name", BROKEN)
def test_at_least_five_breakages_of_each_paper_are_tried(name):
    assert len(BROKEN[name]) >= 5
    assert Outcome.HOLDS in outcomes(name, recorded(name)).values()


@pytest.mark.parametrize(("name", "what"), [(name, what) for name in BROKEN for what in BROKEN[name]])
def test_a_mechanism_that_does_not_do_its_work_loses_claims(name, what):
    pattern, other = BROKEN[name][what]
    before = outcomes(name, recorded(name))
    after = outcomes(name, tuple(broken(world, pattern, other) for world in recorded(name)))
    assert [each for each in before if before[each] is Outcome.HOLDS and after[each] is not Outcome.HOLDS]
