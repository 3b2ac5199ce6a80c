"""Pictures of a report in a real browser, held against how it looked: at a desk and on a phone, by day and by night.

Kept are not the pictures but the mean colour of each of their tiles (`tests/recorded/report/screens.json`), which other
fonts hardly change. After a change that is meant: `RENEW_SCREENS=1 scripts/test tests/emulator/report/test_screens.py`.
"""

from __future__ import annotations

import base64
import io
import json
import os
from pathlib import Path

import matplotlib.image as mpimg
import numpy as np
import pytest

import emulator
from chromium_kit import browser
from testdata import TRACES

KEPT = Path(__file__).parents[2] / "recorded" / "report" / "screens.json"
_HIGH = 3200
_TILES = (40, 16)
_MEAN, _MOST = 0.015, 0.22
"""By how much tiles may differ, of the whole range: all on average, and any one (a line that wraps elsewhere)."""
_LOOKS = {
    "desk": (1280, False),
    "desk, dark": (1280, True),
    "phone": (400, False),
    "phone, dark": (400, True),
}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "out"
    emulator.run(TRACES.parent / "scenarios" / "default.yaml").save(folder)
    return folder / "report.html"


def tiles(page):
    """Mean colours of a grid of tiles, 0 to 1: rows x columns x 3."""
    shot = page.ask("Page.captureScreenshot", format="png", captureBeyondViewport=False)["data"]
    pixels = mpimg.imread(io.BytesIO(base64.b64decode(shot)), format="png")[:, :, :3]
    rows, columns = _TILES
    high, wide = (size // count for size, count in zip(pixels.shape, _TILES, strict=False))
    cut = pixels[: rows * high, : columns * wide]
    return cut.reshape(rows, high, columns, wide, 3).mean(axis=(1, 3))


def shots(report, folder, looks=_LOOKS):
    with browser(folder) as page:
        found = {}
        for look in looks:
            wide, is_dark = _LOOKS[look]
            page.resize(wide, _HIGH)
            scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
            page.ask("Emulation.setEmulatedMedia", features=[scheme])
            page.open(report.as_uri())
            chart = "document.querySelector('.gantt canvas')"
            page.wait_for(f"{chart} && {chart}.gantt && {chart}.width > 300")
            # Two pictures have been drawn since the page had its size.
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            found[look] = tiles(page)
        return found


def to_text(grid):
    return [
        "".join(f"{value:02x}" for value in row) for row in (grid * 255).astype(int).reshape(_TILES[0], -1)
    ]


def of_text(rows):
    return np.array([list(bytes.fromhex(row)) for row in rows], float).reshape(*_TILES, 3) / 255


def kept():
    return {look: of_text(rows) for look, rows in json.loads(KEPT.read_text()).items()}


def apart(one, other):
    difference = np.abs(one - other)
    return float(difference.mean()), float(difference.mean(axis=2).max())


def looks_alike(one, other):
    mean, most = apart(one, other)
    return mean < _MEAN and most < _MOST


@pytest.mark.slow
@pytest.mark.needs("chromium")
def test_a_report_looks_as_it_did(report, tmp_path):
    found = shots(report, tmp_path)
    if os.environ.get("RENEW_SCREENS"):
        KEPT.write_text(json.dumps({look: to_text(grid) for look, grid in found.items()}, indent=1) + "\n")
    before = kept()
    assert found.keys() == before.keys()
    told = {look: apart(grid, before[look]) for look, grid in found.items()}
    print("mean and largest difference:", told)
    assert [look for look, grid in found.items() if not looks_alike(grid, before[look])] == [], told


@pytest.mark.slow
@pytest.mark.needs("chromium")
@pytest.mark.parametrize(
    "broken",
    [
        ".gantt canvas { visibility: hidden }",
        "svg { display: none }",
        "body { padding-top: 4rem }",
        "h2 { font-size: 3rem }",
    ],
)
def test_a_report_that_looks_otherwise_is_noticed(report, broken, tmp_path):
    worse = tmp_path / "report.html"
    worse.write_text(report.read_text().replace("</style>", f"{broken}</style>", 1))
    (grid,) = shots(worse, tmp_path, ("desk",)).values()
    print("mean and largest difference:", apart(grid, kept()["desk"]))
    assert not looks_alike(grid, kept()["desk"])


def test_day_and_night_desk_and_phone_look_different():
    before = kept()
    pairs = [
        ("desk", "desk, dark"),
        ("desk", "phone"),
        ("phone", "phone, dark"),
        ("desk, dark", "phone, dark"),
    ]
    assert [pair for pair in pairs if looks_alike(*(before[look] for look in pair))] == []
