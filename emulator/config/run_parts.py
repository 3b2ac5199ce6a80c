"""Parts of a scenario about its run: the workload, the live run, failures and maintenance, and the figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from balancer.plugins import PluginError, name_of
from balancer.time_zones import zone_of
from emulator.config.scenario_parts import Part
from emulator.text.file_errors import refuse_odd_name
from emulator.workload.overruns import Overrun, Size

NO_NAME = "unnamed"
"""The name of a scenario that says none."""
OUR_BATCH_SYSTEM = "torque"
OUR_MANAGER = "manager"
_BATCH_SYSTEMS, _ONDEMAND_SYSTEMS = "emulator.batch_systems", "emulator.ondemand_systems"


_OF_A_TRACE = (
    "procs_per_node", "size", "origin_s", "zero_run", "no_estimate", "lenient", "dependencies", "cancelled",
    "queue_field", "usage_column", "time_zone",
)  # fmt: skip


class WorkloadPart(Part):
    """Where the jobs come from: a trace, generators or both, then transforms, in order.

    `dependencies`: whether a job starts after its preceding job (SWF field 17), or is submitted think time (field 18)
    after its end. `cancelled`: jobs that were cancelled end after their recorded run time, or are cancelled when
    they were. `queue_field`: what a job's queue is, SWF field 15 or 16. `usage_column`: of a table over time, the
    column that counts nodes, servers or cores in use. `time_zone`: whose clock wrote the trace's times that
    say no offset from UTC.
    """

    trace: Path | None = None
    generate: list[Any] = Field(default_factory=list)
    transforms: list[Any] = Field(default_factory=list)
    overrun: Overrun = "extend"
    procs_per_node: int = Field(default=1, ge=1)
    size: Size = "nodes"
    origin_s: float | None = Field(default=None, ge=0)
    zero_run: Literal["leave_out", "one_second"] = "leave_out"
    no_estimate: Literal["run_time", "leave_out"] = "run_time"
    lenient: bool = False
    dependencies: Literal["start", "submit"] | None = None
    cancelled: Literal["as_run", "at_time"] = "as_run"
    queue_field: Literal["queue", "partition"] = "queue"
    usage_column: str | None = None
    time_zone: str | None = None

    @field_validator("trace")
    @classmethod
    def _has_a_name_for_results(cls, path: Path | None) -> Path | None:
        if path is not None:
            refuse_odd_name(path)
        return path

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, name: str | None) -> str | None:
        if name is not None:
            zone_of(name)
        return name

    @model_validator(mode="after")
    def _a_source(self) -> WorkloadPart:
        if self.trace is None and not self.generate:
            raise ValueError("give `trace` or `generate`, or both")
        if self.trace is None:
            unused = [
                name for name in _OF_A_TRACE if getattr(self, name) != type(self).model_fields[name].default
            ]
            if unused:
                raise ValueError(f"{', '.join(unused)} says how a trace is read, and there is no `trace`")
        return self


class FaultPart(Part):
    """A fault of a live run (docs/containers.md): `do` it to `target` at `at_s`, undo it `for_s` later.

    `target`: a service, or a node by its name. Without `for_s` it lasts. `rate_kbit_s` (1000 without
    either) and `delay_ms` are of `slow`.
    """

    at_s: float = Field(ge=0)
    do: Literal["kill", "pause", "disconnect", "slow"]
    target: str
    for_s: float | None = Field(default=None, gt=0)
    rate_kbit_s: int | None = Field(default=None, ge=8)
    delay_ms: int | None = Field(default=None, ge=1)


class LivePart(Part):
    """How a live run is done (`--clock live`); without meaning in virtual time.

    `batch`: the batch system, a plug-in (`torque`: our own; `slurm`: the real one, docs/live-slurm.md).
    `ondemand`: whose servers the leases are, a plug-in (`manager`: our own; `nova`: the real one).
    `pace`: `held` (the clock waits for whoever has work due), `free` (it does not; the lag is measured) or
    `strict` (free, and the run fails when the lag exceeds `max_lag_s` of wall time). `hooks`: the Balancer's
    prologue and epilogue `in_process` in the node agent, or as `script`s, which take longer. `jobs`: they `sleep`,
    without a process, or each is an `emulator-job`, a process that does its work and proves it, or, where jobs share
    cores, `cpu-bound`: it computes all the time on this machine's processors, and is measured. `faults`: what goes
    wrong, to a process or a container. `patience_s` (wall time; 0: without end): how long a held clock waits for a
    process that does nothing; then it goes on without it, and the report says so.
    """

    batch: str | dict[str, Any] = OUR_BATCH_SYSTEM
    ondemand: str | dict[str, Any] = OUR_MANAGER
    speed: float = Field(default=600, gt=0)
    pace: Literal["held", "free", "strict"] = "held"
    max_lag_s: float = Field(default=2.0, gt=0)
    patience_s: float = Field(default=60, ge=0)
    hooks: Literal["in_process", "script"] = "in_process"
    jobs: Literal["sleep", "emulator-job", "cpu-bound"] = "sleep"
    faults: tuple[FaultPart, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _others_keep_their_own_time(cls, data: Any) -> Any:
        """What is not ours cannot be made to wait: unless something is said, it is not held."""
        if isinstance(data, dict) and "pace" not in data:
            try:
                batch = name_of(_BATCH_SYSTEMS, data.get("batch", OUR_BATCH_SYSTEM))
                ondemand = name_of(_ONDEMAND_SYSTEMS, data.get("ondemand", OUR_MANAGER))
            except PluginError:
                return data  # each key tells of its own
            if batch != OUR_BATCH_SYSTEM or ondemand != OUR_MANAGER:
                return {**data, "pace": "free"}
        return data

    @field_validator("batch")
    @classmethod
    def _names_a_batch_system(cls, item: str | dict[str, Any]) -> str | dict[str, Any]:
        name_of(_BATCH_SYSTEMS, item)
        return item

    @field_validator("ondemand")
    @classmethod
    def _names_an_ondemand_system(cls, item: str | dict[str, Any]) -> str | dict[str, Any]:
        name_of(_ONDEMAND_SYSTEMS, item)
        return item

    @property
    def batch_name(self) -> str:
        """The batch system's, whether parameters are said or not."""
        return name_of(_BATCH_SYSTEMS, self.batch)

    @property
    def ondemand_name(self) -> str:
        """The on-demand manager's, likewise."""
        return name_of(_ONDEMAND_SYSTEMS, self.ondemand)


class FailuresPart(Part):
    """Nodes that fail, in virtual time (docs/failures.md). `model` is a plug-in as `name: {parameters}`.

    `jobs`: those on a node that fails wait again (`requeue`), or are `lost`.
    """

    model: str | dict[str, Any]
    jobs: Literal["requeue", "lost"] = "requeue"


class MaintenancePart(Part):
    """Nodes that are down from `begin_s` to `end_s`, and again every `every_s`.

    `nodes`: all, or their names. No new job gets them from `drain_s` before the begin on. `jobs` as for failures.
    """

    begin_s: float = Field(ge=0)
    end_s: float
    nodes: Literal["all"] | tuple[str, ...] = "all"
    drain_s: float = Field(default=0, ge=0)
    every_s: float | None = None
    jobs: Literal["requeue", "lost"] = "requeue"

    @model_validator(mode="after")
    def _is_a_span(self) -> MaintenancePart:
        if self.end_s <= self.begin_s:
            raise ValueError(f"end_s must lie behind begin_s, {self.begin_s:g}, not {self.end_s:g}")
        if self.every_s is not None and self.every_s < self.end_s - self.begin_s + self.drain_s:
            raise ValueError(f"every_s, {self.every_s:g}, is shorter than what comes again, drain_s included")
        return self


class ResultsPart(Part):
    """How figures are computed. `window_s`: [begin, end] of a span that has figures of its own in a sweep.

    `window_without_queue`: jobs of this queue do not count among the span's jobs and waits (their node-time does).
    """

    bounded_slowdown_threshold_s: float = Field(default=10, gt=0)
    window_s: tuple[float, float] | None = None
    window_without_queue: int | None = Field(default=None, ge=0)

    @field_validator("window_s")
    @classmethod
    def _is_a_span(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not 0 <= value[0] < value[1]:
            raise ValueError(f"begin must be at least 0 and lie before end, not {list(value)}")
        return value
