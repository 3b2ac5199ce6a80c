"""Mechanisms of the tests, installed as those of somebody else's package would be."""

import os
from pathlib import Path

import pytest

TOY = Path(__file__).parent / "toy"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The mechanisms `rota` and `scripted`, for this process and those it starts."""
    info = tmp_path / "packages" / "toy-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    names = "rota = rota:Rota\nscripted = rota:Scripted\n"
    (info / "entry_points.txt").write_text(f"[emulator.mechanisms]\n{names}")
    for place in (TOY, info.parent):
        monkeypatch.syspath_prepend(str(place))
        monkeypatch.setenv("PYTHONPATH", str(place), prepend=os.pathsep)
