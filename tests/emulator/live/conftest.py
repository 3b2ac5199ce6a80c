"""Mechanisms of the tests, installed as those of somebody else's package would be."""

import os
import uuid
from functools import partial
from pathlib import Path

import pytest

from processes import marked

TOY = Path(__file__).parent / "toy"
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The plug-ins of the folder `toy`, for this process and those it starts."""
    info = tmp_path / "packages" / "toy-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[emulator.mechanisms]\nrota = rota:Rota\nscripted = rota:Scripted\nfailing = rota:Failing\n"
        "failing_machine = rota:FailingMachine\nmake_room = make_room:MakeRoom\n"
        "[balancer.algorithms]\nfailing_plan = failing_plan:FailingPlan\n"
        "[emulator.queue_orders]\nfailing_order = rota:failing_order\n"
        "lone_failing_order = rota:lone_failing_order\n"
        "late_failing_order = rota:LateFailingOrder\n"
    )
    for place in (TOY, EXAMPLES, info.parent):
        monkeypatch.syspath_prepend(str(place))
        monkeypatch.setenv("PYTHONPATH", str(place), prepend=os.pathsep)


@pytest.fixture
def processes(monkeypatch):
    """`processes(*folders)`: those that come of this test and live, by their environment, or by a folder in it."""
    mark = f"LIVE_TEST={uuid.uuid4()}"
    monkeypatch.setenv(*mark.split("="))
    return partial(marked, mark)
