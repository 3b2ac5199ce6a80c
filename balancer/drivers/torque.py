"""Torque: nodes change hands with `pbsnodes -o` and `pbsnodes -c`, and `pbsnodes -x` tells the truth.

What real Torque does and this driver allows for: `-o` and `-c` exit 0 although they failed, so the state is
read back by whoever needs the outcome; `-c` starts no scheduling cycle, so one is asked for; one call takes
many nodes, and the good ones change although another is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from balancer.drivers.base import NodeStatus, RefusedError, of_these
from balancer.drivers.incremental_parse import Form
from balancer.drivers.pbs import PbsDriver, PbsSettings
from balancer.drivers.programs import batches
from balancer.drivers.torque_xml import parse_nodes, parse_piece, pieces

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class TorqueSettings(PbsSettings):
    """`note` is put on lent nodes ("" for none)."""

    note: str = "lent to on-demand by the Balancer"


class TorqueDriver(PbsDriver[TorqueSettings]):
    """`balancer.drivers.base.BatchDriver` for Torque."""

    name = "torque"
    settings_type = TorqueSettings
    form = Form(whole=parse_nodes, pieces=pieces, parse_piece=parse_piece)
    reads_all = ("-x",)
    unreachable_words = ("cannot connect", "unable to communicate", "connection refused", "no route to host")

    @property
    def our_note(self) -> str:
        return self.settings.note

    def reclaim_options(self, note: str) -> tuple[str, ...]:
        return ("-o", "-N", note) if note else ("-o",)

    def restore_options(self, operator_note: str) -> tuple[str, ...]:
        # A note that reads "n" is how Torque spells "no note"; -c alone keeps it.
        return ("-c", "-N", operator_note or "n") if self.our_note else ("-c",)

    def get_status_of_nodes(self, nodes: Iterable[str]) -> dict[str, NodeStatus]:
        """`pbsnodes -x n1 n2 ...`; a node that Torque does not know is `unknown`."""
        names = list(nodes)
        found: dict[str, NodeStatus] = {}
        for some in batches(names):
            try:
                found |= self._nodes.read(self._run((self.settings.pbsnodes, "-x", *some)), are_all=False)
            except RefusedError:
                # One unknown name spoils the answer for all of them.
                found = self._read_all()
                break
        return of_these(names, found)
