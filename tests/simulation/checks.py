"""The checkers. They look at the fake systems and at what clients were told, not at the ledger's opinion."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from balancer.clock import US
from simulation.instance import HANGUP_S
from simulation.parts import Stuck, Violation, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from balancer.drivers.base import NodeStatus
    from balancer.ledger.store import Ledger
    from simulation.torque import Host, Job
    from simulation.world import World

_LENT = ("OD_RESERVE", "OD_ALLOC")
_MAY_MARK = {"RECLAIMING", *_LENT}
_ROW_LIMIT = 64_000
_LOOK_US = 400 * US
"""Much longer than a reading may take that began when nothing else was missing: each command may hang."""
_LATE_US = 700 * US
"""Much longer than it takes a Balancer that was down to start when the world heals."""

_LONG_PAUSE_US = 3600 * US
"""Longer than a Balancer is paused between a reading and what it makes of it."""


class Checks:
    """One for a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.states = dict.fromkeys(world.names, "DOWN")
        self.generations = dict.fromkeys(world.names, 0)
        self.since_us = dict.fromkeys(world.names, 0)
        self.reading: Mapping[str, NodeStatus] = {}
        """What the latest reading of all nodes said."""
        self.arrived: dict[str, tuple[int, int, int]] = {}
        self.looked_us: dict[str, int] = {}
        """When the Balancer was last told that the node is offline and empty."""
        self.healed_us = 0
        self.reported: set[str] = set()
        """Lent nodes on which a job was reported, and not seen to be empty since (I21)."""
        self.last_seq = 0
        self.done = 0
        self._connection: sqlite3.Connection | None = None

    # I1, I2: in the fake systems

    def vm_starts(self, node: str, client: str) -> None:
        host, holder = self.world.torque.hosts[node], self.world.vms.get(node)
        if holder is not None:
            raise Violation("I1", f"{node} was given to {client} and belongs to {holder}", node)
        if not host.marked and not host.mark_lost:
            raise Violation("I1", f"{node} was given to {client} while batch could start jobs on it", node)
        self._no_job(host, f"was given to {client}")

    def job_starts(self, host: Host, job: Job) -> None:
        if host.name in self.world.vms and not host.mark_lost:
            raise Violation("I1", f"{job.job_id} starts on {host.name}, which on-demand has", host.name)

    def clears(self, host: Host) -> None:
        if host.name in self.world.vms:
            raise Violation("I1", f"the mark of {host.name} is taken off while on-demand has it", host.name)
        if host.by_hand and not self.world.torque.lied:  # the look before it may have been a lie
            raise Violation("I8", f"{host.name}, taken offline by a person, was put online", host.name)

    def marks(self, host: Host) -> None:
        if host.by_hand and self.states[host.name] not in _MAY_MARK:
            raise Violation("I8", f"{host.name}, taken offline by a person, was marked again", host.name)

    def looked(self, found: Mapping[str, NodeStatus], *, at_all: bool) -> None:
        """What the Balancer was told of these nodes."""
        for name, status in found.items():
            if status.is_handed_over and not status.is_foreign:
                self.looked_us[name] = self.world.time.now_us
                if at_all:
                    self.reported.discard(name)

    def lent_or_on_their_way(self, nodes: Sequence[str]) -> set[str]:
        return {node for node in nodes if self.states[node] in _MAY_MARK}

    def job_refused(self, lent: set[str]) -> None:
        """A hook was told that its job may not run, because these nodes were lent, or on their way, by then."""
        self.reported |= {node for node in lent if self.states[node] in _MAY_MARK}

    def _granted(self, name: str) -> None:
        """I21: nobody is given a node that something speaks against, or that nobody has looked at lately."""
        now_us, host = self.world.time.now_us, self.world.torque.hosts[name]
        if name in self.reported:
            raise Violation("I21", f"{name} is granted although a job was reported there", name)
        if now_us - self.looked_us.get(name, 0) > _LOOK_US:
            raise Violation("I21", f"{name} is granted and was not looked at for long", name)
        if host.by_hand and now_us - host.by_hand_us > _LOOK_US:
            raise Violation("I21", f"{name} is granted although a person took it offline", name)

    def _no_job(self, host: Host, what: str) -> None:
        jobs = [job for job in host.jobs if not self.world.torque.jobs[job].excused]
        if jobs:
            raise Violation("I2", f"{host.name} {what} while it runs {jobs[0]}", host.name)

    def reconciled(self) -> None:
        """A reading was compared with the ledger: a reserved node whose job it showed has no excuse any more."""
        for host in self.world.torque.hosts.values():
            status = self.reading.get(host.name)
            is_told = (
                status is not None and status.state == "offline" and self.states[host.name] == "OD_RESERVE"
            )
            for job in host.jobs if is_told else ():
                if shown(job) in status.jobs:
                    self.world.torque.jobs[job].excused = False

    # I12: one writer

    def leads(self, ledger: Ledger) -> None:
        if len(self.world.instances) == 1:  # nobody else could have raised the epoch
            return
        ((epoch,),) = self._rows("SELECT epoch FROM writer")
        if ledger.lease.epoch != epoch:
            raise Violation(
                "I12", f"a Balancer of epoch {ledger.lease.epoch} gives a command in epoch {epoch}"
            )

    # I5: intent before effect

    def commanded(self, option: str, nodes: Sequence[str]) -> None:
        stored = self._stored_states()
        for node in nodes:
            state = stored.get(node)
            if option == "-o" and state not in _MAY_MARK:
                raise Violation("I5", f"pbsnodes -o {node} without an intent: the ledger says {state}", node)
            if option == "-c" and state in _LENT:
                raise Violation("I5", f"pbsnodes -c {node} without an intent: the ledger says {state}", node)

    def _stored_states(self) -> dict[str, str]:
        return dict(self._rows("SELECT name, state FROM nodes"))

    def _rows(self, query: str, *values: Any) -> list[Any]:
        if self._connection is None:
            self._connection = sqlite3.connect(self.world.db, isolation_level=None)
        return self._connection.execute(query, values).fetchall()

    def close(self) -> None:
        """Before anything is done to the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # I7, I8, I9, I13, I14: what was committed

    def committed(self, entries: Sequence[Any]) -> None:
        for entry in entries:
            event, changes = entry.event, entry.changes
            self.world.trace(f"event {event.seq} {event.kind} {event.body}")
            if event.seq != self.last_seq + 1:
                raise Violation("I9", f"event {event.seq} comes after {self.last_seq}")
            self.last_seq = event.seq
            if len(event.body) > _ROW_LIMIT:
                raise Violation("I14", f"event {event.seq} has {len(event.body)} bytes")
            for record in changes.nodes:
                self._changed(event, record)
            for request in changes.requests:
                self._request(request)

    def _changed(self, event: Any, record: Any) -> None:
        name, before = record.name, self.states[record.name]
        if event.kind != "started" and record.generation != self.generations[name] + 1:
            was = self.generations[name]
            raise Violation("I7", f"{name} went from generation {was} to {record.generation}", name)
        self.generations[name], self.states[name] = record.generation, record.state.value
        if before != record.state.value:
            self.since_us[name] = self.world.time.now_us
            self.world.entered(record.state.value)
        host = self.world.torque.hosts[name]
        if record.state.value not in _MAY_MARK:
            self.reported.discard(name)
        if record.state.value == "OD_ALLOC" and before != "OD_ALLOC":
            self._granted(name)
        if event.kind == "nodes_failed" and (
            record.down_since_us is not None or record.state.value == "DOWN"
        ):
            self._failed(name, record.state.value)
        if before == "OD_ALLOC" and record.state.value != "OD_ALLOC" and name in self.world.vms:
            raise Violation("I19", f"{name} is taken away while {self.world.vms[name]}'s server runs", name)
        if before == "DOWN" and record.state.value == "OA_IDLE":
            self.world.cloud.seen_idle(name)
        if before == "RECLAIMING" and record.state.value in _LENT:
            if not host.marked and not host.mark_lost:
                raise Violation("I8", f"{name} counts as handed over and batch can start jobs on it", name)
            self._no_job(host, "counts as handed over")

    def _failed(self, name: str, state: str) -> None:
        """A granted node has failed: it was out lately. One that is replaced has lost its server with its host."""
        host, now_us = self.world.torque.hosts[name], self.world.time.now_us
        is_well = (
            not host.down and host.listed and (host.back_us < 0 or now_us - host.back_us > _LONG_PAUSE_US)
        )
        if is_well:
            raise Violation("I8", f"{name} is said to have failed, and nothing is wrong with it", name)
        if state != "DOWN":
            return
        client = self.world.clients.get(self.world.vms.get(name, ""))
        if client is None or client.replaces:
            self.world.vms.pop(name, None)

    def _request(self, record: Any) -> None:
        world = self.world
        if record.status == "waiting":
            wait_us = record.deadline_us - record.arrived_us
            self.arrived[record.request_id] = (world.time.now_us, wait_us, world.starts)
        elif record.request_id in self.arrived:
            at_us, wait_us, starts = self.arrived.pop(record.request_id)
            if record.status == "granted":
                self._request_granted(record)
            is_early = world.time.now_us < at_us + wait_us - US
            if record.status == "rejected" and is_early and not record.at_once and starts == world.starts:
                waited_s, wait_s = (world.time.now_us - at_us) // US, wait_us // US
                raise Violation("I13", f"{record.request_id} expired after {waited_s} of {wait_s} s")

    def _request_granted(self, record: Any) -> None:
        world = self.world
        if record.decided_us > record.deadline_us:
            late_s = (record.decided_us - record.deadline_us) / US
            raise Violation("I20", f"{record.request_id} is granted {late_s:g} s after its deadline")
        if not record.owner or record.due_us is None:
            raise Violation(
                "I19", f"{record.request_id} is granted to {record.owner!r} until {record.due_us}"
            )
        client = world.clients.get(record.owner)
        if (
            record.replaces
            or client is None
            or client.hung_up_us is None
            or client.hung_up_starts != world.starts
        ):
            return
        has_had_time = world.time.now_us - client.hung_up_us > (HANGUP_S + 120) * US
        if has_had_time and not (world.rates.pause or world.rates.storage or world.rates.storage_unclear):
            raise Violation("I19", f"{record.request_id} is granted to {record.owner}, who hung up long ago")

    # After every step

    def step(self) -> None:
        self.done += 1
        if len(self.states) != len(self.world.names):
            raise Violation("I3", "nodes came or went")
        for request_id, (at_us, wait_us, _) in () if self.world.is_faulty else self.arrived.items():
            if self.world.time.now_us > max(at_us + wait_us, self.healed_us) + _LATE_US:
                raise Stuck("I20", f"{request_id} still waits, long after its deadline")
        engine = self.world.engine
        if engine is not None and engine._commander.pending > 4 * len(self.world.names):
            raise Violation("I14", f"{engine._commander.pending} commands wait")

    # At a restart, and at the end

    def history(self) -> None:
        """The log has no hole, and the state equals its replay (I9); what was acknowledged is there (I4)."""
        states = dict.fromkeys(self.world.names, "DOWN")
        rows = self._rows("SELECT seq, body FROM events ORDER BY seq")
        if [seq for seq, _ in rows] != list(range(1, len(rows) + 1)):
            raise Violation("I9", "the log has a hole")
        for _, body in rows:
            for node, before, after in json.loads(body).get("moved", ()):
                if states[node] != before:
                    raise Violation("I9", f"{node} leaves {before} and was {states[node]}", node)
                states[node] = after
        stored = self._stored_states()
        if stored and states != stored:
            node = next(name for name in states if states[name] != stored.get(name))
            raise Violation("I9", f"{node} is {stored.get(node)}, its history says {states[node]}", node)
        counted = sum(1 for state in stored.values() if state)
        if stored and counted != len(self.world.names):
            raise Violation("I3", f"{counted} of {len(self.world.names)} nodes are in the ledger")
        self._acknowledged()

    def _acknowledged(self) -> None:
        requests = {row[0]: row[1:] for row in self._rows("SELECT request_id, status, nodes FROM requests")}
        answers = {row[0] for row in self._rows("SELECT key FROM answers")}
        for client in self.world.clients.values():
            if client.request_id is not None and client.request_id not in requests:
                raise Violation("I4", f"{client.request_id} was acknowledged and is gone")
            if client.nodes and requests[client.request_id][0] != "granted":
                raise Violation(
                    "I4", f"{client.request_id} was granted and is {requests[client.request_id][0]}"
                )
            if client.released and f"{client.name}-release" not in answers:
                raise Violation("I4", f"the release of {client.request_id} was acknowledged and is gone")
        asked = sum("." not in request_id for request_id in requests)  # others are replacements
        if asked > len(self.world.clients):
            raise Violation("I6", f"{asked} requests were made of {len(self.world.clients)}")

    def moves_ended(self, healed_us: int) -> None:
        """No move that was under way when the world healed still is (I10)."""
        for node, state in self._stored_states().items():
            if state in ("RECLAIMING", "RESTORING") and self.since_us[node] < healed_us:
                raise Stuck("I10", f"{node} is still {state}", node)

    def healed(self) -> None:
        """Everything that was begun has ended (I10), and ledger and systems agree."""
        engine, torque = self.world.engine, self.world.torque
        if engine is None:
            raise Stuck("I10", "the Balancer does not start")
        for node, state in self._stored_states().items():
            problem = self._problem(torque.hosts[node], state)
            if problem:
                raise Stuck("I10", f"{node} {problem}", node)
        waiting = self._rows("SELECT request_id FROM requests WHERE status = 'waiting'")
        if waiting:
            raise Stuck("I10", f"{waiting[0][0]} still waits")
        unfinished = [client.name for client in self.world.clients.values() if not client.is_over]
        if unfinished:
            raise Stuck("I10", f"{unfinished[0]} has no end")
        for job in torque.jobs.values():
            if job.state != "C":
                raise Stuck("I3", f"{job.job_id} is {job.state}", job.nodes[0] if job.nodes else "")
        if len(torque.jobs) != torque.finished + torque.cancelled:
            raise Violation("I3", "jobs were lost")

    def _problem(self, host: Host, state: str) -> str:
        """What is wrong with a node that has had time to settle."""
        engine = self.world.engine
        by_others = engine.taken_offline_by_others if engine is not None else ()
        table = {
            "is still on its way": state in ("RECLAIMING", "RESTORING"),
            f"is {state} and batch can use it": state in _LENT and not host.marked,
            f"is {state} and offline in batch": state in ("OA_IDLE", "OA_BUSY") and host.marked,
            "is down, and nothing is wrong with it": state == "DOWN" and not host.by_hand,
            "is granted and nobody has it": state == "OD_ALLOC" and host.name not in self.world.vms,
            "is idle and runs a job": state == "OA_IDLE" and bool(host.jobs),
            f"was taken offline by a person and is {state}": host.by_hand
            and state not in _LENT
            and host.name not in by_others,
        }
        return next((problem for problem, is_so in table.items() if is_so), "")

    def fixed_point(self) -> None:
        engine = self.world.engine
        if engine is None:
            raise Stuck("I11", "the Balancer is gone")
        before = self.last_seq, self.world.torque.commands
        engine.reconcile()
        engine.step()
        if (self.last_seq, self.world.torque.commands) != before:
            raise Stuck("I11", "a reconcile of what agrees changed something")
