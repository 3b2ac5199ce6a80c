"""The loop of a whole run, compiled: the cluster's instants and the mechanism's decision points in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import emulator.mechanisms.hybrid.compiled_actions as d
from emulator.harness.compiled import compiled, inner
from emulator.harness.structures import heap_pop
from emulator.harness.tables import (
    AT_UNTIL,
    HEAP_N,
    LOG_N,
    NEEDS_ROOM,
    NEVER,
    NOW,
    ORDER_FAILED,
    RUNS_N,
)
from emulator.mechanisms.hybrid.claims import CLAIMS_N
from emulator.mechanisms.hybrid.events import on_arrival, on_checkpoint, on_completion, on_notice
from emulator.mechanisms.hybrid.reserved import go_on
from emulator.mechanisms.hybrid.timers import on_timer

if TYPE_CHECKING:
    from emulator.harness.tables import State
    from emulator.harness.work import Work
    from emulator.mechanisms.hybrid.claims import Claims
    from emulator.mechanisms.hybrid.compiled_actions import More

ORDER_RAISED = 100
"""Why `run` came back, beside what `kernel.advance` says."""
MOVES_AN_EVENT, TIMES_AN_EVENT = 3, 4


@inner
def has_room(state: State, claims: Claims, more: More) -> bool:
    """Whether all tables have rows for one event, which acts on each running job once and starts one on demand."""
    node, runs, log, reg = state[1], state[7], state[8], state[11]
    mine = more[11]
    nodes = node.shape[0]
    return bool(
        runs.shape[0] - reg[RUNS_N] > 2 * nodes
        and log.shape[0] - reg[LOG_N] > 2 * nodes
        and claims[0].shape[0] > claims[5][CLAIMS_N]
        and more[2].shape[0] - mine[HEAP_N] > nodes + 2
        and more[3].shape[0] - more[4][HEAP_N] > nodes + 2
        and mine[d.LOANS_LEFT] > nodes
        and more[6].shape[0] - mine[d.MOVES_N] > MOVES_AN_EVENT
        and more[7].shape[0] - mine[d.ROWS_N] > 2 * nodes
        and more[8].shape[0] - mine[d.TIMES_N] > TIMES_AN_EVENT
        and more[14].shape[0] - mine[d.APART_N] > nodes
    )


@inner
def is_stale(more: More, at: int, key: int) -> bool:
    """Whether a point of the agenda was put off or called off."""
    own, mine = more[0], more[11]
    if key >> d.POINT_SHIFT == d.BY_TIMER:
        return bool(at != mine[d.WAKE])
    return bool(own[(key & ((1 << d.POINT_SHIFT) - 1)) - 1].when_us != at)


@inner
def next_point(more: More) -> tuple[int, int]:
    """Time and key of the next decision point; NEVER if there is none."""
    points, agenda, mine = more[1], more[2], more[11]
    while mine[HEAP_N] and is_stale(more, agenda[0].at_us, agenda[0].key):
        heap_pop(agenda, mine)
    at = NEVER
    key = NEVER
    if mine[HEAP_N]:
        at = agenda[0].at_us
        key = agenda[0].key
    if mine[d.NEXT_POINT] < points.shape[0]:
        one = points[mine[d.NEXT_POINT]]
        if one.at_us < at or (one.at_us == at and one.key < key):
            return one.at_us, one.key
    return at, key


@inner
def handle(state: State, work: Work, claims: Claims, more: More, key: int, now: int) -> None:  # noqa: PLR0917
    """The next decision point, which is due."""
    mine = more[11]
    point = key >> d.POINT_SHIFT
    who = (key & ((1 << d.POINT_SHIFT) - 1)) - 1
    if point in (d.BY_ARRIVAL, d.BY_NOTICE):
        mine[d.NEXT_POINT] += 1
    else:
        heap_pop(more[2], mine)
    if point == d.BY_ARRIVAL:
        d.arrives(more, who, 1)
    elif point == d.BY_NOTICE:
        on_notice(state, work, claims, more, who, now)
    elif point == d.BY_COMPLETION:
        on_completion(state, work, claims, more, who, now)
    elif point == d.BY_CHECKPOINT:
        on_checkpoint(state, work, claims, more, who, now)
    else:
        mine[d.WAKE] = NEVER
        mine[d.AT_TIMER] = 1


@compiled
def run(state: State, work: Work, claims: Claims, more: More) -> int:
    """Go on to the end (AT_UNTIL), to a pause, or until a table has to grow (NEEDS_ROOM)."""
    reg, mine = state[11], more[11]
    while True:
        if not has_room(state, claims, more):
            return NEEDS_ROOM
        if mine[d.ARRIVING] < 0 and mine[d.AT_TIMER] == 0:
            # Stands first, so that another processor begins with `go_on` at once.
            at, key = next_point(more)
            if mine[d.AT_POINT] == 0:
                code = go_on(state, work, claims, at, 0)
                if code != AT_UNTIL or at == NEVER:
                    return int(code)
                mine[d.AT_POINT] = 1
            elif at != reg[NOW]:
                mine[d.AT_POINT] = 0
                go_on(state, work, claims, reg[NOW], 1)
            else:
                handle(state, work, claims, more, key, at)
                continue
            if reg[ORDER_FAILED]:
                return ORDER_RAISED
        elif mine[d.ARRIVING] >= 0:
            on_arrival(state, work, claims, more, reg[NOW])
        else:
            on_timer(state, work, claims, more, reg[NOW])
