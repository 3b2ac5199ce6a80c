"""The settings of the batch server. Where Torque has the setting, the default is Torque's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from balancer.plugin_files import Pluggable
from emulator.config.run_parts import FailuresPart
from emulator.live.settings import NodeNames, Settings
from emulator.live.torque.errors import PbsError
from emulator.live.torque.jobs import walltime_us
from emulator.plugins import KINDS
from emulator.schedulers.config import SchedulerConfig


class ServerConfig(Pluggable, Settings):
    """`emulator.live.torque.server --config FILE`; durations in seconds of cluster time.

    `home` holds the accounting log, the marks that survive a restart, and `address` (where it listens).
    `cycle_after_offline`: schedule also when nodes have been set offline (Torque does not), as virtual time
    does after each decision: without these nodes another job may be backfilled.
    `nodes` empty: the server learns its nodes, by name, address, cores and memory, from the first `expect_nodes`
    that register, and remembers them. `keep_jobs`: a server that is started again knows all its jobs.
    `epoch_s` is the unix time of cluster time 0 (not used without a clock file: then time is the machine's).
    `mechanism` (as in a scenario) decides about on-demand jobs and running ones; it knows the jobs of `workload`,
    a file of `emulator.workload.store`, and no others are taken then. `seed` is the run's, `plugins` are its files.
    `failures` (as in a scenario): these nodes fail, as in virtual time.
    """

    home: Path
    nodes: NodeNames = ()
    expect_nodes: int = Field(0, ge=0)
    keep_jobs: bool = False
    np: int = Field(1, ge=1)
    host: str = "127.0.0.1"
    port: int = Field(0, ge=0, le=65535)
    server_name: str = "server"
    queues: tuple[str, ...] = Field(("batch",), min_length=1)
    scheduler: SchedulerConfig = SchedulerConfig()
    managers: tuple[str, ...] = ("root",)
    root_may_submit: bool = False
    epoch_s: int = 1_767_225_600
    default_walltime: str = "01:00:00"
    scheduler_iteration_s: float = Field(600.0, gt=0)
    keep_completed_s: float = Field(300.0, ge=0)
    node_down_after_s: float = Field(214.0, ge=0)
    requeue_delay_s: float = Field(1.0, gt=0)
    maui_defer_s: float = Field(0.0, ge=0)
    cycle_after_offline: bool = False
    mechanism: str | dict[str, Any] | None = None
    workload: Path | None = None
    seed: int = 0
    failures: FailuresPart | None = None

    plugin_kinds = KINDS

    @field_validator("scheduler", mode="before")
    @classmethod
    def _scheduler(cls, value: Any) -> SchedulerConfig:
        match value:
            case SchedulerConfig():
                return value
            case str():
                return SchedulerConfig.parse(value)
            case dict():
                return SchedulerConfig.from_mapping(value)
        raise ValueError("expected ORDER+BACKFILL, for example fcfs+easy, or a mapping of scheduler options")

    @field_validator("default_walltime")
    @classmethod
    def _walltime(cls, text: str) -> str:
        try:
            walltime_us(text)
        except PbsError as error:
            raise ValueError(f"expected HH:MM:SS, not {text!r}") from error
        return text

    @model_validator(mode="after")
    def _fits_together(self) -> ServerConfig:
        if (self.mechanism is None) != (self.workload is None):
            raise ValueError("give both mechanism and workload, or neither of them")
        if bool(self.nodes) == bool(self.expect_nodes):
            raise ValueError("give either nodes (names) or expect_nodes (how many will register)")
        return self

    @property
    def default_walltime_us(self) -> int:
        return walltime_us(self.default_walltime)
