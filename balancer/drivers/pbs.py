"""What Torque and OpenPBS have in common: `pbsnodes` changes nodes, `qmgr` asks for a scheduling cycle."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from shutil import which
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from balancer.drivers.base import NodeState, NodeStatus, RefusedError, of_these, with_ours
from balancer.drivers.claims import claim_in, claimed
from balancer.drivers.incremental_parse import Form, IncrementalNodeParser
from balancer.drivers.marks import mark_text, operator_note_of
from balancer.drivers.programs import batches, run_program
from balancer.plugins import check_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


def state_of(words: frozenset[str], *, busy: frozenset[str], has_jobs: bool) -> NodeState:
    """What the words of a node's state say. `busy`: those that the program uses for a node with jobs."""
    if "down" in words:
        return "down"
    if not words <= busy | {"free", "offline", "down"} or ("free" in words and len(words) > 1):
        return "unknown"
    if "offline" in words:
        return "offline"
    return "busy" if has_jobs or words & busy else "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class PbsSettings:
    """Where the commands are and how long each may take. `ask_for_cycle`: have jobs looked for after a restore.

    `claim`: note in the server's `comment` which ledger has the nodes, so that a second Balancer sees it.
    """

    pbsnodes: str = "pbsnodes"
    qmgr: str = "qmgr"
    qstat: str = "qstat"
    timeout_s: float = 15.0
    ask_for_cycle: bool = True
    claim: bool = True

    def __post_init__(self) -> None:
        check_number("pbs", "timeout_s", self.timeout_s, above=0)


Settings = TypeVar("Settings", bound=PbsSettings)


class PbsDriver(ABC, Generic[Settings]):
    """A `balancer.drivers.base.BatchDriver` but for the options of `pbsnodes` and what it prints."""

    name: str
    settings_type: ClassVar[type[PbsSettings]]
    unreachable_words: ClassVar[Sequence[str]]
    form: ClassVar[Form[NodeStatus]]
    reads_all: ClassVar[Sequence[str]]
    """Options with which `pbsnodes` lists all nodes."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings: Settings = settings or self.settings_type()  # type: ignore[assignment]
        self._nodes = IncrementalNodeParser(self.form, lambda status: with_ours(status, self.our_note))

    @property
    @abstractmethod
    def our_note(self) -> str:
        """What is put on lent nodes; "": nothing."""

    @abstractmethod
    def reclaim_options(self, note: str) -> Sequence[str]:
        """With which `pbsnodes` takes nodes offline, and notes that there; "": nothing is noted."""

    @abstractmethod
    def restore_options(self, operator_note: str) -> Sequence[str]:
        """With which `pbsnodes` puts nodes online again, and leaves of a note what an operator had there."""

    def reclaim_nodes(self, nodes: Sequence[str], *, why: str = "") -> None:
        """As `BatchDriver` has it."""
        groups = self._by_operator_note(nodes)
        self._change(
            [
                (self.reclaim_options(mark_text(self.our_note, why, operator_note)), some)
                for operator_note, some in groups.items()
            ]
        )

    def restore_nodes(self, nodes: Sequence[str]) -> None:
        """Then a scheduling cycle is asked for, for those that did change: by default it comes up to 600 s later."""
        refusal: RefusedError | None = None
        try:
            groups = self._by_operator_note(nodes)
            self._change([(self.restore_options(note), some) for note, some in groups.items()])
        except RefusedError as error:
            refusal = error  # for some of the nodes, perhaps
        if self.settings.ask_for_cycle:
            self._run((self.settings.qmgr, "-c", "set server scheduling = True"))
        if refusal is not None:
            raise refusal

    def _by_operator_note(self, nodes: Sequence[str]) -> dict[str, list[str]]:
        """The nodes by what others have noted on them, without those that others have marked."""
        note = self.our_note
        if not note:
            return {"": list(nodes)}
        found = self.get_status_of_nodes(nodes)
        groups: dict[str, list[str]] = {}
        for node in nodes:
            status = found[node]
            if not status.is_foreign:
                groups.setdefault(operator_note_of(status.note, note), []).append(node)
        return groups

    @property
    def keeps_claims(self) -> bool:
        return self.settings.claim

    def read_claims(self) -> dict[str, str]:
        """As `KeepsClaims` has it: the server's comment, which also people may write."""
        comment = self._comment()
        found = claim_in(comment)
        return {} if found is None else {found[1]: comment}

    def renew_claim(self, ledger_id: str, *, instead_of: Collection[str] = ()) -> None:  # noqa: ARG002 - one comment
        """`qmgr -c "set server comment = ..."`; what people wrote there stays in front."""
        text = claimed(self._comment(), ledger_id)
        quote = "'" if '"' in text else '"'
        if quote in text:
            raise RefusedError("the server's comment has both kinds of quotes: no claim can be added to it")
        self._run((self.settings.qmgr, "-c", f"set server comment = {quote}{text}{quote}"))

    def _comment(self) -> str:
        """What `qstat -B -f` shows; it breaks long lines and begins the rest with a tab.

        Raises RefusedError where there is no qstat: nothing else here needs one.
        """
        if which(self.settings.qstat) is None:
            raise RefusedError(f"there is no {self.settings.qstat}, and so no claim in the server's comment")
        output = self._run((self.settings.qstat, "-B", "-f")).replace("\n\t", "")
        found = re.search(r"^ *comment = (.*)$", output, re.MULTILINE)
        return "" if found is None else found[1].strip()

    def get_status_of_nodes(self, nodes: Iterable[str]) -> dict[str, NodeStatus]:
        """All nodes are read; these are picked out."""
        return of_these(nodes, self.get_status_of_all_nodes())

    def get_status_of_all_nodes(self) -> dict[str, NodeStatus]:
        """As `BatchDriver` has it."""
        return self._read_all()

    def _read_all(self) -> dict[str, NodeStatus]:
        return self._nodes.read(self._run((self.settings.pbsnodes, *self.reads_all)))

    def _change(self, commands: Iterable[tuple[Sequence[str], Sequence[str]]]) -> None:
        """`pbsnodes OPTIONS n1 n2 ...` for each. Raises RefusedError when that was refused for some of the nodes."""
        refusals: list[str] = []
        for options, nodes in commands:
            for some in batches(nodes):
                # The first bare word is the first node, so the options come first.
                try:
                    self._run((self.settings.pbsnodes, *options, *some), stderr_is_refusal=True)
                except RefusedError as error:
                    refusals.append(str(error))
        if refusals:
            raise RefusedError("; ".join(refusals))

    def _run(self, command: Sequence[str], *, stderr_is_refusal: bool = False) -> str:
        return run_program(
            command,
            timeout_s=self.settings.timeout_s,
            unreachable_words=self.unreachable_words,
            stderr_is_refusal=stderr_is_refusal,
        )
