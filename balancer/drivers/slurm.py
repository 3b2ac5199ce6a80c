"""Slurm: nodes change hands with `scontrol update state=drain` and `state=resume`.

What real Slurm does and this driver allows for: a drain carries a reason, which tells ours from a human's, and
a second drain would overwrite it, so a node that a human drained is left alone; `resume` of a node that is not drained
is an error, so only those of ours are resumed; in a list of nodes the good ones change although another is
refused; a node that has been resumed does not respond for up to a second.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from balancer.drivers.base import NodeStatus, RefusedError, SiteCheck, of_these
from balancer.drivers.incremental_parse import Form, IncrementalNodeParser, ParseCache
from balancer.drivers.marks import mark_text, operator_note_of, parse
from balancer.drivers.programs import batches, run_program
from balancer.drivers.slurm_site import check_site
from balancer.drivers.slurm_text import (
    JOBS_FORMAT,
    NodeLine,
    job_nodes,
    node_lines,
    parse_claims,
    parse_jobs,
    parse_node,
    parse_nodes,
    parse_partition,
    parse_reservations,
    status_of,
)
from balancer.plugins import check_number

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

_UNREACHABLE_WORDS = ("unable to contact slurm controller", "connection refused", "could not resolve")
# These change what the commands print, whom they ask, or which jobs they leave out.
_OWN_VARIABLES = ("SQUEUE_", "SCONTROL_", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Where the commands are and how long each may take. A drain of ours has the reason `MARK: REASON (...)`.

    `hold`: what keeps a lent node: `drain`, or `reservation` (and a Slurm reservation `MARK-NODE`, so that no job
    starts there also when somebody resumes the node). `awake_partition`: one with SuspendTime=INFINITE, which is given
    exactly the lent nodes: power saving leaves them alone ("": there is none). `claim`: note which ledger has the nodes
    in a reservation `MARK-claim-LEDGER` that begins in three years, so that a second Balancer sees it. A controller
    that is down makes the commands take about 9 s: `timeout_s` should be more than that.
    """

    scontrol: str = "scontrol"
    squeue: str = "squeue"
    timeout_s: float = 15.0
    mark: str = "balancer"
    reason: str = "lent to on-demand"
    hold: Literal["drain", "reservation"] = "drain"
    awake_partition: str = ""
    claim: bool = True

    def __post_init__(self) -> None:
        check_number("slurm", "timeout_s", self.timeout_s, above=0)
        if not self.mark or not self.mark.replace("-", "").isalnum():
            raise ValueError(f"slurm: mark must be letters, digits and '-', not {self.mark!r}")
        if self.hold not in ("drain", "reservation"):
            raise ValueError(f"slurm: hold must be drain or reservation, not {self.hold!r}")


_RESUME = ("state=resume", "reason= ")
"""24.11 leaves the reason on a node that is resumed, and takes no empty one; others clear whatever it is."""

_Facts = tuple[NodeLine, tuple[str, ...], bool]
"""What Slurm says of a node: its line, its jobs, whether a reservation of ours keeps it."""


class SlurmDriver:
    """`balancer.drivers.base.BatchDriver` for Slurm. `marked` means: drained, and by us."""

    name = "slurm"
    settings_type = SlurmSettings

    def __init__(self, settings: SlurmSettings | None = None) -> None:
        self.settings = settings or SlurmSettings()
        self._nodes = IncrementalNodeParser(
            Form(whole=parse_nodes, pieces=node_lines, parse_piece=parse_node)
        )
        self._job_nodes = ParseCache(job_nodes)
        self._statuses = ParseCache(self._status)
        self._loose: frozenset[str] = frozenset()
        """Nodes that were in the partition without anything of ours when `tidy` looked last."""

    @property
    def _note(self) -> str:
        return f"{self.settings.mark}: {self.settings.reason}"

    def reclaim_nodes(self, nodes: Sequence[str], *, why: str = "") -> None:
        """`scontrol update state=drain`, except for nodes that somebody else has drained."""
        lines = self._lines()
        reclaimable = [node for node in nodes if node in lines and not self._is_foreign(lines[node])]
        if reclaimable:
            # First: a node that would be switched off must not be lent.
            self._keep_awake(lambda now: now.union(reclaimable))
        groups: list[tuple[list[str], tuple[str, ...]]] = []
        for operator_note, some in self._by_operator_note(reclaimable, lines).items():
            reason = mark_text(self._note, why, operator_note)
            new = [node for node in some if not lines[node].is_drained or lines[node].reason != reason]
            groups.append((new, ("state=drain", f"reason={reason}")))
        reserved = self._reserved() if self._reserves else frozenset(reclaimable)
        reservations = [self._reservation(node) for node in reclaimable if node not in reserved]
        self._update(groups, left=self._not_ours(nodes, lines), then=reservations)

    def restore_nodes(self, nodes: Sequence[str]) -> None:
        """`scontrol update state=resume`, for the nodes that we have drained; the reason goes as well."""
        lines = self._lines()
        left = self._not_ours(nodes, lines)
        try:
            self._keep_awake(lambda now: now.difference(nodes))
        except RefusedError as error:
            left.append(str(error))  # a node goes home all the same
        if self._reserves:
            # First: a node that is resumed and still reserved would be nobody's.
            reserved = self._reserved()
            self._update([], left=(), then=[self._end_of(node) for node in nodes if node in reserved])
        ours = [
            node
            for node in nodes
            if node in lines and lines[node].is_drained and not self._is_foreign(lines[node])
        ]
        with_note = [
            (some, (f"reason={note}",)) for note, some in self._by_operator_note(ours, lines).items() if note
        ]
        self._update([(ours, _RESUME), *with_note], left=left)

    def get_status_of_nodes(self, nodes: Iterable[str]) -> dict[str, NodeStatus]:
        """All nodes are read (Slurm's commands ask for all in any case); these are picked out."""
        return of_these(nodes, self.get_status_of_all_nodes())

    def get_status_of_all_nodes(self) -> dict[str, NodeStatus]:
        """One `scontrol show node`, then one `squeue`: a drained node has no job in the second if none in the first."""
        lines = self._lines()
        reserved = self._reserved() if self._reserves else frozenset()
        output = self._run((self.settings.squeue, "--all", "--local", f"--format={JOBS_FORMAT}"))
        jobs = parse_jobs(output, self._job_nodes.of_all)
        facts: list[_Facts] = [(line, jobs.get(node, ()), node in reserved) for node, line in lines.items()]
        return dict(zip(lines, self._statuses.of_all(facts), strict=True))

    def _status(self, facts: _Facts) -> NodeStatus:
        line, jobs, is_reserved = facts
        return status_of(line, jobs, note=self._note, is_reserved=is_reserved)

    def check_site(self, nodes: Sequence[str]) -> Sequence[SiteCheck]:
        settings = self.settings
        return check_site(
            lambda command: self._run(tuple(command)),
            settings.scontrol,
            nodes,
            awake_partition=settings.awake_partition,
        )

    def tidy(self) -> None:
        """After a restart of the controller the partition has the nodes that slurm.conf gives it.

        One without anything of ours leaves at the second look: its mark may be set again in between.
        """
        if not self.settings.awake_partition:
            return
        lines = self._lines()
        lent = self._lent(lines)

        def tidied(now: frozenset[str]) -> frozenset[str]:
            # What somebody else has drained may still be lent: who knows that gives it back.
            loose = frozenset(name for name in now - lent if name not in lines or not lines[name].is_drained)
            leaving, self._loose = loose & self._loose, loose
            return (now | lent) - leaving

        self._keep_awake(tidied)

    # Power saving

    def wake_nodes(self, nodes: Sequence[str]) -> None:
        """`scontrol update state=power_up`: Slurm runs its ResumeProgram; they are idle when they have registered."""
        self._update([(nodes, ("state=power_up",))], left=())

    def _lent(self, lines: Mapping[str, NodeLine]) -> set[str]:
        """The nodes that something of ours keeps from batch."""
        marked = {name for name, line in lines.items() if line.is_drained and not self._is_foreign(line)}
        return marked | (self._reserved() if self._reserves else frozenset())

    def _keep_awake(self, changed: Callable[[frozenset[str]], frozenset[str]]) -> None:
        """Change the nodes of the partition that is not switched off. Raises DriverError."""
        settings, name = self.settings, self.settings.awake_partition
        if not name:
            return
        output = self._run((settings.scontrol, "--all", "--oneliner", "show", "partition", name))
        now = parse_partition(output, name).nodes
        target = changed(now)
        if target != now:
            nodes = ",".join(sorted(target))
            self._run((settings.scontrol, "update", f"partitionname={name}", f"nodes={nodes}"))

    # Claims

    @property
    def keeps_claims(self) -> bool:
        return self.settings.claim

    @property
    def _claim(self) -> str:
        return f"{self.settings.mark}-claim-"

    def read_claims(self) -> dict[str, str]:
        """As `KeepsClaims` has it: reservations far ahead, whose start is moved with each renewal."""
        return parse_claims(
            self._run((self.settings.scontrol, "--oneliner", "show", "reservation")), self._claim
        )

    def renew_claim(self, ledger_id: str, *, instead_of: Collection[str] = ()) -> None:
        """A reservation of one node, for a minute in three years: it keeps no job from it."""
        scontrol, start = self.settings.scontrol, "starttime=now+1095days"
        name = f"reservationname={self._claim}{ledger_id}"
        if ledger_id in self.read_claims():
            ours: tuple[str, ...] = (scontrol, "update", name, start)
        else:
            what = (f"nodes={min(self._lines())}", "users=root", "flags=IGNORE_JOBS,OVERLAP")
            ours = (scontrol, "create", "reservation", name, start, "duration=1", *what)
        ends = [(scontrol, "delete", f"reservationname={self._claim}{other}") for other in instead_of]
        self._update([], left=(), then=[ours, *ends])

    # Reservations

    @property
    def _reserves(self) -> bool:
        return self.settings.hold == "reservation"

    def _reserved(self) -> frozenset[str]:
        """The nodes that a reservation of ours keeps."""
        output = self._run((self.settings.scontrol, "--oneliner", "show", "reservation"))
        return parse_reservations(output, f"{self.settings.mark}-")

    def _reservation(self, node: str) -> tuple[str, ...]:
        name = f"reservationname={self.settings.mark}-{node}"
        when = ("starttime=now", "duration=UNLIMITED", "flags=IGNORE_JOBS")
        return (self.settings.scontrol, "create", "reservation", name, f"nodes={node}", "users=root", *when)

    def _end_of(self, node: str) -> tuple[str, ...]:
        return (self.settings.scontrol, "delete", f"reservationname={self.settings.mark}-{node}")

    def _lines(self) -> dict[str, NodeLine]:
        return self._nodes.read(self._run((self.settings.scontrol, "--all", "--oneliner", "show", "node")))

    def _is_foreign(self, line: NodeLine) -> bool:
        return line.is_drained and parse(line.reason, self._note) is None

    def _by_operator_note(self, nodes: Sequence[str], lines: Mapping[str, NodeLine]) -> dict[str, list[str]]:
        """The nodes by what others have given as a reason."""
        groups: dict[str, list[str]] = {}
        for node in nodes:
            groups.setdefault(operator_note_of(lines[node].reason, self._note), []).append(node)
        return groups

    def _not_ours(self, nodes: Sequence[str], lines: Mapping[str, NodeLine]) -> list[str]:
        """What is to be said about nodes that no command is given for."""
        problems = [f"Slurm has no node {node}" for node in nodes if node not in lines]
        for node in nodes:
            line = lines.get(node)
            if line is not None and self._is_foreign(line):
                problems.append(f"{node} is drained by somebody else ({line.reason or 'no reason given'})")
        return problems

    def _update(
        self,
        changes: Sequence[tuple[Sequence[str], Sequence[str]]],
        *,
        left: Sequence[str],
        then: Sequence[tuple[str, ...]] = (),
    ) -> None:
        """Give these nodes these changes, group by group, `then` the other commands.

        `left` is what is to be said about others.
        """
        refusals = list(left)
        commands = [
            (self.settings.scontrol, "update", f"nodename={','.join(some)}", *words)
            for nodes, words in changes
            for some in batches(nodes)
        ]
        for command in (*commands, *then):
            try:
                self._run(command)
            except RefusedError as error:
                refusals.append(str(error))
        if refusals:
            raise RefusedError("; ".join(refusals))

    def _run(self, command: tuple[str, ...]) -> str:
        environ = {name: value for name, value in os.environ.items() if not name.startswith(_OWN_VARIABLES)}
        return run_program(
            command,
            timeout_s=self.settings.timeout_s,
            unreachable_words=_UNREACHABLE_WORDS,
            environ=environ | {"LC_ALL": "C.UTF-8"},
        )
