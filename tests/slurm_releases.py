"""The releases of Slurm that a test of the real one runs on: this machine's, and those of roots beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import parts
from emulator.live.slurm.programs import Programs
from emulator.schedulers.slurm.releases import followed
from gates import GATE

if TYPE_CHECKING:
    from pathlib import Path

    from emulator.schedulers.slurm.releases import Release


def each_root(*needs: str, by_night: bool = False) -> list[object]:
    """Parameters for a fixture or a test: None, then the folder of each root. `needs`: parts for this machine's.

    `by_night`: a change is tested on this machine's alone.
    """
    here = pytest.param(None, marks=pytest.mark.needs("slurm", *needs), id="here")
    releases = GATE.slurm_releases_of_all if by_night else GATE.slurm_releases
    return [here, *(in_root(release, *needs) for release in releases)]


def in_root(release: str, *needs: str) -> object:
    root: Path = parts.slurm_root(release)
    own = [name for name in needs if name != "libfaketime"]  # the root has one of its own
    return pytest.param(root, marks=pytest.mark.needs(f"slurm-{release}", *own), id=release)


def release_of(root: Path | None) -> Release:
    """Whose rules that Slurm goes by."""
    return followed(Programs().version() if root is None else root.name)


def batch(root: Path | None, **more: object) -> dict[str, dict[str, object]]:
    """`live.batch` for that Slurm."""
    return {"slurm": more if root is None else more | {"root": str(root)}}
