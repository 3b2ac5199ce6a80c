"""A new user's hour: the wheel, what comes with it, and the notebook, in a kernel that has nothing of the checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """What `emulator examples` of the wheel brings; programs started from here use the wheel."""
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    program = "from emulator.cli import main; main()"
    subprocess.run(
        (sys.executable, "-c", program, "examples", "mine"), cwd=tmp_path, env=os.environ, check=True
    )
    return tmp_path / "mine"


_WRONG = """
def wrong(now_us, view):
    return [view.queue[0]] * 2


emulator.run("traces/day-64.swf", scheduler=wrong)
"""


@pytest.mark.slow
def test_the_notebook_answers_its_questions_with_the_wheel_alone(folder):
    notebook = nbformat.read(folder / "notebooks" / "one-machine.ipynb", 4)
    may_fail = {"tags": ["raises-exception"]}
    notebook.cells += [
        nbformat.v4.new_code_cell("emulator.__file__"),
        nbformat.v4.new_code_cell(_WRONG, metadata=may_fail),
    ]
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    shown = [each["data"] for each in outputs if each["output_type"] == "execute_result"]
    day, apart, chart, where = (each.get("text/html", each["text/plain"]) for each in shown)
    assert str(folder.parent / "site") in where
    assert "on-demand requests" in day
    assert "batch wait" in apart
    assert re.match("<iframe.*&lt;canvas", chart, re.DOTALL)
    told = "".join(each.get("text", "") for each in outputs)
    rows = dict(re.findall(r"^(KTH|SDSC|CTC) +(-?\d+) s", told, re.MULTILINE))
    assert rows.keys() == {"KTH", "SDSC", "CTC"}
    assert all(int(change_s) < 0 for change_s in rows.values())  # WFP3 waits less than FCFS, behind both EASY
    (mistake,) = (each for each in outputs if each["output_type"] == "error")
    assert mistake["ename"] == "PluginError"
    assert re.match(r"scheduler wrong failed in decide at .* job \d+", mistake["evalue"])
