"""What a study of a year costs: 52 weeks of the Balancer paper's site, 30 settings, 1,560 runs.

python benchmarks/study.py [--weeks N] [--jobs N] [--quick] [--json] [--traces FOLDER]

Wall time of `emulator study merge` from the logs to the report. On an idle machine of two cores it is to be below five
minutes. `--weeks 4` is a look, `--quick` one week with five settings.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from speed_rows import print_rows, row
from workloads import TRACES

from balancer.clock import US, wall_us

ROOT = Path(__file__).parents[1]
SETTINGS = (
    "--reserve",
    "0,6,12,24,34",
    "--wait-min",
    "0,5,10,20,30",
    "--notice-min",
    "15,30",
    "--predictor",
    "peak",
)
"""With the split and batch only, thirty."""
QUICK = ("--reserve", "6", "--wait-min", "0", "--notice-min", "30", "--predictor", "peak")
"""With those two, five."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--weeks", type=int, default=52)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--traces", type=Path, default=TRACES)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        begin_us = wall_us()
        subprocess.run(
            [sys.executable, "-c", "from emulator.cli import main; main(prog_name='emulator')", "study", "merge",
             "--batch", str(given.traces / "lcrc"), "--ondemand", str(given.traces / "aps"), "--nodes", "304+68",
             "--accept-today", "100",
             "--weeks", str(1 if given.quick else given.weeks), "--pairings", "1", "--jobs", str(given.jobs), "--out",
             folder, "--quiet", *(QUICK if given.quick else SETTINGS)],
            check=True, cwd=ROOT, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        wall_s = (wall_us() - begin_us) / US
        document = json.loads((Path(folder) / "study.json").read_text())
    weeks, settings = len(document["weeks"]), len(document["settings"])
    what = f"{weeks} weeks, {settings} settings, {given.jobs} processes"
    found = {
        "runs": weeks * settings,
        "wall_s": round(wall_s, 1),
        "load_of_machine": round(os.getloadavg()[0], 1),
    }
    if given.json:
        print_rows([row(what, found)])
    else:
        print("\n".join((what, *(f"{name:16} {value}" for name, value in found.items()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
