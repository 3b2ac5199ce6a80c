"""Slurm: nodes change hands with `scontrol update state=drain` and `state=resume`.

What real Slurm does and this driver allows for: a drain carries a reason, which tells ours from a human's, and
a second drain would overwrite it, so a node that a human drained is left alone; `resume` of a node that is not drained
is an error, so only those of ours are resumed; in a list of nodes the good ones change although another is
refused; a node that has been resumed does not respond for up to a second.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from balancer.drivers.base import UNKNOWN, NodeStatus, RefusedError, noted
from balancer.drivers.programs import batches, run_program
from balancer.drivers.slurm_text import JOBS_FORMAT, NodeLine, is_ours, parse_jobs, parse_nodes, status_of
from balancer.plugins import check_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_UNREACHABLE_WORDS = ("unable to contact slurm controller", "connection refused", "could not resolve")
# These change what the commands print, whom they ask, or which jobs they leave out.
_OWN_VARIABLES = ("SQUEUE_", "SCONTROL_", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Where the commands are and how long each may take. A drain of ours has the reason `MARK: REASON`.

    A controller that is down makes the commands take about 9 s: `timeout_s` should be more than that.
    """

    scontrol: str = "scontrol"
    squeue: str = "squeue"
    timeout_s: float = 15.0
    mark: str = "balancer"
    reason: str = "lent to on-demand"

    def __post_init__(self) -> None:
        check_number("slurm", "timeout_s", self.timeout_s, above=0)
        if not self.mark or not self.mark.replace("-", "").isalnum():
            raise ValueError(f"slurm: mark must be letters, digits and '-', not {self.mark!r}")


class SlurmDriver:
    """`balancer.drivers.base.BatchDriver` for Slurm. `marked` means: drained, and by us."""

    name = "slurm"
    settings_type = SlurmSettings

    def __init__(self, settings: SlurmSettings | None = None) -> None:
        self.settings = settings or SlurmSettings()

    def reclaim_nodes(self, nodes: Sequence[str], *, why: str = "") -> None:
        """`scontrol update state=drain`, for the nodes that nobody has drained yet."""
        lines = self._lines()
        wanted = [node for node in nodes if node in lines and not lines[node].is_drained]
        reason = f"reason={self.settings.mark}: {noted(self.settings.reason, why)}"
        self._update(wanted, "state=drain", reason, left=self._not_ours(nodes, lines))

    def restore_nodes(self, nodes: Sequence[str]) -> None:
        """`scontrol update state=resume`, for the nodes that we have drained."""
        lines = self._lines()
        ours = [
            node for node in nodes if node in lines and lines[node].is_drained and self._is_ours(lines[node])
        ]
        self._update(ours, "state=resume", left=self._not_ours(nodes, lines))

    def get_status_of_nodes(self, nodes: Iterable[str]) -> dict[str, NodeStatus]:
        """All nodes are read (Slurm's commands ask for all in any case); these are picked out."""
        found = self.get_status_of_all_nodes()
        return {node: found.get(node, UNKNOWN) for node in nodes}

    def get_status_of_all_nodes(self, *, remaining: bool = False) -> dict[str, NodeStatus]:
        """One `scontrol show node`, then one `squeue`: a drained node has no job in the second if none in the first."""
        lines = self._lines()
        jobs = parse_jobs(self._run((self.settings.squeue, "--all", "--local", f"--format={JOBS_FORMAT}")))
        return {
            node: status_of(line, jobs.get(node, ()), mark=self.settings.mark, remaining=remaining)
            for node, line in lines.items()
        }

    def _lines(self) -> dict[str, NodeLine]:
        return parse_nodes(self._run((self.settings.scontrol, "--all", "--oneliner", "show", "node")))

    def _is_ours(self, line: NodeLine) -> bool:
        return is_ours(line, self.settings.mark)

    def _not_ours(self, nodes: Sequence[str], lines: Mapping[str, NodeLine]) -> list[str]:
        """What is to be said about nodes that no command is given for."""
        said = [f"Slurm has no node {node}" for node in nodes if node not in lines]
        for node in nodes:
            line = lines.get(node)
            if line is not None and line.is_drained and not self._is_ours(line):
                said.append(f"{node} is drained by somebody else ({line.reason or 'no reason given'})")
        return said

    def _update(self, nodes: Sequence[str], *changes: str, left: Sequence[str]) -> None:
        refusals = list(left)
        for some in batches(nodes):
            try:
                self._run((self.settings.scontrol, "update", f"nodename={','.join(some)}", *changes))
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
