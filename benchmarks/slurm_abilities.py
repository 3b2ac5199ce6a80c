"""What works with each release of Slurm: the tests of the real one, counted by ability and release.

    scripts/slurm-root 24.11                # once for each release; needs root
    python benchmarks/slurm_abilities.py    # twenty minutes; --release 24.11 for one

Exit status 1 means that a test failed or was skipped; its output is on standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.etree import ElementTree as ET

from emulator.live.slurm.programs import Programs
from emulator.schedulers.slurm.releases import RELEASES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("tests/balancer/drivers", "tests/emulator/live/slurm")
ABILITIES = {
    "power saving": ("switched_off", "power_saving_switches"),
    "text of its commands": ("test_slurm_releases.", "test_slurm_site."),
    "driver": ("test_real_slurm.",),
    "service and its faults": ("test_real_slurm_service.",),
    "service under load": ("test_real_slurm_load.",),
    "a day of the emulator": ("test_the_default_scenario", "that_is_broken_off"),
    "nodes and controllers that fail": ("test_nodes_fail", "test_a_controller_that_dies"),
    "advance reservations": ("test_reservations_of_the_scenario",),
    "jobs that share nodes": ("wait_for_gpus", "test_the_twin_starts_the_jobs_of_a_slice"),
    "preemption": ("takes_the_nodes",),
    "mechanisms": ("test_slurm_mechanisms.",),
    "slurmdbd": ("test_database.",),
}
"""By name: parts of `MODULE.TEST`; a test counts for the first that it has."""


class Outcome(NamedTuple):
    """A test on a release: `test` is `MODULE.TEST`."""

    release: str
    test: str
    passed: bool


def ability_of(test: str) -> str:
    """Raises ValueError for a test of none."""
    for ability, parts in ABILITIES.items():
        if any(part in test for part in parts):
            return ability
    raise ValueError(
        f"{test}: is a test of none of the abilities of benchmarks/slurm_abilities.py; add it there"
    )


def outcomes(report: str, releases: Iterable[str]) -> list[Outcome]:
    """Of the tests whose name in brackets has one of the releases, from pytest's report in XML."""
    found = []
    for case in ET.fromstring(report).iter("testcase"):  # noqa: S314 - our own pytest wrote it
        module = case.get("classname", "").rpartition(".")[2]
        name, _, parameters = case.get("name", "").partition("[")
        for release in set(parameters.rstrip("]").split("-")).intersection(releases):
            passed = all(case.find(what) is None for what in ("failure", "error", "skipped"))
            found.append(Outcome(release, f"{module}.{name}", passed))
    return found


def run(releases: Sequence[str]) -> tuple[list[Outcome], int]:
    """Outcomes, and pytest's exit status. What it prints goes to standard error."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ["-m", "", "-k", " or ".join(releases), "--junitxml", str(report), "--timeout", "0"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *FOLDERS, *options, "--numprocesses", "2"],
            cwd=ROOT,
            env=os.environ | {"BALANCER_TEST_GATE": "releases", "CI": "1"},
            stdout=sys.stderr,
            check=False,
        )
        return outcomes(report.read_text("utf-8"), releases), done.returncode


def rows(found: Iterable[Outcome], versions: dict[str, str]) -> list[dict[str, object]]:
    """By ability, then release. `versions`: Slurm's, by release."""
    tests, passed = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for outcome in found:
        place = ability_of(outcome.test), outcome.release
        tests[place] += 1
        passed[place] += outcome.passed
    return [
        {
            "ability": ability,
            "slurm": version,
            "tests": tests[ability, release],
            "passed": passed[ability, release],
        }
        for ability in ABILITIES
        for release, version in versions.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--release", choices=RELEASES, action="append", help="only this one; may be repeated")
    parser.add_argument("--json", action="store_true", help="as rows for the results file")
    options = parser.parse_args()
    releases = options.release or RELEASES
    cache = Path(os.environ.get("SLURM_ROOT_DIR", "/var/cache/balancer-slurm"))
    for release in releases:
        if not (cache / f"{release}.made").exists():
            parser.error(f"{cache / release}: is not there; make it by scripts/slurm-root {release}")
    versions = {release: Programs(root=cache / release).version() for release in releases}
    found, status = run(releases)
    counted = rows(found, versions)
    if options.json:
        print(json.dumps(counted, indent=1))
    else:
        for row in counted:
            print(f"{row['ability']:<32} Slurm {row['slurm']:<9} {row['passed']} of {row['tests']} passed")
    return status


if __name__ == "__main__":
    sys.exit(main())
