"""Tests on each release of Slurm are counted by what they are of."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def _benchmark() -> Any:
    spec = spec_from_file_location("slurm_abilities", ROOT / "benchmarks" / "slurm_abilities.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


counting = _benchmark()
REPORT = """<testsuites><testsuite>
<testcase classname="tests.balancer.drivers.test_real_slurm" name="test_lends[26.05]"/>
<testcase classname="tests.balancer.drivers.test_real_slurm" name="test_wakes[26.05]"><failure/></testcase>
<testcase classname="tests.balancer.drivers.test_real_slurm" name="test_lends[here]"/>
<testcase classname="tests.emulator.live.slurm.test_database" name="test_runs[24.11-slurmdbd]"><skipped/></testcase>
<testcase classname="tests.emulator.live.slurm.test_database" name="test_runs[24.11]"/>
<testcase classname="tests.emulator.live.slurm.test_database" name="test_alone"/>
</testsuite></testsuites>"""


def test_what_failed_or_was_skipped_has_not_passed_and_other_slurms_do_not_count() -> None:
    found = counting.outcomes(REPORT, ("24.11", "26.05"))
    assert [tuple(outcome) for outcome in found] == [
        ("26.05", "test_real_slurm.test_lends", True),
        ("26.05", "test_real_slurm.test_wakes", False),
        ("24.11", "test_database.test_runs", False),
        ("24.11", "test_database.test_runs", True),
    ]
    rows = counting.rows(found, {"24.11": "24.11.5", "26.05": "26.05.5"})
    assert [row for row in rows if row["tests"]] == [
        {"ability": "driver", "slurm": "26.05.5", "tests": 2, "passed": 1},
        {"ability": "slurmdbd", "slurm": "24.11.5", "tests": 2, "passed": 1},
    ]


def test_a_test_of_no_ability_is_named() -> None:
    with pytest.raises(ValueError, match=r"^test_other\.test_new: is a test of none of"):
        counting.ability_of("test_other.test_new")


@pytest.mark.slow
def test_each_test_on_a_release_is_of_an_ability_and_each_ability_has_one_on_each() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *counting.FOLDERS,
            "--collect-only",
            "-q",
            "-m",
            "",
        ],
        cwd=ROOT,
        env=os.environ | {"BALANCER_TEST_GATE": "releases"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = set()
    for line in done.stdout.splitlines():
        path, _, test = line.partition("::")
        name, _, parameters = test.partition("[")
        for release in set(parameters.rstrip("]").split("-")).intersection(counting.RELEASES):
            found.add((counting.ability_of(f"{Path(path).stem}.{name}"), release))
    assert found == {(ability, release) for ability in counting.ABILITIES for release in counting.RELEASES}
