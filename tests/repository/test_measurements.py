"""The results file: commands renew it, the site's page shows it, and the manual does not say its figures again."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import measurements
import measurements_page
import pytest
from measurements import LiveRow, Measured, Measurements, PeerRow, ReleaseRow, SpeedRow, TwinRow

from balancer.version import VERSION
from emulator.live.slurm.calibration import Calibration

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
KEPT = measurements.load()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MEASURED: dict[str, Any] = {
    "command": "emulator run x",
    "emulator": "0.3.0",
    "date": "2026-11-23",
    "machine": "2 cores, idle",
}
TWIN: dict[str, Any] = {
    "scenario": "kth-light", "slurm": "22.05.8", "nodes": 100, "jobs": 106, "speed": 60.0, "real_mean_wait_s": 200.0,
    "twin_mean_wait_s": 199.0, "twin_least_mean_wait_s": 198.5, "twin_most_mean_wait_s": 1199.0,
    "median_start_off_s": 1.5, "bf_interval_s": 30,
}  # fmt: skip
RELEASE: dict[str, Any] = {"ability": "driver", "slurm": "26.05.5", "tests": 8, "passed": 7}
LIVE: dict[str, Any] = {
    "mechanism": "static_partition", "about": "two nodes apart", "nodes": 8, "jobs": 20, "decisions": 3,
    "starts_that_differ": 0, "states_that_differ": 0, "same_decisions": True, "is_same": True, "live_wall_s": 2.5,
    "live_speed": 4000.0,
}  # fmt: skip
PEER: dict[str, Any] = {
    "log": "KTH", "program": "accasim", "version": "1.1.3", "jobs": 1000, "jobs_per_s": 2463.0, "peak_mib": 45.0,
    "equal_textbook": 526, "equal_like": 1000,
}  # fmt: skip
SPEED: dict[str, Any] = {
    "benchmark": "ledger_recovery", "what": "10 nodes",
    "figures": {"nodes": 10.0, "recovery_s": 0.123, "file_mb": 22.0},
}  # fmt: skip
PRINTED: dict[str, Any] = SPEED | {"command": "python benchmarks/ledger_recovery.py --nodes 10"}
CALIBRATED: dict[str, Any] = TWIN | {"run": "runs/kth-light-slurm", "differences": [{"job": 1}, {"job": 2}]}


def few() -> Measurements:
    return Measurements(
        slurm_twin=(
            TwinRow(**MEASURED, **TWIN, jobs_beyond_bf_interval=2, note="Noted by hand."),
            TwinRow(**MEASURED, **TWIN | {"slurm": "26.05.5"}),
        ),
        slurm_releases=(
            ReleaseRow(**MEASURED, **RELEASE),
            ReleaseRow(**MEASURED, **RELEASE | {"ability": "slurmdbd", "slurm": "24.11.5"}),
        ),
        live=(LiveRow(**MEASURED, **LIVE),),
        peers=(PeerRow(**MEASURED, **PEER), PeerRow(**MEASURED, **PEER | {"program": "ours"})),
        speed=(
            SpeedRow(**MEASURED | PRINTED),
            SpeedRow(
                **MEASURED | PRINTED | {"what": "20 nodes", "figures": {"nodes": 20.0, "replay_s": 1150.0}}
            ),
            SpeedRow(**MEASURED | SPEED | {"command": "emulator run y", "what": "emulator run y --z"}),
        ),
    )


def tables(page: str) -> list[list[dict[str, str]]]:
    """The tables of a page: rows by the head of their columns."""
    found: list[list[list[str]]] = [[]]
    for line in page.splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip().replace("\u00a0", " ") for cell in line.strip("|").split(" | ")])
        elif found[-1]:
            found.append([])
    return [[dict(zip(rows[0], row, strict=True)) for row in rows[2:]] for rows in found if rows]


def test_the_file_is_as_the_command_writes_it() -> None:
    assert measurements.KEPT.read_text("utf-8") == measurements.text_of(KEPT)


def test_the_page_shows_each_row() -> None:
    page = measurements_page.sections(few())
    each_slurm, *twins, live, peers, speed, other = tables(page)
    assert each_slurm == [
        {"ability": "driver", "22.05": "\u2013", "24.11": "\u2013", "26.05": "7 of 8"},
        {"ability": "slurmdbd", "22.05": "\u2013", "24.11": "7 of 8", "26.05": "\u2013"},
        {
            "ability": "twin",
            "22.05": "1 of 18; 1 near",
            "24.11": "0 of 18; 0 near",
            "26.05": "1 of 18; 1 near",
        },
    ]
    first = {
        "slice": "`kth-light`", "nodes": "100", "jobs": "106", "wait on Slurm, s": "200.0",
        "wait in the twin, s": "199.0", "off": "-0.5 %", "range, s": "198.5 to 1\u202f199.0",
        "apart, median s": "1.50", "jobs far apart": "2", "`bf_interval`, s": "30", "speed": "60x", "Slurm": "22.05.8",
    }  # fmt: skip
    assert twins == [[first], [first | {"jobs far apart": "\u2013", "Slurm": "26.05.5"}]]
    said = "\n* `kth-light`: KTH, six hours of little work, first come first served."
    assert page.count(said) == 2
    assert f"{said} Noted by hand.\n\nMeasured: 2026-11-23, version 0.3.0; 2 cores, idle.\n" in page
    assert live == [
        {
            "mechanism": "static\\_partition", "nodes": "8", "jobs": "20", "decisions": "3", "other starts": "0",
            "other states": "0", "the same run": "yes", "wall s": "2.5", "speed": "4\u202f000x",
        }
    ]  # fmt: skip
    assert "\n* static\\_partition: two nodes apart.\n" in page
    theirs = {
        "log": "KTH", "program": "AccaSim 1.1.3", "jobs": "1\u202f000", "jobs per s": "2\u202f463", "peak, MiB": "45",
        "equal starts, textbook": "526", "equal starts, `like`": "1\u202f000",
    }  # fmt: skip
    assert peers == [theirs, theirs | {"program": "this emulator 1.1.3", "equal starts, `like`": "\u2013"}]
    ours = {"what": "10 nodes", "nodes": "10", "recovery s": "0.123", "file MB": "22"}
    assert speed == [
        ours | {"replay s": "\u2013"},
        {
            "what": "20 nodes",
            "nodes": "20",
            "recovery s": "\u2013",
            "file MB": "\u2013",
            "replay s": "1\u202f150",
        },
    ]
    assert other == [ours | {"what": "`emulator run y --z`"}]
    assert (
        "\n### Ledger recovery\n\nHow long a restart takes: a ledger of 10,000 nodes and 100,000 events is opened and "
        "its state restored.\n\n```text\npython benchmarks/ledger_recovery.py --nodes 10\n```\n\n| what | nodes |"
    ) in page


def test_the_page_says_which_rows_were_measured_elsewhere() -> None:
    before = few()
    later = before.peers[0].model_copy(update={"date": "2026-12-01", "machine": "4 cores, shared"})
    page = measurements_page.sections(before.model_copy(update={"peers": (later, before.peers[1])}))
    assert (
        "\nMeasured:\n\n* 2026-12-01, version 0.3.0; 4 cores, shared: AccaSim 1.1.3 on KTH\n"
        "* 2026-11-23, version 0.3.0; 2 cores, idle: this emulator 1.1.3 on KTH\n"
    ) in page


def test_the_page_says_what_was_not_measured() -> None:
    page = measurements_page.sections(few())
    count = len(list(measurements.SLICES.glob("*.yaml")))
    assert f"### Slurm 24.11\n\nNot measured: none of the {count} slices ran on it.\n" in page
    assert f"### Slurm 26.05\n\n1 of {count} slices. Not measured: `gaia-constraints`, `gaia-cores`, " in page


FIRST_COLUMNS = {"slice": "slurm_twin", "mechanism": "live", "log": "peers", "what": "speed"}


def test_the_page_has_a_row_for_each_of_the_file_and_its_command() -> None:
    page = measurements_page.sections(KEPT)
    first, *others = tables(page)
    assert {row["ability"] for row in first} == {"twin", *(row.ability for row in KEPT.slurm_releases)}
    counted = {name: sum(name in row for table in others for row in table) for name in FIRST_COLUMNS}
    assert counted == {name: len(getattr(KEPT, subject)) for name, subject in FIRST_COLUMNS.items()}
    commands = {row.command for subject in FIRST_COLUMNS.values() for row in getattr(KEPT, subject)}
    shown = {line.strip() for line in page.splitlines() if line.startswith("    ")}
    assert commands <= shown | set(re.findall(r"^```text\n(.*)\n```$", page, re.MULTILINE))


def figures(kept: Measurements) -> set[str]:
    """Those that no other thing has by chance, as a year has."""
    waits = {each for row in kept.slurm_twin for each in (row.real_mean_wait_s, row.twin_mean_wait_s)}
    counts = {each for row in kept.peers for each in (row.jobs_per_s, row.equal_textbook) if each != row.jobs}
    return {f"{each:.1f}" for each in waits} | {
        f"{each:.0f}" for each in counts if each and each >= 1000 and not 1990 <= each <= 2030
    }


def repeated(text: str, kept: Measurements) -> set[str]:
    """Figures of the file that a page says, too, however it groups thousands."""
    flat = re.sub(r"(?<=\d)[ ,\u00a0\u202f](?=\d{3}(?!\d))", "", text)
    return figures(kept) & set(re.findall(r"(?<![\d.])\d+(?:\.\d+)?(?![\d.]*\d)", flat))


def speeds(kept: Measurements) -> set[str]:
    """Those of at least three figures, of which the manual's page of benchmarks says none."""
    found = {f"{each:.15g}" for row in kept.speed for each in row.figures.values()}
    return {each for each in found if len(each.replace(".", "").strip("0")) >= 3}


def test_the_page_of_benchmarks_says_no_speed_and_links_to_all() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    assert set(re.findall(r"\d+\.\d+", page)) & speeds(KEPT) == set()
    linked = {each.replace("-", "_") for each in re.findall(r"measurements\.json#([\w-]+)", page)}
    assert {row.benchmark for row in KEPT.speed} <= linked


def test_no_page_says_a_figure_of_the_file_again() -> None:
    found = {page.relative_to(ROOT).as_posix(): repeated(page.read_text("utf-8"), KEPT) for page in PAGES}
    assert {page: figures for page, figures in found.items() if figures} == {}


def test_a_figure_that_a_page_says_again_is_found() -> None:
    said = "AccaSim: 2\u202f463 jobs/s; Slurm waits 200.0 s, the twin 1199.0 s. Version 200.0.1, 12463."
    assert repeated(said, few()) == {"2463", "200.0"}


def test_a_row_takes_the_place_of_the_one_before_and_others_stay() -> None:
    printed = [
        CALIBRATED | {"scenario": "outages", "speed": 15.0},
        CALIBRATED | {"slurm": "22.05.9", "real_mean_wait_s": 300.04},
    ]
    now: dict[str, Any] = {"emulator": "0.4.0", "date": "2026-12-01", "machine": "4 cores, shared"}
    before = few()
    first, second, third = measurements.renewed(before, "slurm_twin", printed, now).slurm_twin
    assert first == TwinRow(
        **TWIN | {"slurm": "22.05.9", "real_mean_wait_s": 300.0},
        **now,
        command="emulator calibrate slurm scenarios/slurm-slices/kth-light.yaml --set live.speed=60",
        jobs_beyond_bf_interval=2,
    )
    assert second == before.slurm_twin[1]
    assert (third.scenario, third.release) == ("outages", "22.05")
    assert third.command == "emulator calibrate slurm scenarios/slurm-slices/outages.yaml --set live.speed=15"


def test_other_programs_and_other_numbers_of_jobs_are_rows_of_their_own() -> None:
    printed = [PEER | {"jobs": 28_467}, PEER | {"program": "pyss"}]
    kept = measurements.renewed(few(), "peers", printed, MEASURED)
    assert [(row.program, row.jobs) for row in kept.peers] == [
        ("accasim", 1000), ("ours", 1000), ("accasim", 28_467), ("pyss", 1000),
    ]  # fmt: skip


def test_an_ability_is_measured_by_release() -> None:
    printed = [RELEASE | {"slurm": "26.05.6", "passed": 8}, RELEASE | {"slurm": "22.05.8"}]
    now = {key: value for key, value in MEASURED.items() if key != "command"}
    kept = measurements.renewed(few(), "slurm_releases", printed, now).slurm_releases
    assert [(row.ability, row.slurm, row.passed) for row in kept] == [
        ("driver", "26.05.6", 8), ("slurmdbd", "24.11.5", 7), ("driver", "22.05.8", 7),
    ]  # fmt: skip
    assert kept[0].command == "python benchmarks/slurm_abilities.py"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "measurements.json"
    path.write_text(measurements.text_of(few()), "utf-8")
    return path


@pytest.fixture
def renew(file: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], int]:
    """The command, given what another printed; returns its exit status."""

    def run(subject: str, text: str) -> int:
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        options = ["--machine", "shared", "--date", "2026-12-01", "--file", str(file)]
        return measurements.main([subject, *options])

    return run


def test_the_command_writes_the_file(
    renew: Callable[[str, str], int], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    assert renew("peers", json.dumps([PEER | {"jobs_per_s": 1.5}])) == 0
    now: dict[str, Any] = {"command": "python benchmarks/peers.py", "emulator": VERSION, "date": "2026-12-01"}
    row = PeerRow(**PEER | {"jobs_per_s": 1.5}, **now, machine="3 cores, shared")
    before = few()
    assert measurements.load(file) == before.model_copy(update={"peers": (row, before.peers[1])})


def test_a_speed_is_kept_in_three_figures_and_a_count_whole(
    renew: Callable[[str, str], int], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    figures = {"jobs": 28_467, "jobs_per_s": 5_049_812.3, "ratio": 0.6512, "wall_s": 12.0}
    assert renew("speed", json.dumps([PRINTED | {"figures": figures, "what": "30 nodes"}])) == 0
    kept = measurements.load(file).speed
    assert kept[:3] == few().speed
    assert kept[3:] == (
        SpeedRow(
            **PRINTED
            | {
                "figures": {"jobs": 28467.0, "jobs_per_s": 5.05e6, "ratio": 0.651, "wall_s": 12.0},
                "what": "30 nodes",
            },
            emulator=VERSION,
            date="2026-12-01",
            machine="2 cores, shared",
        ),
    )


@pytest.mark.parametrize(
    "case",
    [
        ("live", "", "stdin: is not what the command prints with --json: Expecting value: line 1 column 1 (char 0)"),
        ("live", "[]", "stdin: must be one row of figures, or a list of them"),
        ("live", "[1]", "stdin: must be one row of figures, or a list of them"),
        ("live", json.dumps([LIVE]), "stdin: 0.command: is missing"),
        ("peers", json.dumps([PEER, PEER]), "stdin: KTH, accasim, 1000: is there twice; give one run of each"),
        ("peers", json.dumps([PEER | {"jobs": -1}]), "stdin: 0.jobs: must be at least 0, not -1"),
        ("peers", json.dumps(PEER | {"peak_mib": math.nan}), "stdin: 0.peak_mib: must be a finite number, not nan"),
        ("speed", json.dumps(PRINTED | {"benchmark": "speed_rows"}),
         "stdin: 0.benchmark: 'speed_rows' is none of them: always_there, "),
        ("speed", json.dumps(SPEED), "stdin: 0.command: is missing"),
        ("speed", json.dumps([PRINTED, PRINTED]),
         "stdin: ledger_recovery, 10 nodes: is there twice; give one run of each"),
        ("speed", json.dumps(PRINTED | {"figures": [1]}), "stdin: 0.figures: must be keys with values, not [1]"),
        ("speed", json.dumps(PRINTED | {"figures": {}}), "stdin: 0.figures: must have at least 1 item"),
        ("speed", json.dumps(PRINTED | {"figures": {"Wall": 1}}), "stdin: 0.figures.Wall.[key]: must match pattern"),
        ("speed", json.dumps(PRINTED | {"figures": {"wall_s": "1"}}),
         "stdin: 0.figures.wall_s: must be a number, not '1'"),
        ("speed", json.dumps(PRINTED | {"figures": {"wall_s": -0.5}}),
         "stdin: 0.figures.wall_s: must be at least 0, not -0.5"),
        ("speed", json.dumps(PRINTED | {"figures": {"is_same": True}}),
         "stdin: 0.figures.is_same: must be a number, not True"),
        ("slurm_twin", json.dumps(CALIBRATED | {"slurm": None}),
         "stdin: 0.slurm: is not known: the run's logs do not name Slurm's version"),
        ("slurm_twin", json.dumps(TWIN), "stdin: 0.differences: must be a list, not None"),
        ("slurm_twin", json.dumps(CALIBRATED | {"jobs": "many"}), "stdin: 0.jobs: must be a whole number, not 'many'"),
        ("slurm_twin", json.dumps(CALIBRATED | {"scenario": "site"}),
         "stdin: 0.scenario: 'site' is none of the slices: gaia-constraints, "),
    ],
)  # fmt: skip
def test_what_is_no_measurement_is_named_and_changes_nothing(
    case: tuple[str, str, str], file: Path, renew: Callable[[str, str], int], capsys: Any
) -> None:
    (subject, printed, said), before = case, file.read_bytes()
    assert renew(subject, printed) == 2
    assert capsys.readouterr().err.startswith(said)
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_a_file_that_is_broken_is_named_with_the_row(
    renew: Callable[[str, str], int], file: Path, capsys: Any
) -> None:
    file.write_text(file.read_text("utf-8").replace('"nodes": 8', '"node": 8'), "utf-8")
    before = file.read_bytes()
    assert renew("live", json.dumps([LIVE])) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"{file}: live.0.nodes: is missing",
        f"{file}: live.0.node: there is no such key",
    ]
    assert file.read_bytes() == before


def figures_of(kind: type[Measured]) -> set[str]:
    return kind.model_fields.keys() - Measured.model_fields.keys()


def test_the_commands_print_the_figures_of_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for module, kind in (("peers", PeerRow), ("live_equals_virtual", LiveRow)):
        assert figures_of(kind) <= {each.name for each in fields(import_module(module).Row)}
    printed = {each.name for each in fields(Calibration)} | {"scenario", "nodes", "speed", "slurm"}
    assert figures_of(TwinRow) - {"jobs_beyond_bf_interval"} <= printed
