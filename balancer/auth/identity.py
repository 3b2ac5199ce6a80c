"""Who a caller is, and why one is sent away."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    OPERATOR = "operator"
    """People who run the site: every call."""
    ON_DEMAND = "on-demand"
    """The manager of the on-demand pool: takes nodes, gives them back, announces needs."""
    HOOK = "hook"
    """Prologue and epilogue: report the nodes of a job, nothing else."""
    READ_ONLY = "read-only"
    """Dashboards and monitoring."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller who was recognised. `node`: the one whose key signed the call, for a hook."""

    name: str
    role: Role
    node: str | None = None

    @property
    def principal(self) -> str:
        """Stays the same when a token is replaced by another of the same role and name."""
        return f"{self.role}:{self.name}"


NOBODY = Identity("", Role.OPERATOR)
"""The caller where authentication is off: whoever reaches loopback."""


class Denied(Exception):
    """The call is refused and nothing has changed. `retry_after_s`: when it may be tried again."""

    def __init__(self, status: int, code: str, detail: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.retry_after_s = retry_after_s
