"""Parts of a scenario about nodes: their power, whose they are, which go together, what of them jobs have.

`docs/energy.md`, `docs/placement.md`, `docs/shared-nodes.md`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Part(BaseModel):
    """A mapping of a scenario: unknown keys and numbers that are none are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


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


class SharedNodesPart(Part):
    """Jobs share nodes; each node has `cores`, `memory_gib` and `gpus` (null: nobody looks at it).

    `job_memory`: what a job of the trace takes, SWF field 10 (requested) or 7 (used). `placement`: on the nodes with
    the lowest numbers that have room, or on those with the fewest free cores. `exclusive`: who has whole nodes.
    """

    cores: int = Field(ge=1, le=4096)
    memory_gib: float | None = Field(default=None, gt=0, le=1_000_000)
    gpus: int | None = Field(default=None, ge=1, le=4096)
    job_memory: Literal["requested", "used"] = "requested"
    placement: Literal["first_fit", "best_fit"] = "first_fit"
    exclusive: ExclusivePart = ExclusivePart()


class PlacementPart(Part):
    """Which nodes a job gets together (docs/placement.md).

    `switch_nodes`: of a tree, nodes on a leaf switch; `group_nodes`: of a dragonfly, nodes in a group; `dimensions` and
    `curve`: of a torus. `spread_penalty`: by which share a run takes longer for each switch, group or piece too many.
    """

    policy: Literal["basic", "contiguous", "best_effort_contiguous", "local", "best_effort_local"]
    topology: Literal["line", "tree", "torus", "dragonfly"] = "line"
    switch_nodes: int | None = Field(default=None, ge=1)
    group_nodes: int | None = Field(default=None, ge=1)
    dimensions: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(), max_length=6)
    curve: Literal["snake", "hilbert"] | None = None
    spread_penalty: float = Field(default=0, ge=0, le=1000)

    @model_validator(mode="after")
    def _has_what_the_topology_needs(self) -> PlacementPart:
        needs = {"tree": "switch_nodes", "dragonfly": "group_nodes", "torus": "dimensions"}
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
