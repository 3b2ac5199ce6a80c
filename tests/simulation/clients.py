"""Those who talk to the Balancer: on-demand clients and the hooks of batch jobs, over an edge that fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from balancer.clock import US, micros
from balancer.drivers.base import DriverError
from balancer.hooks import client as hook_client
from balancer.hooks import torque as shipped
from balancer.ledger.errors import LedgerError
from balancer.lifecycle.errors import BadPlan, Refused
from balancer.service.calls import Caller
from balancer.service.decision import Key
from balancer.service.idempotency import KeyReusedError
from balancer.service.writer import StoppingError
from simulation.parts import Lost, Violation, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from balancer.lifecycle.records import RequestRecord
    from balancer.service.engine import Engine
    from simulation.torque import Job
    from simulation.world import World

_RETRY_US = 20 * US
_LONGEST_RETRY_US = 300 * US
_LATE_US = 3 * 3600 * US
_NO_ANSWER = (LedgerError, StoppingError, DriverError, BadPlan)
"""5xx: the caller knows nothing and asks again with the same key."""


class Client:
    """One on-demand user: asks, confirms, uses the nodes, renews, gives them back, and repeats what is not answered.

    It may die between any two messages, hang up while it waits and come back late, or reach for what is others'.
    """

    def __init__(self, world: World, name: str, count: int, wait_us: int, use_us: int) -> None:
        self.world, self.name, self.count = world, name, count
        self.wait_us, self.use_us = wait_us, use_us
        self.who = Caller(name)
        self.replaces = sum(name.encode()) % 3 == 0
        """Has nodes that fail replaced; it never hears of the others, which go back unconfirmed."""
        self.request_id: str | None = None
        self.nodes: tuple[str, ...] = ()
        self.released = False
        self.is_over = False
        self.hung_up_us: int | None = None
        """Since when the Balancer knows that nobody waits here."""
        self.hung_up_starts = 0
        self._patience_us = _RETRY_US // 2

    def _pause_us(self) -> int:
        """Longer each time, as clients do."""
        self._patience_us = min(2 * self._patience_us, _LONGEST_RETRY_US)
        return self._patience_us

    def ask(self) -> None:
        if self.is_over or self.request_id is not None:
            return
        try:
            record = self._send(self._ask_once)
        except Lost:
            self.world.later(self._pause_us(), self.ask)
            return
        self.request_id = record
        self.world.trace(f"{self.name} asked for {self.count} nodes: {record}")
        self._copy_may_come_later(self._ask_once, record)
        self._look()

    def _ask_once(self, engine: Engine) -> str:
        key = Key(f"{self.name}-request", f"request {self.count}")
        with engine.idempotent(key) as stored:
            if stored is not None and stored.request_id is not None:
                return stored.request_id
            record = engine.submit_request(
                self.count, self.wait_us, caller=self.who, key=key, replace=self.replaces
            )
            return record.request_id

    def _look(self) -> None:
        if self.is_over:
            return
        try:
            record = self._send(self._look_once)
        except Lost:
            self.world.later(self._pause_us(), self._look)
            return
        if record is None:
            raise Violation("I4", f"{self.request_id} was acknowledged and is not known")
        if record.status == "waiting":
            if self.world.rng.random() < 0.01:
                self._withdraw()
            away_us = self._pause_us()
            if self.world.chance("client_hangs_up"):
                away_us = self._hang_up()
            self.world.later(away_us, self._look)
        elif record.status == "granted":
            self._begin(record.nodes)
        else:
            self.is_over = True

    def _look_once(self, engine: Engine) -> RequestRecord | None:
        engine.calls(self.request_id or "")
        self.hung_up_us = None  # it has come back, also when it never sees the answer (seed 602876)
        return engine.ledger.request(self.request_id or "")

    def _hang_up(self) -> int:
        """The connection ends; how long it takes to come back, if it does."""
        try:
            self._send(lambda engine: engine._callers.hung_up(self.request_id or ""))
        except Lost:
            return self._pause_us()
        self.world.trace(f"{self.name} hangs up")
        self.hung_up_us, self.hung_up_starts = self.world.time.now_us, self.world.starts
        return self.world.rng.choice((5, 60, 600, 3600)) * US

    def _withdraw(self) -> None:
        try:
            self._send(lambda engine: engine.withdraw_request(self.request_id or "", caller=self.who))
        except Lost:
            return

    def _begin(self, nodes: tuple[str, ...]) -> None:
        """The answer is here: have the nodes kept, then use them at once."""
        if self.is_over:
            return
        if len(nodes) != self.count:
            raise Violation("I6", f"{self.name} wanted {self.count} nodes and was given {len(nodes)}")
        try:
            is_kept = self._send(self._renew_once)
        except Lost:
            self.world.later(self._pause_us(), lambda: self._begin(nodes))
            return
        if is_kept:
            self._use(nodes)
        else:
            self.world.trace(f"{self.name} came too late for {self.request_id}")
            self.is_over = True

    def _renew_once(self, engine: Engine) -> bool:
        """Whether the grant is still there; it lasts from now on (which also confirms it)."""
        request_id = self.request_id or ""
        try:
            record = engine.confirm_request(request_id, caller=self.who)
            record = engine.renew_lease(request_id, caller=self.who)
        except Refused as error:
            if error.code != Refused.NOT_GRANTED:
                raise Violation("I22", f"{self.name} may not renew its own grant: {error}") from error
            return False
        return record is not None

    def _use(self, nodes: tuple[str, ...]) -> None:
        self.nodes = nodes
        self._patience_us = _RETRY_US // 2
        self.world.trace(f"{self.name} uses {' '.join(nodes)}")
        for node in nodes:
            self.world.checks.vm_starts(node, self.name)
        self.world.vms.update(dict.fromkeys(nodes, self.name))
        self.world.later(0 if self.world.is_over else self.use_us, self._leave)
        self._renew_later()

    @property
    def has_servers(self) -> bool:
        return any(self.world.vms.get(node) == self.name for node in self.nodes)

    def _renew_later(self) -> None:
        self.world.later((self.world.settings.lease_us or 0) // 3, self._renew)

    def _renew(self) -> None:
        if self.is_over or not self.has_servers:
            return
        try:
            is_kept = self._send(self._renew_once)
        except Lost:
            self.world.later(self._pause_us(), self._renew)
            return
        if not is_kept:
            raise Violation("I19", f"{self.name} lost its nodes while its servers ran", self.nodes[0])
        self._trespass()
        self._renew_later()

    def _leave(self) -> None:
        if self.is_over or not (self.has_servers or self.replaces):
            return
        self._stop_servers()
        self._release()

    def _stop_servers(self) -> None:
        for node in self.nodes:
            if self.world.vms.get(node) == self.name:
                del self.world.vms[node]

    def stop_using(self) -> None:
        """The world heals: whoever has nodes gives them back soon; what the dead have left is cleared away."""
        if self.nodes and self.is_over:
            self._stop_servers()
        elif self.nodes:
            self._leave()

    def _die(self) -> None:
        """Never heard of again. Servers go on until somebody finds them."""
        self.world.trace(f"{self.name} dies")
        self.is_over = True
        self.world.later(self.world.rng.randrange(60, 7200) * US, self._stop_servers)

    def _release(self) -> None:
        if self.is_over:
            return
        try:
            answer = self._send(self._release_once)
        except Lost:
            self.world.later(self._pause_us(), self._release)
            return
        if answer == "refused":
            raise Violation("I6", f"the release of {self.request_id} was refused", self.nodes[0])
        self.is_over = True
        self.released = answer == "released"
        self.world.trace(f"{self.name} {answer} {' '.join(self.nodes)}")
        if self.released:
            self._copy_may_come_later(self._release_once, answer)

    def _release_once(self, engine: Engine) -> str:
        key = Key(f"{self.name}-release", "release", answer="released")
        with engine.idempotent(key) as stored:
            if stored is not None:
                return stored.body or ""
            record = engine.ledger.request(self.request_id or "")
            lost = {each.node for each in record.lost} if record is not None else set()
            left = tuple(node for node in self.nodes if node not in lost)
            if not left:
                return "came too late to release"
            try:
                engine.release_nodes(left, caller=self.who, key=key)
            except Refused:
                record = engine.ledger.request(self.request_id or "")
                is_past = record is not None and (record.ended_us is not None or record.overdue)
                return "came too late to release" if is_past else "refused"
            return "released"

    def _trespass(self) -> None:
        """I22: what is others' stays theirs."""
        world = self.world
        others = [
            each
            for each in world.clients.values()
            if each is not self and each.nodes and world.vms.get(each.nodes[0]) == each.name
        ]
        if not others or not world.chance("client_trespasses"):
            return
        other = world.rng.choice(others)
        request_id = other.request_id or ""

        def attempt(engine: Engine) -> str:
            for call in (
                lambda: engine.release_nodes(other.nodes, caller=self.who),
                lambda: engine.confirm_request(request_id, caller=self.who),
                lambda: engine.renew_lease(request_id, 0, caller=self.who),
            ):
                try:
                    call()
                except Refused:
                    continue
                raise Violation("I22", f"{self.name} disposes of {other.name}'s {request_id}", other.nodes[0])
            return "refused"

        try:
            self._send(attempt)
        except Lost:
            return

    def _copy_may_come_later(self, call: Callable[[Engine], str], first: str) -> None:
        """A duplicate of a call that was answered, at once or hours later: the same answer, no effect."""
        world = self.world
        if not world.chance("client_twice"):
            return

        def again() -> None:
            try:
                answer = self._send(call)
            except (Lost, KeyReusedError):
                return
            if answer != first:
                raise Violation("I6", f"a repeated call of {self.name} was answered {answer}, not {first}")

        world.later(world.rng.randrange(_LATE_US) if world.chance("client_late") else US, again)

    def _send(self, call: Callable[[Engine], Any]) -> Any:
        world = self.world
        if not self.is_over and world.chance("client_dies"):
            self._die()
            raise Lost
        if world.is_cut("client", "there") or world.chance("client_lost"):
            raise Lost
        try:
            answer = world.call(call)
        except _NO_ANSWER as error:
            world.trace(f"{self.name}: {type(error).__name__}")
            raise Lost from error
        if not self.is_over and world.chance("client_dies"):
            self._die()
            raise Lost
        if world.is_cut("client", "back") or world.chance("client_lost"):
            raise Lost
        return answer


class _Marker:
    """The marker file of a node: nobody writes it in these worlds."""

    def exists(self) -> bool:
        return False


class Hooks:
    """The shipped prologue and epilogue; what they post goes to the Balancer over an edge that fails."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.settings = hook_client.HookSettings(marker=_Marker())  # type: ignore[arg-type]
        self.refused = 0
        self.statuses: dict[int, int] = {}

    def prologue(self, job: Job) -> int:
        status = shipped.prologue(self.settings, job.nodes, shown(job.job_id), job.run_us / US)
        self.statuses[status] = self.statuses.get(status, 0) + 1
        return status

    def epilogue(self, job: Job) -> None:
        if shipped.epilogue(self.settings, job.nodes, shown(job.job_id)) == 1:
            raise Violation("I18", f"the epilogue of {job.job_id} ended with status 1", job.nodes[0])

    def post(self, _: Any, body: bytes, *more: Any) -> hook_client.Answer:
        """Stands in for the hook's HTTP call."""
        world = self.world
        if world.chance("hook_twice"):
            late_us = world.rng.randrange(_LATE_US) if world.chance("hook_late") else US
            world.later(late_us, lambda: self._deliver_quietly(body))
        if world.is_cut("hook", "there") or world.chance("hook_lost"):
            world.trace("a hook's call is lost")
            raise OSError("no route")
        try:
            answer = self._deliver(body)
        except Lost as error:
            raise OSError("no answer") from error
        if world.is_cut("hook", "back") or world.chance("hook_lost"):
            raise OSError("no answer")
        return answer

    def forge(self) -> None:
        """Somebody posts nonsense: wrong nodes, unknown or old jobs."""
        rng = self.world.rng
        nodes = rng.sample(self.world.names, rng.randint(1, 3))
        job = shown(rng.choice([*list(self.world.torque.jobs)[-20:], "9999.server"]))
        body = {"states": dict.fromkeys(nodes, rng.choice(("busy", "idle"))), "job": job}
        self.world.trace(f"forged hook: {body}")
        self._deliver_quietly(json.dumps(body).encode())

    def _deliver_quietly(self, body: bytes) -> None:
        if not self.world.is_faulty:
            return  # once the faults stop, copies that are under way are gone
        try:
            self._deliver(body)
        except Lost:
            return

    def _deliver(self, body: bytes) -> hook_client.Answer:
        """What the API makes of it: 200, 409 or 503."""
        said = json.loads(body)
        by_state: dict[str, tuple[str, ...]] = {
            state: tuple(node for node, its in said["states"].items() if its == state)
            for state in ("busy", "idle")
        }
        left_us = micros(said["remaining_s"]) if "remaining_s" in said else None
        lent = self.world.checks.lent_or_on_their_way(by_state["busy"])
        try:
            self.world.call(
                lambda engine: engine.update_nodes(**by_state, job=said["job"], remaining_us=left_us)
            )
        except Refused as error:
            self.refused += 1
            if error.code == Refused.NODE_NOT_IN_BATCH:
                self.world.checks.job_refused(lent)
            is_ours = error.code == Refused.NODE_NOT_IN_BATCH
            return hook_client.Answer(
                409, "balancer.node_not_in_batch_pool" if is_ours else "x", error.detail
            )
        except _NO_ANSWER as error:
            return hook_client.Answer(503, detail=str(error))
        return hook_client.Answer(200)
