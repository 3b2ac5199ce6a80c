"""Torque: nodes change hands with `pbsnodes -o` and `pbsnodes -c`, and `pbsnodes -x` tells the truth.

What real Torque does and this driver allows for: `-o` and `-c` exit 0 although they failed, so the state is
read back by whoever needs the outcome; `-c` starts no scheduling cycle, so one is asked for; one call takes
many nodes, and the good ones change although another is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from balancer.drivers.base import UNKNOWN, NodeStatus, RefusedError, noted, with_ours
from balancer.drivers.programs import batches, checked_settings, longest_left, run_program
from balancer.drivers.torque_xml import parse_nodes, parse_remaining

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_UNREACHABLE_WORDS = ("cannot connect", "unable to communicate", "connection refused", "no route to host")


@dataclass(frozen=True, slots=True, kw_only=True)
class TorqueSettings:
    """Where the commands are and how long each may take. `note` is put on lent nodes ("" for none)."""

    pbsnodes: str = "pbsnodes"
    qmgr: str = "qmgr"
    qstat: str = "qstat"
    timeout_s: float = 15.0
    ask_for_cycle: bool = True
    note: str = "lent to on-demand by the Balancer"


class TorqueDriver:
    """`balancer.drivers.base.BatchDriver` for Torque."""

    name = "torque"

    def __init__(self, settings: TorqueSettings | None = None) -> None:
        self.settings = settings or TorqueSettings()

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> Self:
        """From the configuration file. Raises ValueError naming the key."""
        return cls(checked_settings(TorqueSettings, values, "torque"))

    def reclaim_nodes(self, nodes: Sequence[str], *, why: str = "") -> None:
        """`pbsnodes -o`: no job starts on these nodes any more."""
        note = ("-N", noted(self.settings.note, why)) if self.settings.note else ()
        self._change(nodes, ("-o", *note))

    def restore_nodes(self, nodes: Sequence[str]) -> None:
        """`pbsnodes -c`, then ask for a scheduling cycle (by default Torque waits up to 600 s for one)."""
        # A note that reads "n" is how Torque spells "no note"; -c alone keeps it.
        note = ("-N", "n") if self.settings.note else ()
        refusal: RefusedError | None = None
        try:
            self._change(nodes, ("-c", *note))
        except RefusedError as error:
            refusal = error  # for some of the nodes, perhaps
        if self.settings.ask_for_cycle:
            self._run((self.settings.qmgr, "-c", "set server scheduling = True"))
        if refusal is not None:
            raise refusal

    def get_status_of_nodes(self, nodes: Iterable[str]) -> dict[str, NodeStatus]:
        """`pbsnodes -x n1 n2 ...`; a node that Torque does not know is `unknown`."""
        wanted = list(nodes)
        found: dict[str, NodeStatus] = {}
        for some in batches(wanted):
            try:
                found |= self._parsed((self.settings.pbsnodes, "-x", *some))
            except RefusedError:
                # One unknown name spoils the answer for all of them.
                found = self._parsed((self.settings.pbsnodes, "-x"))
                break
        return {node: found.get(node, UNKNOWN) for node in wanted}

    def get_status_of_all_nodes(self, *, remaining: bool = False) -> dict[str, NodeStatus]:
        """`pbsnodes -x`, and with `remaining` one `qstat -x`."""
        found = self._parsed((self.settings.pbsnodes, "-x"))
        if not remaining:
            return found
        left_us = parse_remaining(self._run((self.settings.qstat, "-x")))
        return {
            node: replace(status, remaining_us=longest_left(status.jobs, left_us))
            for node, status in found.items()
        }

    def _parsed(self, command: tuple[str, ...]) -> dict[str, NodeStatus]:
        return with_ours(parse_nodes(self._run(command)), self.settings.note)

    def _change(self, nodes: Sequence[str], options: tuple[str, ...]) -> None:
        refusals: list[str] = []
        for some in batches(nodes):
            # Torque takes the first bare word as the first node, so the options come first.
            try:
                self._run((self.settings.pbsnodes, *options, *some), stderr_is_refusal=True)
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
