"""Torque: nodes change hands with `pbsnodes -o` and `pbsnodes -c`, and `pbsnodes -x` tells the truth.

What real Torque does and this driver allows for: `-o` and `-c` exit 0 although they failed, so the state is
read back by whoever needs the outcome; `-c` starts no scheduling cycle, so one is asked for; one call takes
many nodes, and the good ones change although another is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from balancer.drivers.base import UNKNOWN, NodeStatus, RefusedError
from balancer.drivers.incremental_parse import Form
from balancer.drivers.pbs import PbsDriver, PbsSettings
from balancer.drivers.programs import batches
from balancer.drivers.torque_xml import parse_nodes, parse_piece, pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class TorqueSettings(PbsSettings):
    """`note` is put on lent nodes ("" for none)."""

    note: str = "lent to on-demand by the Balancer"


class TorqueDriver(PbsDriver[TorqueSettings]):
    """`balancer.drivers.base.BatchDriver` for Torque."""

    name = "torque"
    settings_type = TorqueSettings
    form = Form(whole=parse_nodes, pieces=pieces, parse_piece=parse_piece)
    unreachable_words = ("cannot connect", "unable to communicate", "connection refused", "no route to host")

    @property
    def our_note(self) -> str:
        return self.settings.note

    def reclaim_nodes(self, nodes: Sequence[str], *, why: str = "") -> None:
        """`pbsnodes -o`: no job starts on these nodes any more."""
        self._take(nodes, why, lambda note: ("-o", *(("-N", note) if note else ())))

    def restore_nodes(self, nodes: Sequence[str]) -> None:
        """`pbsnodes -c`, then ask for a scheduling cycle (by default Torque waits up to 600 s for one)."""
        # A note that reads "n" is how Torque spells "no note"; -c alone keeps it.
        self._give_back(
            nodes,
            lambda operator_note: ("-c", *(("-N", operator_note or "n") if self.settings.note else ())),
        )

    def get_status_of_nodes(self, nodes: Iterable[str]) -> dict[str, NodeStatus]:
        """`pbsnodes -x n1 n2 ...`; a node that Torque does not know is `unknown`."""
        names = list(nodes)
        found: dict[str, NodeStatus] = {}
        for some in batches(names):
            try:
                found |= self._nodes.read(self._run((self.settings.pbsnodes, "-x", *some)), are_all=False)
            except RefusedError:
                # One unknown name spoils the answer for all of them.
                found = self._nodes.read(self._run((self.settings.pbsnodes, "-x")))
                break
        return {node: found.get(node, UNKNOWN) for node in names}

    def get_status_of_all_nodes(self) -> dict[str, NodeStatus]:
        """`pbsnodes -x`."""
        return self._nodes.read(self._run((self.settings.pbsnodes, "-x")))
