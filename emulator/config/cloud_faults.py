"""Steps of a scenario at which the on-demand cloud fails, in virtual time and in a live run alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from balancer.clock import NEVER_US, micros
from balancer.nodelist import NodeListError, expand
from balancer.wrong_values import sentences

if TYPE_CHECKING:
    from collections.abc import Iterable

BOOT_FAILED = "Exceeded maximum number of retries. Exhausted all hosts available for retrying build failures."
"""What Nova says of a server that did not start on any host that the filter had passed."""


class CloudFaultPart(BaseModel):
    """From `at_s` on, for `for_s` (None: to the end), in cluster time.

    `fail_boots`: what is granted on these nodes meanwhile does not start. `fail_hosts`: besides, the manager asks for
    none of these nodes meanwhile; servers that are there stay. `nodes`: a pattern, `node[001-004],node009`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    at_s: float = Field(ge=0)
    do: Literal["fail_boots", "fail_hosts"]
    nodes: str = Field(min_length=1)
    for_s: float | None = Field(default=None, gt=0)


@dataclass(frozen=True, slots=True)
class _Step:
    begin_us: int
    end_us: int
    is_host: bool
    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class CloudFaults:
    """All of them. Times are microseconds of cluster time."""

    steps: tuple[_Step, ...] = ()

    @classmethod
    def of(cls, parts: Iterable[CloudFaultPart]) -> CloudFaults:
        """Raises ValueError for nodes that cannot be read."""
        return cls(tuple(_step(part) for part in parts))

    def boot_fails(self, node: str, at_us: int) -> bool:
        return any(node in step.nodes for step in self.steps if step.begin_us <= at_us < step.end_us)

    def down(self, at_us: int) -> frozenset[str]:
        """The nodes whose hosts are down at this time."""
        lists = (step.nodes for step in self.steps if step.is_host and step.begin_us <= at_us < step.end_us)
        return frozenset().union(*lists)

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset().union(*(step.nodes for step in self.steps))


def read_faults(given: Iterable[Any]) -> tuple[CloudFaultPart, ...]:
    """As a scenario has them. Raises ValueError that names the step, from 0, and the key."""
    parts = []
    for number, each in enumerate(given):
        try:
            parts.append(CloudFaultPart.model_validate(each))
        except ValidationError as error:
            raise ValueError(f"cloud_faults.{number}.{sentences(error)[0]}") from error
    return tuple(parts)


def _step(part: CloudFaultPart) -> _Step:
    try:
        names = frozenset(expand(part.nodes))
    except NodeListError as error:
        raise ValueError(f"cloud_faults: nodes: {error}") from error
    end_us = NEVER_US if part.for_s is None else micros(part.at_s + part.for_s)
    return _Step(micros(part.at_s), end_us, part.do == "fail_hosts", names)
