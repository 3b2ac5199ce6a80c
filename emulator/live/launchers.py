"""What each way to start a live run carries out of `live`, and the one check of a scenario against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.live.batch_system import make_batch_system
from emulator.live.ondemand_system import make_ondemand_system
from emulator.runs.scenario import ScenarioError

if TYPE_CHECKING:
    from emulator.runs.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Launcher:
    """A way to start a live run. What is None here it carries out whatever the scenario says.

    `hooks`: the value of `live.hooks` that it has, for one that cannot choose. `why`: ends each refusal.
    """

    name: str
    why: str
    batch: str | None = None
    ondemand: str | None = None
    hooks: str | None = None
    has_cpu_bound_jobs: bool = True
    has_faults: bool = True

    def check(self, scenario: Scenario) -> None:
        """Raise ScenarioError, with the key, for what it does not carry out. Nothing has begun yet."""
        live = scenario.live
        choices = {
            "batch": (self.batch, live.batch_name),
            "ondemand": (self.ondemand, live.ondemand_name),
            # Nobody has chosen what is only a default.
            "hooks": (self.hooks, live.hooks if "hooks" in live.model_fields_set else self.hooks),
        }
        for key, (known, value) in choices.items():
            if known not in (None, value):
                raise ScenarioError(f"live.{key}: {self.name} has {known} only, not {value}; {self.why}")
        if live.jobs == "cpu-bound" and not self.has_cpu_bound_jobs:
            raise ScenarioError(f"live.jobs: {self.name} has no cpu-bound jobs; {self.why}")
        if live.faults and not self.has_faults:
            raise ScenarioError(f"live.faults: {self.name} plays no faults; {self.why}")
        make_batch_system(scenario)
        make_ondemand_system(scenario)
