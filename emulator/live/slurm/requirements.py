"""What a scenario asks of the real Slurm, too: advance reservations, jobs that share nodes, and nodes that fail.

So both have it from one place. What Slurm makes of them: https://slurm.schedmd.com/reservations.html and
https://slurm.schedmd.com/cons_tres.html. When a node goes and comes back is decided by what decides it in virtual time
(`events/node_outages.py`).
"""

from __future__ import annotations

import re
import subprocess
import threading
from contextlib import suppress
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

import numpy as np

from emulator.cluster.slurm_scheduler import Slurm
from emulator.live.process import FleetProcessError
from emulator.live.slurm.core_record import in_cores
from emulator.live.slurm.programs import own_name
from emulator.runs.queue_partitions import partitions_of
from emulator.runs.scenario import ScenarioError
from emulator.runs.scenario_events import outages_of
from emulator.schedulers.slurm.conf_fragment import feature_word, hostlist
from emulator.schedulers.slurm.reservations import reserved_on, which_of
from emulator.workload.table import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from emulator.events.node_outages import NodeOutages
    from emulator.record.run_record import RunRecord
    from emulator.runs.preparation import Prepared
    from emulator.runs.scenario import Scenario
    from emulator.schedulers.slurm.conf_fragment import Fragment
    from emulator.schedulers.slurm.reservations import Reserved
    from emulator.schedulers.slurm.select import SharedNodes
    from emulator.workload.table import JobTable

_CARRIED_OUT = {
    "reservations",
    "select",
    "release",
    "features",
    "queue_constraint",
    "user_constraint",
    "constraint_names",
}
_IN_THE_DATABASE = {
    "qos": "qos",
    "queue_qos": "qos",
    "user_qos": "qos",
    "cpus_per_node": "",
    "shares": "share",
}
"""What sacctmgr tells the real one, with a word of that; the twin has it from the scenario."""


_OF_EACH_USER = re.compile(
    r"bf_max_job_user(?:_part)?=0*[1-9]\d*|\bmax(?:jobs|submitjobs|tres)(?:peruser|pu)=(?!(?:\w+=)?-1\b)[^\s,]*\d[^\s,]*",
    re.IGNORECASE,
)
"""Limits of each user, in slurm.conf and for sacctmgr."""


_OF_ACCOUNTS = {"associations", "users", "accounts"}


def unheard_setting(
    scenario: Scenario, live_settings: Mapping[str, object], sacctmgr: Sequence[Sequence[str]] | None
) -> str:
    """A key that the twin would go by and the real Slurm would not hear, and what to do; '' if there is none.

    `live_settings`: what `live.batch` says for a key of the twin. `sacctmgr`: what it is told, None without slurmdbd.
    """
    machine = scenario.scheduler_config.make_machine()
    if not isinstance(machine, Slurm):
        return ""
    told = " ".join(word.partition("=")[0].lower() for line in sacctmgr or () for word in line)
    heard = _CARRIED_OUT | {
        key for key, word in _IN_THE_DATABASE.items() if sacctmgr is not None and word in told
    }
    for each in fields(machine):
        value = getattr(machine, each.name)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if value == default or each.name in heard or value == live_settings.get(each.name):
            continue
        if each.name in _IN_THE_DATABASE:
            remedy = "say it in live.batch.slurm.sacctmgr"
            remedy = (
                remedy
                if sacctmgr is not None
                else f"set live.batch.slurm.accounting to slurmdbd and {remedy}"
            )
        elif each.name == "message_timeout":
            remedy = "say it in a slurm.conf, which the twin follows (a live run has a longer one, for its machine)"
        elif each.name in _OF_ACCOUNTS:
            remedy = (
                "say the same in live.batch.slurm.users, accounts and sacctmgr (calibrate compares the two)"
            )
        elif each.name == "queues":
            remedy = "say the same in live.batch.slurm.partitions"
        else:
            remedy = "say it in a slurm.conf that live.batch.slurm.conf names"
        return f"scheduler.slurm.{each.name}: the real Slurm would not hear of it; {remedy}, or leave it out"
    return ""


def other_release(scenario: Scenario, root: Path | None, version: Callable[[], str]) -> str:
    """Why the twin and the real Slurm, of that version, would not mean one release; '' if they do, or none is said."""
    machine = scenario.scheduler_config.make_machine()
    if not isinstance(machine, Slurm) or (told := machine.said_release()) is None:
        return ""
    if (found := version()).startswith(f"{told}."):
        return ""
    key = "conf" if machine.release is None else "release"
    here = f"live.batch.slurm.root: {root}" if root else "this machine, without live.batch.slurm.root,"
    return f"scheduler.slurm.{key} says Slurm {told}, and {here} has {found or 'none'}; make the two the same"


def check_constraints(scenario: Scenario, prepared: Prepared) -> None:
    """Raises ScenarioError where jobs have constraints in the twin alone."""
    machine = scenario.scheduler_config.make_machine()
    if not isinstance(machine, Slurm):
        return
    by_log = replace(machine, constraint_names=machine.constraint_names or dict(prepared.constraint_names))
    _, found = by_log.constraints_of(prepared.jobs, prepared.nodes)
    if found and by_log.constraint_names != machine.constraint_names:
        named = ", ".join(f"{number}: {text!r}" for number, text in by_log.constraint_names.items())
        raise ScenarioError(
            "scheduler.slurm.constraint_names: in virtual time jobs have the constraints that the log says; for the"
            f" real Slurm say them here, {{{named}}}, or leave out the log's column"
        )
    if found and machine.select is None:
        raise ScenarioError(
            "scheduler.slurm: constraints are for virtual time where jobs have whole nodes: say `select`, or leave them"
            " out"
        )


def check_qos(scenario: Scenario, prepared: Prepared) -> None:
    """Raises ScenarioError where jobs of the log have a QOS in the twin alone."""
    machine = scenario.scheduler_config.make_machine()
    if isinstance(machine, Slurm) and machine.qos is not None and prepared.qos_names:
        raise ScenarioError(
            "scheduler.slurm.qos: in virtual time jobs have the QOS that the log says of each, and the real Slurm"
            " would not hear of it; leave qos out, or the log's column"
        )


def check_partitions(scenario: Scenario, prepared: Prepared, live_queues: Mapping[int, str]) -> None:
    """Raises ScenarioError where queues of the log go to partitions of their names in the twin alone."""
    try:
        queues = partitions_of(scenario, prepared)
    except ValueError as error:
        raise ScenarioError(f"scheduler: {error}") from error
    if queues is not None and dict(queues.by_queue) != dict(live_queues):
        named = ", ".join(f"{number}: {name}" for number, name in queues.by_queue.items())
        raise ScenarioError(
            "live.batch.slurm.partitions: in virtual time queues of the log go to the partitions of their names; "
            f"say the same here, {{{named}}}, or other ones here and in scheduler.slurm.queues"
        )


@dataclass(frozen=True, slots=True)
class SlurmRequirements:
    """`reserved`: of a run's nodes, which are called `names`. `shared`: what they have, None unless jobs share them.

    `machine`: the scenario's settings of Slurm, if it has some. `features`: nodes with each that its jobs ask for.
    `node_sets`: of each node the place of its set, where jobs have whole ones.
    """

    names: tuple[str, ...]
    reserved: tuple[Reserved, ...] = ()
    shared: SharedNodes | None = None
    machine: Slurm | None = None
    features: Mapping[str, frozenset[int]] = field(default_factory=dict)
    node_sets: Sequence[int] = ()

    @classmethod
    def by(cls, scenario: Scenario, names: tuple[str, ...]) -> Self:
        """Raises ScenarioError."""
        machine = scenario.scheduler_config.make_machine()
        if not isinstance(machine, Slurm):
            return cls(names)
        try:
            reserved, shared = reserved_on(machine.reservations, len(names)), machine.shared_nodes(len(names))
            features = machine.features_on(len(names)) if shared else {}
            return cls(names, reserved, shared, machine, features, machine.node_sets(len(names)))
        except ValueError as error:
            raise ScenarioError(f"scheduler: {error}") from error

    @property
    def in_cores(self) -> Callable[[RunRecord], RunRecord] | None:
        """What makes the record of a run one of cores, where jobs share nodes."""
        shared = self.shared
        return None if shared is None else lambda record: in_cores(record, shared)

    def options(self, jobs: JobTable) -> dict[int, list[str]]:
        """Of sbatch, for batch jobs that ask for something, by number."""
        found: dict[int, list[str]] = {}
        for row in np.flatnonzero(jobs.kind == Kind.BATCH) if self.reserved else ():
            number = int(jobs.number[row])
            place = which_of(self.reserved, number, int(jobs.user[row]))
            if place >= 0:
                found[number] = [f"--reservation={self.reserved[place].name}"]
        if self.shared is not None:
            wants = self.shared.wants_of(jobs)
            for number, cores, memory_mb, gpus in zip(jobs.number, *wants, strict=True):
                options = found.setdefault(int(number), [])
                options += ["--ntasks-per-node=1", f"--cpus-per-task={cores}"]
                options += [f"--mem={memory_mb}M"] if self.shared.has_memory else []
                options += [f"--gres=gpu:{gpus}"] if gpus else []
        if self.machine is not None and self.features:
            of_job, constraints = self.machine.constraints_of(jobs, len(self.names))
            for number, which in zip(jobs.number.tolist(), of_job.tolist(), strict=True):
                if which >= 0:
                    text = feature_word(constraints[which].text)
                    found.setdefault(number, []).append(f"--constraint={text}")
        return found

    def make_reservations(self, ask: Callable[..., str], users: Iterable[str], begun_s: int) -> None:
        """Have `ask` (program, arguments) create them in a run that began at `begun_s`. Raises FleetProcessError.

        `users`: of this machine, who submit jobs beside us. All may use each: who does not ask for one does not.
        """
        users_allowed = sorted({own_name(), *users})
        for each in self.reserved:
            options = arguments(each, [self.names[node] for node in each.nodes], users_allowed, begun_s)
            try:
                ask("scontrol", *options)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                output = (
                    (error.stderr or "") if isinstance(error, subprocess.CalledProcessError) else "no answer"
                )
                raise FleetProcessError(f"scontrol {' '.join(options)}: {output.strip()}") from error


def arguments(each: Reserved, nodes: Sequence[str], users: Sequence[str], begun_s: int) -> list[str]:
    """What scontrol is told; a reservation from the begin of the run on begins now, which is a little later."""
    begin = _date(begun_s + each.start_s) if each.start_s else "now"
    return [
        "create", "reservation", f"ReservationName={each.name}", f"StartTime={begin}",
        f"EndTime={_date(begun_s + each.end_s)}", f"Nodes={hostlist(nodes)}", f"Users={','.join(users)}",
    ]  # fmt: skip


def _date(unix_s: int) -> str:
    """As Slurm's commands take it; those of a run live in UTC."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


# What `failures` and `maintenance` do to the nodes: `scontrol update ... state=`.

_LOOK_S = 0.005
_CLOSE_S = 1.0
_REASON = "emulator"


def has_outages(scenario: Scenario) -> bool:
    return bool(scenario.failures or scenario.maintenance)


def problem_with_outages(scenario: Scenario, fragment: Fragment) -> str:
    """What a scenario wants of nodes that fail and a live run does not have; '' if nothing."""
    if not has_outages(scenario):
        return ""
    lost = [part.jobs for part in (scenario.failures, *scenario.maintenance) if part is not None]
    if "lost" in lost:
        return "jobs that lose a node wait again on Slurm: leave out `jobs: lost` of failures and maintenance"
    if "jobrequeue=0" in (line.replace(" ", "").lower() for line in fragment.lines):
        return (
            "JobRequeue=0 with failures or maintenance is for virtual time (scheduler: slurm): leave it out"
        )
    return ""


_PREEMPT_MODE = re.compile(r"\bpreemptmode\s*=\s*(\S+)", re.IGNORECASE)
_NOT_TOLD = {"cancel", "suspend"}


def problem_with_preemption(lines: Iterable[str]) -> str:
    """What slurm.conf or sacctmgr says of preempted jobs and a live run's record would not have; '' if nothing."""
    text = "\n".join(lines)
    modes = _PREEMPT_MODE.findall(text)
    for said in modes:
        if _NOT_TOLD & set(said.lower().split(",")):
            return f"PreemptMode={said}: in a live run who is preempted waits again: say REQUEUE or OFF"
    if "requeue" in ",".join(modes).lower() and "jobrequeue=0" in text.replace(" ", "").lower():
        return (
            "JobRequeue=0 with PreemptMode=REQUEUE: in a live run who is preempted waits again: leave it out"
        )
    return ""


def check_limits_of_users(lines: Iterable[str], jobs: JobTable, users: Mapping[int, str]) -> None:
    """Raises ScenarioError where a limit is of each user, and users of the trace are one user to the real Slurm.

    `lines`: of slurm.conf and of what sacctmgr is told. `users`: of this machine, by number; others are we.
    """
    said = _OF_EACH_USER.search("\n".join(lines))
    if said is None:
        return
    numbers = {*jobs.user.tolist()}
    me = own_name()
    submitters = {users.get(number, me) for number in numbers}
    if len(submitters) < len(numbers):
        raise ScenarioError(
            f"live.batch.slurm: {said[0]} is for each user, and {len(numbers)} users of the trace would be"
            f" {len(submitters)} to the real Slurm: say one of this machine for each"
            " in live.batch.slurm.users, or leave the limit out"
        )


def check_fair_shares(
    scenario: Scenario, prepared: Prepared, users: Mapping[int, str], accounts: Mapping[int, str]
) -> None:
    """Raises ScenarioError where the twin would know usage and shares of other users than the real Slurm.

    `users`, `accounts`: of this machine and its Slurm, by the trace's user.
    """
    machine = scenario.scheduler_config.make_machine()
    if not isinstance(machine, Slurm):
        return
    rules = machine.rules(prepared.nodes)
    if rules.priority_type == "basic" or not rules.priority_weight_fairshare:
        return
    numbers, me = {*prepared.jobs.user.tolist()}, own_name()
    if accounts or len({users.get(number, me) for number in numbers}) < len(numbers):
        raise ScenarioError(
            "scheduler.slurm: PriorityWeightFairshare: in virtual time each user of the trace has a share, and the"
            " real Slurm would know other users, or accounts: say one of this machine for each in"
            " live.batch.slurm.users, and no accounts, or leave scheduler.slurm out"
        )


class _Nodes:
    """The nodes as `NodeOutages` acts on them. Who runs where is Slurm's business: all may be busy."""

    def __init__(self, names: Sequence[str], ask: Callable[..., str], note: Callable[[str], None]) -> None:
        self.now_us = 0
        self._names = names
        self._ask = ask
        self._note = note
        self.node_job: NDArray[np.int64] = np.zeros(len(names), np.int64)
        self._due: list[tuple[str, list[int]]] = []

    @property
    def cluster(self) -> _Nodes:
        return self

    def drain(self, nodes: Iterable[int]) -> list[int]:
        return self._update(nodes, "drain")

    def drained(self, nodes: Iterable[int]) -> None:
        """Slurm knows."""

    def take_down(self, nodes: Iterable[int]) -> list[int]:
        self._update(nodes, "down")
        return []

    def take_down_for_good(self, nodes: Iterable[int]) -> list[int]:
        return self.take_down(nodes)

    def repair(self, nodes: Iterable[int]) -> None:
        self._update(nodes, "resume")

    def _update(self, nodes: Iterable[int], state: str) -> list[int]:
        chosen = list(nodes)
        if chosen:
            if not self._due or self._due[-1][0] != state:
                self._due.append((state, []))
            self._due[-1][1].extend(chosen)
        return chosen

    def tell(self) -> None:
        """Tell Slurm what has happened: jobs whose nodes fail at one time then wait again from one time on."""
        due, self._due = self._due, []
        for state, nodes in due:
            arguments = [
                "update",
                f"NodeName={hostlist([self._names[node] for node in nodes])}",
                f"State={state}",
            ]
            arguments += [] if state == "resume" else [f"Reason={_REASON}"]
            try:
                self._ask("scontrol", *arguments)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                answer = getattr(error, "stderr", None) or "no answer"
                self._note(f"scontrol {' '.join(arguments)}: {answer.strip()}")


class PlayedOutages:
    """A thread that has `ask` (program, arguments) tell Slurm of each outage at its time, until `close`.

    `note`: is told of what Slurm refuses.
    """

    def __init__(
        self,
        outages: NodeOutages,
        names: Sequence[str],
        ask: Callable[..., str],
        note: Callable[[str], None],
    ) -> None:
        self._outages = outages
        self._nodes = _Nodes(names, ask, note)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, now_us: Callable[[], int]) -> None:
        self._thread = threading.Thread(target=self._play, args=(now_us,), daemon=True)
        self._thread.start()

    def _play(self, now_us: Callable[[], int]) -> None:
        with suppress(OSError):  # the run is over, and its time with it
            while not self._stopped.wait(_LOOK_S):
                self.until(now_us())

    def until(self, now_us: int) -> None:
        """All that is due."""
        while (at_us := self._outages.next_us(goes_on=True, waiting=0)) <= now_us:
            self._nodes.now_us = at_us
            self._outages.at(self._nodes)
            self._nodes.tell()

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        names: Sequence[str],
        ask: Callable[..., str],
        note: Callable[[str], None],
    ) -> Self:
        return cls(outages_of(scenario, len(names)), names, ask, note)

    def close(self) -> None:
        """A command that Slurm does not answer any more is not waited for."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
