"""What jobs on Slurm left behind: their outputs prove their work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.live.job.proof import ProofError, prove

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def unproved(folder: Path, ended: set[str]) -> Iterator[str]:
    """A sentence for each job that is over and whose output does not prove its work."""
    for path in sorted(folder.glob("j*.o*")):
        name, _, job_id = path.name.partition(".o")
        if job_id not in ended:
            continue
        try:
            with path.open(encoding="utf-8") as output:
                problem = "" if prove(output).finished else "its output does not come to an end"
        except ProofError as error:
            problem = f"its output: {error}"
        if problem:
            yield f"job {name.removeprefix('j')} is over, and {problem}"
