"""The releases of Slurm whose rules the twin knows. What differs between them: `docs/slurm-twin.md`."""

from __future__ import annotations

import re
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator

Release = Literal["22.05", "24.11", "26.05"]
RELEASES: tuple[Release, ...] = get_args(Release)
NEWEST = RELEASES[-1]
AsWritten = Annotated[
    Release, BeforeValidator(lambda said: f"{said:.2f}" if isinstance(said, float) else said)
]
"""A release in a file: YAML reads 26.05 as a number."""


def followed(version: str) -> Release:
    """The newest of them that is not newer than a version (`24.05.4`), else the oldest. Raises ValueError."""
    match = re.match(r"(\d+)\.(\d+)(?!\d)", version)
    if match is None:
        raise ValueError(f"{version!r} is no version of Slurm, as 24.11.5")
    older = [each for each in RELEASES if _numbers(each) <= _numbers(match[0])]
    return older[-1] if older else RELEASES[0]


def _numbers(release: str) -> list[int]:
    return [int(each) for each in release.split(".")]
