"""OpenPBS: `pbsnodes -o` and `-r` as in Torque's family, but its own options, and JSON instead of XML.

What real OpenPBS does and this driver allows for: `pbsnodes` without options is a usage error and there is no
`-x`, `-N` or note (it is `-C` and comment); a failed `-o` exits 1 and says `Error marking node`, with the other
nodes of the call changed; `-r` starts no scheduling cycle, so one is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from balancer.drivers.incremental_parse import Form
from balancer.drivers.openpbs_json import parse_nodes, parse_piece, pieces
from balancer.drivers.pbs import PbsDriver, PbsSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPbsSettings(PbsSettings):
    """`comment` is put on lent nodes ("" for none)."""

    comment: str = "lent to on-demand by the Balancer"


class OpenPbsDriver(PbsDriver[OpenPbsSettings]):
    """`balancer.drivers.base.BatchDriver` for OpenPBS, for hosts with one vnode (named like the host)."""

    name = "openpbs"
    settings_type = OpenPbsSettings
    form = Form(whole=parse_nodes, pieces=pieces, parse_piece=parse_piece)
    reads_all = ("-av", "-F", "json")
    unreachable_words = ("cannot connect", "couldn't connect", "connection refused", "no route to host")

    @property
    def our_note(self) -> str:
        return self.settings.comment

    def reclaim_options(self, note: str) -> tuple[str, ...]:
        return ("-o", "-C", note) if note else ("-o",)

    def restore_options(self, operator_note: str) -> tuple[str, ...]:
        return ("-r", "-C", operator_note) if self.our_note else ("-r",)
