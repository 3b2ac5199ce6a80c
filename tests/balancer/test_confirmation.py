"""What a look means for a command: each cell of the table, and the steps between looks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from balancer.drivers.base import UNKNOWN, NodeStatus
from balancer.service.confirmation import (
    TABLE,
    Aim,
    NodeCommand,
    NodeReading,
    Outcome,
    is_to_be_repeated,
    reading_of,
)

LIMIT_US, POLL_US, MORE_US = 1000, 10, 500
_STATUS = {
    NodeReading.IDLE: NodeStatus("idle"),
    NodeReading.BUSY: NodeStatus("busy"),
    NodeReading.RUNS: NodeStatus("busy", ("9.server",)),
    NodeReading.DRAINED: NodeStatus("offline", marked=True),
    NodeReading.DRAINING: NodeStatus("offline", ("9.server",), marked=True),
    NodeReading.FOREIGN: NodeStatus("offline", marked=True, is_foreign=True),
    NodeReading.DOWN: NodeStatus("down"),
    NodeReading.ASLEEP: NodeStatus("down", is_asleep=True),
    NodeReading.UNKNOWN: UNKNOWN,
}
# What is told within the limit, and after it; `-`: nothing; `>`: nothing, and the aim is now to give it back.
_TOLD = """
                      reclaim                     give back                         restore
idle                  - reclaim_unclear           kept_job kept_job                 restored restored
busy                  - reclaim_unclear           kept_job kept_job                 restored_busy restored_busy
runs a job            - >                         kept_job kept_job                 restored_busy restored_busy
offline               reclaimed reclaimed         - reclaim_unclear                 - restore_unclear
offline, runs a job   - >                         - reclaim_unclear                 - restore_unclear
taken by others       down down                   - reclaim_unclear                 down down
down                  - down                      - reclaim_unclear                 - restore_unclear
asleep                - down                      down down                         down down
unknown               - reclaim_unclear           - reclaim_unclear                 - restore_unclear
"""


def _command(aim=Aim.RECLAIM, **changes):
    return replace(NodeCommand(aim=aim, limit_us=LIMIT_US, event_id="e7"), **changes)


def _look(command, what, at_us):
    status = _STATUS.get(what, what)
    return command.after(status, looked_us=at_us, now_us=at_us, poll_us=POLL_US, limit_us=MORE_US)


def _cells():
    for line in _TOLD.strip("\n").splitlines()[1:]:
        words = line[22:].split()
        for aim, cell in zip(Aim, (words[:2], words[2:4], words[4:]), strict=True):
            for at_us, told in zip((LIMIT_US - 1, LIMIT_US), cell, strict=True):
                yield pytest.param(
                    aim, NodeReading(line[:22].strip()), at_us, told, id=f"{aim}-{line[:22].strip()}-{at_us}"
                )


@pytest.mark.parametrize(("aim", "what", "at_us", "told"), list(_cells()))
def test_each_look_has_its_meaning(aim, what, at_us, told):
    before = _command(aim, agreed_us=at_us - POLL_US)
    after, outcome = _look(before, what, at_us)
    assert outcome == (None if told in "->" else Outcome[told.upper()])
    if told == ">":
        assert after == _command(Aim.GIVE_BACK, limit_us=at_us + MORE_US)
    else:
        agrees = told == "reclaimed"
        assert after == _command(
            aim, agreed_us=before.agreed_us if agrees else None, is_late=told.endswith("unclear")
        )


@pytest.mark.parametrize("aim", list(Aim))
def test_every_cell_that_can_be_found_is_in_the_table(aim):
    assert set(TABLE[aim]) == set(NodeReading)
    assert {reading_of(status) for status in _STATUS.values()} == set(NodeReading)


@pytest.mark.parametrize("state", ["idle", "busy"])
def test_a_node_with_a_job_is_never_found_idle(state):
    assert reading_of(NodeStatus(state, ("9.server",))) is NodeReading.RUNS


@pytest.mark.parametrize("status", [NodeStatus("down"), NodeStatus("unknown"), _STATUS[NodeReading.DRAINING]])
def test_a_mark_of_somebody_else_counts_more_than_the_state(status):
    theirs = replace(status, marked=True, is_foreign=True)
    assert reading_of(theirs) is NodeReading.FOREIGN


def test_two_looks_that_are_a_poll_apart_hand_a_node_over():
    command, outcome = _look(_command(), NodeReading.DRAINED, 100)
    assert (command.agreed_us, outcome) == (100, None)
    command, outcome = _look(command, NodeReading.DRAINED, 100 + POLL_US - 1)
    assert (command.agreed_us, outcome) == (100, None)
    assert _look(command, NodeReading.DRAINED, 100 + POLL_US)[1] is Outcome.RECLAIMED


@pytest.mark.parametrize("other", sorted(set(NodeReading) - {NodeReading.DRAINED}))
def test_a_look_in_between_that_disagrees_starts_the_count_anew(other):
    command, _ = _look(_command(), NodeReading.DRAINED, 100)
    command, _ = _look(command, other, 105)
    assert _look(command, NodeReading.DRAINED, 100 + POLL_US)[1] is None
    assert _command(agreed_us=100).contradicted() == _command()


@pytest.mark.parametrize(
    ("aim", "what"),
    [(Aim.RECLAIM, NodeReading.IDLE), (Aim.GIVE_BACK, NodeReading.DRAINED), (Aim.RESTORE, NodeReading.DOWN)],
)
def test_that_the_outcome_is_unclear_is_told_once_and_the_node_looked_at_on(aim, what):
    late, outcome = _look(_command(aim), what, LIMIT_US)
    assert outcome.is_unclear
    assert _look(late, what, LIMIT_US + 1) == (late, None)
    ends = NodeReading.DRAINED if aim is Aim.RECLAIM else NodeReading.BUSY
    again, _ = _look(late, ends, LIMIT_US + 2)
    assert _look(again, ends, LIMIT_US + 2 + POLL_US)[1] in (
        Outcome.RECLAIMED,
        Outcome.KEPT_JOB,
        Outcome.RESTORED_BUSY,
    )


def test_a_job_that_shows_after_a_long_outage_keeps_its_node():
    after, outcome = _look(_command(is_late=True), NodeReading.DRAINING, 5000)
    assert (after, outcome) == (_command(Aim.GIVE_BACK, limit_us=5000 + MORE_US), None)


@pytest.mark.parametrize(
    ("status", "repeated"),
    [
        (NodeStatus("idle"), [True, False, False]),
        (NodeStatus("down"), [True, False, False]),
        (NodeStatus("offline", marked=True), [False, True, True]),
        (NodeStatus("offline", ("9.server",), marked=True, is_ours=True), [False, True, True]),
        (NodeStatus("offline", marked=True, is_foreign=True), [False, False, False]),
        (NodeStatus("unknown", marked=True), [False, False, False]),
        (UNKNOWN, [False, False, False]),
    ],
)
def test_a_command_is_repeated_where_its_effect_does_not_show(status, repeated):
    assert [is_to_be_repeated(aim, status) for aim in Aim] == repeated
