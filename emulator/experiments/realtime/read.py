"""What the paper leaves open about its weeks and its file system, as options with names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from emulator.experiments.readings import Reading, value_of

if TYPE_CHECKING:
    from emulator.experiments.atlas.prior import Value
    from emulator.experiments.paper import Options

CAMPAIGN = Reading(
    "campaign", ("1", "30"), "how many jobs users submit together: one by one, or in campaigns"
)
LOAD = Reading("load", ("0.9", "0.95"), "how busy week a is: Table 1 does not say")
WIDEST = Reading(
    "widest", ("12288", "49152"), "the widest job of a week: a quarter of the machine, or all of it"
)
IO = Reading(
    "io",
    ("own", "shared"),
    "whether each job that writes a checkpoint has the file system's cap to itself, or all share it",
)
WEEKS = Reading(
    "weeks",
    ("alike", "any"),
    "which weeks count: those with a baseline slowdown of 6 to 10 (the paper's: 8), or all",
)
_MORE = ("gap_s", "run_spread", "share_power")
READINGS = (CAMPAIGN, LOAD, WIDEST, IO, WEEKS)


@dataclass(frozen=True, slots=True)
class ReadingChoice:
    """One way to read the paper."""

    campaign: float
    load: float
    widest: int
    shared_cap: bool
    alike_only: bool
    more: tuple[tuple[str, Value], ...] = ()
    """Parameters of the week that only a world of the atlas has."""
    resubmit: str = "back"

    @classmethod
    def of(cls, options: Options) -> Self:
        return cls(
            campaign=float(value_of(options, CAMPAIGN)),
            load=float(value_of(options, LOAD)),
            widest=int(value_of(options, WIDEST)),
            shared_cap=value_of(options, IO) == "shared",
            alike_only=value_of(options, WEEKS) == "alike" and not options.world,
            more=tuple((name, options.world[name]) for name in _MORE if name in options.world),
            resubmit=str(options.world.get("resubmit", "back")),
        )

    def week(self, name: str) -> dict[str, Any]:
        """The workload of a week. Only week a needs more than Table 1: its table's load gives a slowdown of 2."""
        params: dict[str, Any] = {
            "week": name,
            "campaign": self.campaign,
            "widest": self.widest,
            **dict(self.more),
        }
        return {"generate": [{"mira_week": params | ({"load": self.load} if name == "a" else {})}]}
