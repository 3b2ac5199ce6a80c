"""OpenPBS: `pbsnodes -o` and `-r` as in Torque's family, but its own options, and JSON instead of XML.

What real OpenPBS does and this driver allows for: `pbsnodes` without options is a usage error and there is no
`-x`, `-N` or note (it is `-C` and comment); a failed `-o` exits 1 and says `Error marking node`, with the other
nodes of the call changed; `-r` starts no scheduling cycle, so one is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from balancer.drivers.base import UNKNOWN, NodeStatus
from balancer.drivers.incremental_parse import Form
from balancer.drivers.openpbs_json import parse_nodes, parse_piece, pieces
from balancer.drivers.pbs import PbsDriver, PbsSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPbsSettings(PbsSettings):
    """`comment` is put on lent nodes ("" for none)."""

    comment: str = "lent to on-demand by the Balancer"


class OpenPbsDriver(PbsDriver[OpenPbsSettings]):
    """`balancer.drivers.base.BatchDriver` for OpenPBS, for hosts with one vnode (named like the host)."""

    name = "openpbs"
    settings_type = OpenPbsSettings
    form = Form(whole=parse_nodes, pieces=pieces, parse_piece=parse_piece)
    unreachable_words = ("cannot connect", "couldn't connect", "connection refused", "no route to host")

    @property
    def our_note(self) -> str:
        return self.settings.comment

    def reclaim_nodes(self, nodes: Sequence[str], *, why: str = "") -> None:
        """`pbsnodes -o`: no job starts on these nodes any more."""
        self._take(nodes, why, lambda comment: ("-o", *self._comment_options(comment)))

    def restore_nodes(self, nodes: Sequence[str]) -> None:
        """`pbsnodes -r`, then ask for a scheduling cycle (by default OpenPBS waits up to 600 s for one)."""
        self._give_back(nodes, lambda operator_note: ("-r", *self._comment_options(operator_note)))

    def get_status_of_nodes(self, nodes: Iterable[str]) -> dict[str, NodeStatus]:
        """All nodes are read; these are picked out."""
        found = self.get_status_of_all_nodes()
        return {node: found.get(node, UNKNOWN) for node in nodes}

    def get_status_of_all_nodes(self) -> dict[str, NodeStatus]:
        """`pbsnodes -av -F json`."""
        return self._nodes.read(self._run((self.settings.pbsnodes, "-av", "-F", "json")))

    def _comment_options(self, comment: str) -> tuple[str, ...]:
        return ("-C", comment) if self.settings.comment else ()
