"""The releases of Slurm that a test of the real one runs on: this machine's, and those of roots beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import parts
from gates import GATE

if TYPE_CHECKING:
    from pathlib import Path


def each_root(*needs: str) -> list[object]:
    """Parameters for a fixture or a test: None, then the folder of each root. `needs`: parts for this machine's."""
    here = pytest.param(None, marks=pytest.mark.needs("slurm", *needs), id="here")
    return [here, *(in_root(release) for release in GATE.slurm_releases)]


def in_root(release: str) -> object:
    root: Path = parts.slurm_root(release)
    return pytest.param(root, marks=pytest.mark.needs(f"slurm-{release}"), id=release)
