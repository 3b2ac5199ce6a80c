"""The service's configuration: one YAML file, command-line options over it, errors that name the key."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import yaml
from pydantic import (
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from balancer import wrong_values
from balancer.clock import LONGEST_S, Clock, micros, micros_or_none
from balancer.limits import Limits
from balancer.nodelist import NodeListError, expand, read_nodes
from balancer.plugin_files import Pluggable, reason, resolved
from balancer.plugins import (
    ALGORITHMS,
    BATCH_DRIVERS,
    CLOCKS,
    CLOUD_DRIVERS,
    PluginError,
    make_plugin,
    name_of,
    nearest,
)
from balancer.policy_settings import PickOrder, ReserveRule, Settings
from balancer.service.callers import CallerSettings
from balancer.service.calls import EngineSettings
from balancer.service.commands import CommandSettings
from balancer.service.freeze import Freeze
from balancer.yaml_text import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from balancer.algorithms.interface import Algorithm
    from balancer.drivers.base import BatchDriver
    from balancer.drivers.cloud import CloudDriver

DEFAULT_PORT = 8090
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

PositiveSeconds = Annotated[float, Field(gt=0, le=LONGEST_S)]
SomeSeconds = Annotated[float, Field(ge=0, le=LONGEST_S)]


Name = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]+$")]


def _names_a_file(value: Any) -> Any:
    if isinstance(value, str) and (not value or "\0" in value):
        raise ValueError(f"must name a file, not {value!r}")
    return value


FileName = Annotated[Path, BeforeValidator(_names_a_file)]


class ConfigError(ValueError):
    """The configuration cannot be used; the text says which key and why."""


_OLD_NAMES = {"idle_reserve_s": "idle_hold_s", "quarantine_s": "hold_s"}
"""Of keys that have a new one; they are read for one more version."""


def _renamed(name: str) -> AliasChoices:
    return AliasChoices(name, _OLD_NAMES[name])


class Config(Pluggable):
    """What `balancer serve` needs to know. `plugins`: those from files, `FILE.py:NAME`.

    Times are cluster time, but for `confirm_poll_s`, `confirm_limit_s`, `hangup_s`, `return_s` and `mark_wait_s`.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    nodes: list[str] | str
    driver: str | dict[str, Any] = "torque"
    cloud: str | dict[str, Any] | None = None
    algorithm: str | dict[str, Any] = "basic"
    reserve: Annotated[int, Field(ge=0)] = 0
    reserve_rule: ReserveRule = ReserveRule.FIXED
    wait_s: SomeSeconds = 0.0
    idle_reserve_s: SomeSeconds = Field(600.0, validation_alias=_renamed("idle_reserve_s"))
    at_once_s: PositiveSeconds = 5.0
    confirm_s: SomeSeconds = 60.0
    lease_s: PositiveSeconds | None = None
    hangup_s: SomeSeconds = 5.0
    return_s: SomeSeconds = 120.0
    mark_wait_s: SomeSeconds = 0.5
    pick: PickOrder = PickOrder.LONGEST_IDLE
    db: Name = "balancer.db"
    host: Name = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = DEFAULT_PORT
    allowed_hosts: list[str] | None = None
    insecure_bind: bool = False
    auth: bool | None = None
    token_file: FileName | None = None
    hook_key_file: FileName | None = None
    hook_skew_s: PositiveSeconds = 60.0
    tls_cert: FileName | None = None
    tls_key: FileName | None = None
    tls_client_ca: FileName | None = None
    unix_socket: FileName | None = None
    rate_per_s: Annotated[float, Field(ge=0)] = 1000.0
    rate_burst: Annotated[int, Field(ge=1)] = 2000
    max_body_bytes: Annotated[int, Field(ge=1024)] = 4 * 1024 * 1024
    max_waiting_requests: Annotated[int, Field(ge=1)] = 10_000
    max_reserves: Annotated[int, Field(ge=1)] = 10_000
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    ready_file: FileName | None = None
    clock: str | dict[str, dict[str, Any]] = "wall"
    threads: Annotated[int, Field(ge=2, le=1000)] = 32
    max_streams: Annotated[int, Field(ge=1, le=1000)] = 32
    max_connections: Annotated[int, Field(ge=16, le=100_000)] = 8192
    reconcile_period_s: SomeSeconds = 60.0
    refresh_age_s: SomeSeconds = 1.0
    confirm_poll_s: PositiveSeconds = 1.0
    confirm_limit_s: PositiveSeconds = 30.0
    quarantine_s: SomeSeconds = Field(600.0, validation_alias=_renamed("quarantine_s"))
    failed_after_s: PositiveSeconds | None = 60.0
    unreachable_s: PositiveSeconds = 90.0
    calendar_origin_s: SomeSeconds = 0.0
    freeze_file: FileName | None = None
    disable_file: Name | None = None

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_truth_values(cls, value: Any, info: ValidationInfo) -> Any:
        return wrong_values.no_truth_value(value, cls.model_fields[info.field_name or ""].annotation)

    @property
    def max_waiting(self) -> int:
        """Calls that may block at a time: a quarter of the threads is left for hooks and everybody else."""
        return max(1, self.threads * 3 // 4)

    def node_names(self) -> list[str]:
        """Raises ConfigError."""
        try:
            return read_nodes(self.nodes) if isinstance(self.nodes, str) else expand(",".join(self.nodes))
        except (NodeListError, OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"nodes: {error}") from error

    def lifecycle_settings(self) -> Settings:
        return Settings(
            static_reserve=self.reserve,
            reserve_rule=self.reserve_rule,
            wait_us=micros(self.wait_s),
            idle_reserve_us=micros(self.idle_reserve_s),
            pick=self.pick,
            at_once_us=micros(self.at_once_s),
            confirm_us=micros(self.confirm_s),
            lease_us=micros_or_none(self.lease_s),
        )

    def engine_settings(self) -> EngineSettings:
        return EngineSettings(
            reconcile_period_s=self.reconcile_period_s,
            refresh_age_s=self.refresh_age_s,
            unreachable_s=self.unreachable_s,
            max_waiting_requests=self.max_waiting_requests,
            max_reserves=self.max_reserves,
            mark_wait_s=self.mark_wait_s,
            callers=CallerSettings(hangup_s=self.hangup_s, return_s=self.return_s),
            quarantine_s=self.quarantine_s,
            calendar_origin_us=micros(self.calendar_origin_s),
            failed_after_s=self.failed_after_s,
            commands=CommandSettings(
                confirm_poll_s=self.confirm_poll_s, confirm_limit_s=self.confirm_limit_s
            ),
        )

    def limits(self) -> Limits:
        return Limits(
            threads=self.threads,
            streams=self.max_streams,
            max_body_bytes=self.max_body_bytes,
            max_connections=self.max_connections,
        )

    def make_algorithm(self) -> Algorithm:
        """Raises ConfigError."""
        made: Algorithm = self._made("algorithm", ALGORITHMS, self.algorithm)
        return made

    @property
    def algorithm_name(self) -> str:
        """Raises ConfigError."""
        try:
            return name_of(ALGORITHMS, self.algorithm)
        except PluginError as error:
            raise ConfigError(f"algorithm: {error}") from error

    def make_driver(self) -> BatchDriver:
        """Raises ConfigError."""
        made: BatchDriver = self._made("driver", BATCH_DRIVERS, self.driver)
        return made

    def make_cloud(self) -> CloudDriver | None:
        """None: reconcile asks no cloud. Raises ConfigError."""
        if self.cloud is None:
            return None
        made: CloudDriver = self._made("cloud", CLOUD_DRIVERS, self.cloud)
        return made

    def make_clock(self) -> Clock:
        """Raises ConfigError."""
        made: Clock = self._made("clock", CLOCKS, self.clock)
        return made

    def _made(self, key: str, group: str, item: object) -> Any:
        try:
            with self.plugged_in():
                return make_plugin(group, item)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{key}: {error}") from error

    @property
    def is_loopback(self) -> bool:
        return self.host in _LOOPBACK

    @property
    def authenticates(self) -> bool:
        """Whether callers must say who they are: beyond loopback unless that was refused twice."""
        return not (self.is_loopback or self.insecure_bind) if self.auth is None else self.auth

    def beside_ledger(self, path: Path | None, suffix: str) -> Path:
        """The given file, or the one named after the ledger. Raises ConfigError."""
        if path is not None:
            return path
        if "://" in self.db:
            raise ConfigError("token_file and hook_key_file must be given when the ledger is not a file")
        return Path(self.db + suffix)

    def freeze(self) -> Freeze | None:
        """None: the ledger is no file, and none was named for it."""
        if self.freeze_file is None and "://" in self.db:
            return None
        return Freeze(self.freeze_file or Path(self.db + ".frozen"))

    @property
    def tokens_path(self) -> Path:
        return self.beside_ledger(self.token_file, ".tokens")

    @property
    def hook_keys_path(self) -> Path:
        return self.beside_ledger(self.hook_key_file, ".hook-keys")

    def hosts(self) -> frozenset[str] | None:
        """Names by which the service may be called. With tokens any: a page under another name has none."""
        if self.allowed_hosts is None and self.authenticates:
            return None
        names = ("localhost", socket.gethostname(), socket.getfqdn(), self.host)
        return frozenset(name.lower() for name in (*names, *(self.allowed_hosts or ())))

    def check_bind(self) -> None:
        """Whoever reaches a port without authentication may take nodes. Raises ConfigError."""
        if not self.is_loopback and not self.authenticates and not self.insecure_bind:
            raise ConfigError(
                f"host: {self.host} can be reached from outside, and calls are not authenticated: "
                "anybody there could move nodes. Leave `auth` on, bind to 127.0.0.1, or give --insecure-bind "
                "if you trust them"
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigError("tls_cert and tls_key go together: give both or none")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ConfigError("tls_client_ca: callers can only show a certificate where tls_cert is given")


def read_config(path: Path | None, options: Mapping[str, Any]) -> Config:
    """The file's keys with the given options over them. Raises ConfigError."""
    values: dict[str, Any] = {}
    if path is not None:
        try:
            loaded = read_yaml(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read: {error}") from error
        except yaml.YAMLError as error:
            raise ConfigError(f"{path}{wrong_values.not_yaml(error)}") from error
        if not isinstance(loaded, dict):
            raise ConfigError(f"{path} must hold keys and values, like `nodes: n[001-064]`")
        values = loaded
        try:
            values |= {"plugins": resolved(values["plugins"], path.parent)} if "plugins" in values else {}
        except ValueError as error:
            raise ConfigError(f"{path}: plugins: {reason(error)}") from error
    given = {name: value for name, value in options.items() if value is not None}
    written_over = {_OLD_NAMES.get(name) for name in given}
    values = {name: value for name, value in values.items() if name not in written_over} | given
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(_sentences(error, path, given))) from error


def _sentences(error: ValidationError, path: Path | None, given: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each wrong key, after the file where it stands there."""
    for wrong in error.errors(include_url=False):
        of_file = path is not None and wrong["loc"][:1] not in {(name,) for name in given}
        key = str(wrong["loc"][0]) if len(wrong["loc"]) == 1 and wrong["type"] == "extra_forbidden" else ""
        hint = nearest(key, Config.model_fields) if key and key not in _OLD_NAMES.values() else ""
        yield (f"{path}: " if of_file else "") + wrong_values.sentence(wrong) + hint
