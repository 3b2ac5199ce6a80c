"""The Debian package: its scripts are sound, and it says what the unit says. `scripts/debian-try` uses one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from balancer.config import read_config

ROOT = Path(__file__).parents[3]
PIECES = ROOT / "deploy/debian"
SCRIPT = (ROOT / "scripts/debian-package").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_its_scripts_are_sh_that_stops_at_errors(name):
    text = (PIECES / name).read_text(encoding="utf-8")
    assert text.startswith("#!/bin/sh\n")
    assert "\nset -e\n" in text
    assert subprocess.run(["sh", "-n", PIECES / name], check=False).returncode == 0


def test_all_pieces_are_used():
    assert {file.name for file in PIECES.iterdir() if f"deploy/debian/{file.name}" not in SCRIPT} == set()


def test_its_configuration_is_one_that_the_service_takes():
    given = yaml.safe_load((PIECES / "balancer.yaml").read_text(encoding="utf-8"))
    read = read_config(PIECES / "balancer.yaml", {})
    assert (read.db, read.driver, len(read.node_names())) == (given["db"], "slurm", 64)


def test_its_unit_starts_what_it_installs():
    unit = (ROOT / "deploy/systemd/balancer.service").read_text(encoding="utf-8")
    assert "ExecStart=/usr/local/bin/balancer serve --config /etc/balancer/balancer.yaml\n" in unit
    assert "'s,/usr/local/bin/balancer,/usr/bin/balancer,' deploy/systemd/balancer.service" in SCRIPT
    assert "EnvironmentFile=-/etc/default/balancer" in unit
    assert '"$root/etc/default/balancer"' in SCRIPT
