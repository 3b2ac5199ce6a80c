"""Parts of a scenario about nodes and jobs: their power, whose they are, which go together, what of them jobs have.

`docs/energy.md`, `docs/placement.md`, `docs/shared-nodes.md`, `docs/moldable.md`; and
limits and QOS of jobs, `docs/job-rules.md`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from balancer.wrong_values import no_truth_value


class Part(BaseModel):
    """A mapping of a scenario: unknown keys and numbers that are none are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_truth_values(cls, value: Any, info: ValidationInfo) -> Any:
        return no_truth_value(value, cls.model_fields[info.field_name or ""].annotation)


class EnergyPart(Part):
    """Powers of a node in watts, and when it is switched off (docs/energy.md).

    `sleep_after_s`: a node that has been idle for so long shuts down; null: never. `boot_w` is `busy_w` and
    `shutdown_w` is `idle_w` unless they are given.
    """

    busy_w: float = Field(ge=0)
    idle_w: float = Field(ge=0)
    sleep_w: float = Field(default=0, ge=0)
    boot_w: float | None = Field(default=None, ge=0)
    shutdown_w: float | None = Field(default=None, ge=0)
    down_w: float = Field(default=0, ge=0)
    sleep_after_s: float | None = Field(default=None, ge=0)
    shutdown_s: float = Field(default=0, ge=0, le=86_400)
    boot_s: float = Field(default=0, ge=0, le=86_400)


class LimitPart(Part):
    """At most `jobs` jobs and `nodes` nodes of each user, group or queue queued or running at once (docs/job-rules.md).

    `node_h`: at most so many node-hours, as they are asked for. `only`: for these numbers alone.
    """

    by: Literal["user", "group", "queue"]
    jobs: int | None = Field(default=None, ge=1)
    nodes: int | None = Field(default=None, ge=1)
    node_h: float | None = Field(default=None, gt=0, le=1e9)
    only: tuple[int, ...] | None = None

    @model_validator(mode="after")
    def _limits_something(self) -> LimitPart:
        if self.jobs is None and self.nodes is None and self.node_h is None:
            raise ValueError("give `jobs`, `nodes` or `node_h`")
        return self


class FeaturePart(Part):
    """`nodes` (a list of names, or ALL) have it; all jobs of `queues` and `users`, and `jobs`, ask for it."""

    nodes: str
    queues: tuple[int, ...] = ()
    users: tuple[int, ...] = ()
    jobs: tuple[int, ...] = ()


class PartitionPart(Part):
    """`nodes` (a list of names, or ALL) are for the jobs of `queues`, with `default` also for those of all others.

    Jobs of a higher `priority_tier` are looked at first. Jobs beyond the limits are left out.
    """

    nodes: str = "ALL"
    queues: tuple[int, ...] = ()
    default: bool = False
    priority_tier: int = Field(default=1, ge=0, le=65_533)
    min_nodes: int = Field(default=1, ge=1)
    max_nodes: int | None = Field(default=None, ge=1)
    max_time_s: float | None = Field(default=None, gt=0)


class QosJobsPart(Part):
    """All jobs of `queues`, `partitions` (by name), `users` and `groups`, and `jobs`, have this QOS."""

    queues: tuple[int, ...] = ()
    partitions: tuple[str, ...] = ()
    users: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()
    jobs: tuple[int, ...] = ()


class QosPart(Part):
    """QOS under the plain schedulers (docs/job-rules.md).

    `table`: what `sacctmgr show qos --parsable2` printed, or its columns. `cpus_per_node`: for limits in `cpu`. `who`:
    which jobs have which QOS; all others have `default`.
    """

    table: Path | dict[str, dict[str, int | float | str]]
    cpus_per_node: int | None = Field(default=None, ge=1)
    who: dict[str, QosJobsPart] = Field(default_factory=dict)
    default: str = "normal"


class ReservationPart(Part):
    """Nodes that are kept from `start_s` to `end_s` for all jobs of `users` and for `jobs`, with neither for nobody.

    `nodes`: a list of names (`n[001-008]`), or ALL; or `node_count`, how many. Without either: all.
    """

    start_s: float = Field(ge=0)
    end_s: float
    nodes: str | None = None
    node_count: int | None = Field(default=None, ge=1)
    users: tuple[int, ...] = ()
    jobs: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _is_a_span(self) -> ReservationPart:
        if self.end_s <= self.start_s:
            raise ValueError(f"end_s must lie behind start_s, {self.start_s:g}, not {self.end_s:g}")
        if self.node_count is not None and self.nodes is not None:
            raise ValueError("give `nodes` or `node_count`, not both")
        return self


class ExclusivePart(Part):
    """All jobs of `queues` and `users`, and `jobs`, have whole nodes."""

    queues: tuple[int, ...] = ()
    users: tuple[int, ...] = ()
    jobs: tuple[int, ...] = ()


class NodeKindPart(Part):
    """These `nodes` (a list of names, or ALL) have `cores`, `memory_gib` and `gpus` each."""

    nodes: str
    cores: int = Field(ge=1, le=4096)
    memory_gib: float | None = Field(default=None, gt=0, le=1_000_000)
    gpus: int | None = Field(default=None, ge=0, le=4096)


class SharedNodesPart(Part):
    """Jobs share nodes; each has `cores`, `memory_gib` and `gpus` (null: nobody looks at it), or those of its kind.

    `job_memory`: what a job of the trace takes, SWF field 10 (requested) or 7 (used). `placement`: on the nodes with
    the lowest numbers that have room, or on those with the fewest free cores. `exclusive`: who has whole nodes.
    """

    cores: int | None = Field(default=None, ge=1, le=4096)
    memory_gib: float | None = Field(default=None, gt=0, le=1_000_000)
    gpus: int | None = Field(default=None, ge=1, le=4096)
    kinds: dict[str, NodeKindPart] = Field(default_factory=dict)
    job_memory: Literal["requested", "used"] = "requested"
    placement: Literal["first_fit", "best_fit"] = "first_fit"
    exclusive: ExclusivePart = ExclusivePart()

    @model_validator(mode="after")
    def _says_what_nodes_have(self) -> SharedNodesPart:
        if (self.cores is None) != bool(self.kinds):
            raise ValueError("give `cores`, if all nodes have as many, or `kinds`")
        if self.kinds and (self.memory_gib is not None or self.gpus is not None):
            raise ValueError("with `kinds` each of them has memory_gib and gpus of its own")
        return self

    @property
    def has_memory(self) -> bool:
        """Whether somebody looks at memory."""
        return self.memory_gib is not None or any(each.memory_gib is not None for each in self.kinds.values())


class SwitchPart(Part):
    """A switch of a tree: the `nodes` (a list of names) on it, or the `switches` below it."""

    nodes: str | None = None
    switches: str | None = None


class PlacementPart(Part):
    """Which nodes a job gets together (docs/placement.md).

    `switch_nodes`: of a tree, nodes on a leaf switch, or `switches`: a topology.conf, or what it says; `group_nodes`:
    of a dragonfly, nodes in a group; `dimensions` and `curve`: of a torus. `spread_penalty`: by which share a run takes
    longer for each switch, group or piece too many.
    """

    policy: Literal["basic", "contiguous", "best_effort_contiguous", "local", "best_effort_local"]
    topology: Literal["line", "tree", "torus", "dragonfly"] = "line"
    switch_nodes: int | None = Field(default=None, ge=1)
    switches: Path | dict[str, SwitchPart] | None = None
    group_nodes: int | None = Field(default=None, ge=1)
    dimensions: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(), max_length=6)
    curve: Literal["snake", "hilbert"] | None = None
    spread_penalty: float = Field(default=0, ge=0, le=1000)

    @model_validator(mode="after")
    def _has_what_the_topology_needs(self) -> PlacementPart:
        needs = {"tree": "switch_nodes", "dragonfly": "group_nodes", "torus": "dimensions"}
        if self.switches:
            if self.switch_nodes is not None:
                raise ValueError("give `switch_nodes` or `switches`, not both")
            needs["tree"] = "switches"
        for topology, key in needs.items():
            given = bool(getattr(self, key))
            if given != (topology == self.topology):
                wrong = f"{key} is of a {topology}" if given else f"a {topology} needs {key}"
                raise ValueError(f"topology {self.topology}: {wrong}")
        if self.curve is not None and self.topology != "torus":
            raise ValueError(f"topology {self.topology}: curve is of a torus")
        if self.policy.endswith("local") and self.topology not in {"tree", "dragonfly"}:
            raise ValueError(
                f"policy {self.policy}: a {self.topology} has no switches or groups; take "
                f"{self.policy.replace('local', 'contiguous')}"
            )
        return self


class MoldablePart(Part):
    """Jobs that can run at several sizes, one of which the scheduler chooses (docs/moldable.md).

    `sizes`, as multiples of the nodes asked for, are those of a `share` of all batch jobs, or of those of `users`,
    `queues` and `jobs`; `file` has the sizes of single jobs. `speedup`: how run times follow, a plug-in.
    """

    choose: Literal["earliest_end", "widest_now", "at_submit"] = "earliest_end"
    sizes: tuple[Annotated[float, Field(gt=0, le=1_000_000)], ...] = Field(default=(), max_length=1000)
    share: float = Field(default=1, ge=0, le=1)
    users: tuple[int, ...] = ()
    queues: tuple[int, ...] = ()
    jobs: tuple[int, ...] = ()
    speedup: str | dict[str, Any] = "linear"
    file: Path | None = None

    @model_validator(mode="after")
    def _says_whose_sizes(self) -> MoldablePart:
        for key in ("share", "users", "queues", "jobs"):
            if not self.sizes and getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(f"`{key}` says whose `sizes` they are; give `sizes`")
        return self
