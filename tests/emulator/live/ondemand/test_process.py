"""The manager as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner

from emulator.live.ondemand.__main__ import main

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[4]


def write(folder, settings):
    path = folder / "ondemand.yaml"
    path.write_text(json.dumps(settings))
    return path


def start(folder, **settings):
    path = write(folder, settings)
    return subprocess.Popen(
        [sys.executable, "-m", "emulator.live.ondemand", "--config", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def test_it_says_where_it_is_answers_there_and_ends_on_sigterm(tmp_path):
    ready = tmp_path / "ready"
    with start(tmp_path, pool=["n1"], ready_file=str(ready)) as process:
        process.stdout.readline()  # where it is: by then the file is there
        url = json.loads(ready.read_text())["url"]
        assert requests.get(f"{url}/identity/v3", timeout=60).json()["version"]["id"] == "v3.14"
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "give either pool (names of dedicated nodes) or balancer_url"),
        ({"pool": ["n1", "n1"]}, "pool names a node twice"),
        ({"pool": [], "boot_s": -1}, "boot_s: Input should be greater than or equal to 0"),
        ({"pool": [], "clock": "/nowhere/clock"}, "/nowhere/clock"),
    ],
)
def test_bad_settings_are_named_and_end_it_with_status_2(tmp_path, settings, said):
    ended = CliRunner().invoke(main, ["--config", str(write(tmp_path, settings))])
    assert ended.exit_code == 2
    assert said in ended.stderr
