"""A sweep that is killed leaves whole files and no process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from polling import until

pytestmark = pytest.mark.live
RUN = "from emulator.cli import main; main(prog_name='emulator')"


def session_members(session: int) -> list[str]:
    """Command lines of the living processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append((entry / "cmdline").read_text())
        except (OSError, IndexError, ValueError):
            continue
    return found


def lines(out):
    """What is whole in the sweep's journal."""
    found = b"".join(path.read_bytes() for path in (out / "runs").glob("*.jsonl"))
    return found.split(b"\n")[:-1]


@pytest.mark.slow
@pytest.mark.parametrize("number", [pytest.param(signal.SIGKILL, marks=pytest.mark.slow), signal.SIGINT])
def test_a_sweep_that_is_ended_leaves_whole_rows_and_no_process(tmp_path, number):
    scenario = {"nodes": 64, "workload": {"generate": [{"daily_batch": {"days": 3}}]}}
    grid = tmp_path / "grid.yaml"
    grid.write_text(yaml.safe_dump({"scenario": scenario, "seeds": 500}))
    out = tmp_path / "out"
    sweep = subprocess.Popen(
        [sys.executable, "-c", RUN, "sweep", str(grid), "--out", str(out), "--jobs", "2", "--quiet"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        until(lambda: len(lines(out)) >= 3)
        sweep.send_signal(number)
        status = sweep.wait(200)
        until(lambda: not session_members(sweep.pid))
    finally:
        if session_members(sweep.pid):
            os.killpg(sweep.pid, signal.SIGKILL)
    assert status == (130 if number == signal.SIGINT else -signal.SIGKILL)
    rows = [json.loads(line)["row"] for line in lines(out)]
    assert all(row["nodes"] == 64 for row in rows)
    assert (out / "results.parquet").exists() == (number == signal.SIGINT)
