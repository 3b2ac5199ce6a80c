"""Where the logs of the papers are: the folder `traces` of the checkout, or one that the user names."""

from __future__ import annotations

from pathlib import Path

from emulator.runs.scenario import ScenarioError

_ROOT = Path(__file__).parents[2]
_COMPRESSED = ("", ".xz", ".gz")


def checkout_logs() -> Path:
    """The folder of the logs that come with the source. Raises ScenarioError where only the package is installed."""
    folder = _ROOT / "traces"
    if not ((_ROOT / "pyproject.toml").is_file() and (folder / "README.md").is_file()):
        raise ScenarioError(
            "the papers' logs are no part of the installed package: give --traces the folder `traces` of the project's"
            " source (its README says where each log is from), or --stand-in for generated workloads"
        )
    return folder


def find_log(folder: Path, *names: str) -> Path:
    """The first of `names` in `folder`, plain or compressed. Raises ScenarioError that says where logs are from."""
    for name in names:
        for ending in _COMPRESSED:
            path = folder / f"{name}{ending}"
            if path.exists():
                return path.absolute()
    raise ScenarioError(
        f"{folder}: there is no {' nor '.join(names)} (or with .xz or .gz); give --traces a folder that has it:"
        " traces/README.md of the project's source says where each log is from"
    )
