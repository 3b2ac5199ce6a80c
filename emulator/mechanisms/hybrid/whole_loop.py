"""The loop, compiled: the cluster's instants and the mechanism's decision points in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.kernel.compiled import compiled, inner
from emulator.kernel.tables import NEVER, Stop
from emulator.machine.points import Point
from emulator.mechanisms.agenda import job_of, point_of, pop, sooner_of
from emulator.mechanisms.hybrid.actions import arrives
from emulator.mechanisms.hybrid.events import on_arrival, on_checkpoint, on_completion, on_notice
from emulator.mechanisms.hybrid.holds import go_on
from emulator.mechanisms.hybrid.timers import on_timer
from emulator.mechanisms.move_log import has_room_for

if TYPE_CHECKING:
    from emulator.kernel.tables import State
    from emulator.machine.work import Work
    from emulator.mechanisms.hybrid.claims import Claims
    from emulator.mechanisms.hybrid.state import HybridState

ORDER_RAISED, STRATEGY_RAISED, AT_INSTANT = 100, 101, 102
"""Why `run` came back, beside what `kernel.advance` says; AT_INSTANT: at its time `until_us`."""
MOVES_AN_EVENT, TIMES_AN_EVENT = 3, 4


@inner
def has_room(state: State, claims: Claims, hybrid: HybridState) -> bool:
    """Whether all tables have rows for one event, which acts on each running job once and starts one on demand."""
    node, runs, log, registers = state.node, state.runs, state.log, state.registers
    hybrid_registers = hybrid.registers
    nodes = node.shape[0]
    return bool(
        runs.shape[0] - registers.runs_n > 2 * nodes
        and log.shape[0] - registers.log_n > 2 * nodes
        and claims.claim.shape[0] > claims.counters.claims_n
        and hybrid.agenda.heap.shape[0] - hybrid.agenda.size.entries > nodes + 2
        and hybrid.timers.heap.shape[0] - hybrid.timers.size.entries > nodes + 2
        and hybrid_registers.loans_left > nodes
        and hybrid.rows.shape[0] - hybrid_registers.rows_n > 2 * nodes
        and hybrid.times.shape[0] - hybrid_registers.times_n > TIMES_AN_EVENT
        and has_room_for(hybrid.moves, MOVES_AN_EVENT, nodes)
    )


@inner
def is_stale(hybrid: HybridState, at: int, key: int) -> bool:
    """Whether a point of the agenda was put off or called off."""
    job_ext, hybrid_registers = hybrid.job_ext, hybrid.registers
    if point_of(key) == Point.TIMER:
        return bool(at != hybrid_registers.wake_us)
    return bool(job_ext[job_of(key)].when_us != at)


@inner
def next_point(hybrid: HybridState) -> tuple[int, int]:
    """Time and key of the next decision point; NEVER if there is none."""
    agenda = hybrid.agenda
    while agenda.size.entries and is_stale(hybrid, agenda.heap[0].at_us, agenda.heap[0].key):
        pop(agenda)
    at = NEVER
    key = NEVER
    if agenda.size.entries:
        at = agenda.heap[0].at_us
        key = agenda.heap[0].key
    return sooner_of(hybrid.points, hybrid.registers.next_point, at, key)


@inner
def handle(state: State, work: Work, claims: Claims, hybrid: HybridState, key: int, now: int) -> None:
    """The next decision point, which is due."""
    hybrid_registers = hybrid.registers
    point = point_of(key)
    row = job_of(key)
    if point in (Point.ARRIVAL, Point.NOTICE):
        hybrid_registers.next_point += 1
    else:
        pop(hybrid.agenda)
    if point == Point.ARRIVAL:
        arrives(hybrid, row, 1)
    elif point == Point.NOTICE:
        on_notice(state, work, claims, hybrid, row, now)
    elif point == Point.COMPLETION:
        on_completion(state, work, claims, hybrid, row, now)
    elif point == Point.CHECKPOINT:
        on_checkpoint(state, work, claims, hybrid, row, now)
    else:
        hybrid_registers.wake_us = NEVER
        hybrid_registers.at_timer = 1


@compiled
def run(state: State, work: Work, claims: Claims, hybrid: HybridState) -> int:
    """Go on to the end (AT_UNTIL), to a time, to a pause, or until a table has to grow (NEEDS_ROOM)."""
    registers, hybrid_registers = state.registers, hybrid.registers
    while True:
        if hybrid.query.failed:
            return STRATEGY_RAISED
        if not has_room(state, claims, hybrid):
            return Stop.NEEDS_ROOM
        if hybrid_registers.arriving < 0 and hybrid_registers.at_timer == 0:
            # Stands first, so that another processor begins with `go_on` at once.
            at, key = next_point(hybrid)
            if hybrid_registers.at_point == 0:
                until = min(at, hybrid_registers.until_us)
                code = go_on(state, work, claims, until, 0)
                if code != Stop.AT_UNTIL or until == NEVER:
                    found: int = code
                    return found
                hybrid_registers.at_point = 1
            elif at != registers.now:
                hybrid_registers.at_point = 0
                go_on(state, work, claims, registers.now, 1)
                if registers.now == hybrid_registers.until_us and registers.order_failed == 0:
                    return AT_INSTANT
            else:
                handle(state, work, claims, hybrid, key, at)
                continue
            if registers.order_failed:
                return ORDER_RAISED
        elif hybrid_registers.arriving >= 0:
            on_arrival(state, work, claims, hybrid, registers.now)
        else:
            on_timer(state, work, claims, hybrid, registers.now)
