"""`emulator examples`: the notebook, scenarios and logs that the docs name, where only the package is installed."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import click

from emulator.report.terminal import InputError

_SITE = Path(__file__).parents[2]
"""Where the packages are installed, or the checkout."""
PARTS = ("notebooks", "scenarios", "traces")


def sources() -> dict[str, Path]:
    """The files that come with the package, by their names in the docs; in a checkout those of the checkout."""
    root = _SITE if (_SITE / "pyproject.toml").is_file() else _SITE / "balancer_emulator_examples"
    found = (file for part in PARTS for file in sorted((root / part).rglob("*")) if file.is_file())
    return {file.relative_to(root).as_posix(): file for file in found}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path())
def examples(folder: Path) -> None:
    """Copy the notebook, scenarios and job logs that the docs name into FOLDER (here), so that their commands run.

    Nothing is written over: if one of the files is there already, none is written (exit status 2).
    """
    files = sources()
    if existing := [name for name in files if (folder / name).exists()]:
        more = f" and {len(existing) - 1} more" if len(existing) > 1 else ""
        raise InputError(f"{folder / existing[0]}{more}: already there; name another folder")
    written: list[Path] = []
    for name, source in files.items():
        target = folder / name
        written.append(target)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        except OSError as error:
            for each in written:
                with suppress(OSError):
                    each.unlink()
            raise InputError(f"{target}: {error.strerror}; nothing was written") from error
    click.echo(f"{len(files)} files are in {', '.join(str(folder / part) for part in PARTS)}")
