"""What an on-demand manager is told when it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from emulator.config.cloud_faults import CloudFaultPart, CloudFaults
from emulator.live.settings import NodeNames, Settings

_INSTANCES = 1000
"""Servers of a project: more than anybody has, and few enough that a slip of the finger is refused at once."""


QUOTAS = frozenset({"cores", "instances", "ram"})


class User(Settings):
    """Somebody who may log in; every user has one project."""

    name: str
    password: str
    project: str
    admin: bool = False


class Flavor(Settings):
    """The one flavor: all of a node."""

    id: str = "100"
    name: str = "node"
    vcpus: int = Field(default=32, ge=1)
    ram_mb: int = Field(default=131_072, ge=1)
    disk_gb: int = Field(default=100, ge=0)


class OndemandConfig(Settings):
    """Settings of one on-demand manager.

    Nodes come either from `pool` (dedicated nodes: a static partition) or from the Balancer at `balancer_url`;
    `wait_s` is the longest wait asked of the Balancer (None: its own W). `boot_s` is the time from grant to ACTIVE,
    `delete_s` from a delete to the end of the server and its node's return, `cloud_faults` say when servers do not
    start. `on_failure` says what users do about hosts that fail (`docs/failures.md`; None: they do not look), every
    `reconcile_period_s`. `hosts` are shown as hypervisors beside the nodes of the pool. Durations are cluster time,
    except `token_lifetime_s` and `release_linger_s`, which are wall time.
    """

    listen: str = "127.0.0.1"
    port: int = Field(0, ge=0, le=65_535)
    ready_file: Path | None = None
    """Gets the base URL and the process id once the manager answers, as JSON."""
    clock: Path | None = None
    """File of the shared clock; without it time is the system's."""
    memory: Path | None = None
    """File by which a manager that is started again knows its servers; without it they live in memory only."""
    pool: NodeNames | None = None
    balancer_url: str | None = None
    balancer_token: str | None = None
    wait_s: float | None = Field(None, ge=0)
    boot_s: float = Field(0.0, ge=0)
    delete_s: float = Field(0.0, ge=0)
    cloud_faults: tuple[CloudFaultPart, ...] = ()
    on_failure: Literal["keep", "replace", "end"] | None = None
    reconcile_period_s: float = Field(60.0, gt=0)
    hosts: NodeNames = ()
    users: tuple[User, ...] = (
        User(name="demo", password="secret", project="demo"),  # noqa: S106 - a test double's default
        User(name="admin", password="secret", project="admin", admin=True),  # noqa: S106
    )
    flavor: Flavor = Flavor()
    image: str = "tiny"
    quota: dict[str, int] = Field(default={"instances": _INSTANCES})
    """Limits of a project, by Nova's names; -1: none."""
    region: str = "RegionOne"
    token_lifetime_s: float = Field(3600.0, gt=0)
    release_linger_s: float = Field(0.05, ge=0)
    """How long nodes of a half-deleted multi-create are kept, so that a lease is returned at once."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.pool is None) == (self.balancer_url is None):
            raise ValueError("give either pool (names of dedicated nodes) or balancer_url")
        if self.on_failure is not None and self.balancer_url is None:
            raise ValueError(
                "on_failure: only the Balancer tells of nodes that fail; leave it out with a pool"
            )
        CloudFaults.of(self.cloud_faults)
        unknown = sorted(self.quota.keys() - QUOTAS)
        if unknown:
            raise ValueError(f"quota: there is no {unknown[0]}; there are {', '.join(sorted(QUOTAS))}")
        names = [user.name for user in self.users]
        if len(set(names)) != len(names):
            raise ValueError("users names a user twice")
        return self
