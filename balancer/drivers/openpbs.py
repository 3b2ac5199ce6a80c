"""OpenPBS: `pbsnodes -o` and `-r` as in Torque's family, but its own options, and JSON instead of XML.

What real OpenPBS does and this driver allows for: `pbsnodes` without options is a usage error and there is no
`-x`, `-N` or note (it is `-C` and comment); a failed `-o` exits 1 and says `Error marking node`, with the other
nodes of the call changed; `-r` starts no scheduling cycle, so one is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from balancer.drivers.base import UNKNOWN, NodeStatus, RefusedError, noted, with_ours
from balancer.drivers.openpbs_json import parse_nodes, parse_remaining
from balancer.drivers.programs import batches, checked_settings, longest_left, run_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_UNREACHABLE_WORDS = ("cannot connect", "couldn't connect", "connection refused", "no route to host")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPbsSettings:
    """Where the commands are and how long each may take. `comment` is put on lent nodes ("" for none)."""

    pbsnodes: str = "pbsnodes"
    qmgr: str = "qmgr"
    qstat: str = "qstat"
    timeout_s: float = 15.0
    ask_for_cycle: bool = True
    comment: str = "lent to on-demand by the Balancer"


class OpenPbsDriver:
    """`balancer.drivers.base.BatchDriver` for OpenPBS, for hosts with one vnode (named like the host)."""

    name = "openpbs"

    def __init__(self, settings: OpenPbsSettings | None = None) -> None:
        self.settings = settings or OpenPbsSettings()

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> Self:
        """From the configuration file. Raises ValueError naming the key."""
        return cls(checked_settings(OpenPbsSettings, values, "openpbs"))

    def reclaim_nodes(self, nodes: Sequence[str], *, why: str = "") -> None:
        """`pbsnodes -o`: no job starts on these nodes any more."""
        self._change(nodes, "-o", noted(self.settings.comment, why))

    def restore_nodes(self, nodes: Sequence[str]) -> None:
        """`pbsnodes -r`, then ask for a scheduling cycle (by default OpenPBS waits up to 600 s for one)."""
        refusal: RefusedError | None = None
        try:
            self._change(nodes, "-r", "")
        except RefusedError as error:
            refusal = error  # for some of the nodes, perhaps
        if self.settings.ask_for_cycle:
            self._run((self.settings.qmgr, "-c", "set server scheduling = True"))
        if refusal is not None:
            raise refusal

    def get_status_of_nodes(self, nodes: Iterable[str]) -> dict[str, NodeStatus]:
        """All nodes are read; these are picked out."""
        found = self.get_status_of_all_nodes()
        return {node: found.get(node, UNKNOWN) for node in nodes}

    def get_status_of_all_nodes(self, *, remaining: bool = False) -> dict[str, NodeStatus]:
        """`pbsnodes -av -F json`, and with `remaining` one `qstat -f -F json`."""
        listed = parse_nodes(self._run((self.settings.pbsnodes, "-av", "-F", "json")))
        found = with_ours(listed, self.settings.comment)
        if not remaining:
            return found
        left_us = parse_remaining(self._run((self.settings.qstat, "-f", "-F", "json")))
        return {
            node: replace(status, remaining_us=longest_left(status.jobs, left_us))
            for node, status in found.items()
        }

    def _change(self, nodes: Sequence[str], option: str, comment: str) -> None:
        said = ("-C", comment) if self.settings.comment else ()
        refusals: list[str] = []
        for some in batches(nodes):
            try:
                self._run((self.settings.pbsnodes, option, *said, *some), stderr_is_refusal=True)
            except RefusedError as error:
                refusals.append(str(error))
        if refusals:
            raise RefusedError("; ".join(refusals))

    def _run(self, command: tuple[str, ...], *, stderr_is_refusal: bool = False) -> str:
        return run_program(
            command,
            timeout_s=self.settings.timeout_s,
            unreachable_words=_UNREACHABLE_WORDS,
            stderr_is_refusal=stderr_is_refusal,
        )
