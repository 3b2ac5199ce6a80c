"""A paper: runs, and claims about them, for `emulator reproduce`."""

from rich.table import Table

from emulator.experiments.claims import Claim
from emulator.experiments.criteria import less
from emulator.sweeps.grid import SweepFile, expand

_SCENARIO = {
    "nodes": 16,
    "workload": {"generate": [{"daily_batch": {"days": 1, "jobs": 100, "load": 0.9}}]},
}


class Backfilling:
    """Backfilling shortens the wait: one claim, two runs a seed."""

    title = "Does backfilling help?"
    reads_logs = False

    def about(self, options):
        return "A made day of 100 jobs on 16 nodes."

    def sweep(self, options):
        points = [
            {"label": "with", "scheduler": "fcfs+easy"},
            {"label": "without", "scheduler": "fcfs+none"},
        ]
        return expand(
            SweepFile(name="backfilling", scenario=_SCENARIO, points=points, seeds=options.seeds or 5),
            _SCENARIO,
        )

    def claims(self, options):
        return [
            Claim(
                id="wait",
                statement="Backfilling makes the mean wait shorter.",
                where="everywhere",
                paper="less than 1",
                measure=lambda world: world("with", "mean_wait_s") / world("without", "mean_wait_s"),
                criterion=less(0.05),  # by a twentieth at least, in most seeds (a sign test)
                show=lambda value: f"{value:.2f}",
            )
        ]

    def tables(self, found):
        table = Table("seed", "mean wait without", "with", title="Waits")
        for world in found:
            table.add_row(
                str(world.seed), *(f"{world(label, 'mean_wait_s'):.0f} s" for label in ("without", "with"))
            )
        return [table]


BACKFILLING = Backfilling()
