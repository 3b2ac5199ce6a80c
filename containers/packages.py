"""Used while the images are built: which packages go where.

python packages.py pick LOCK NAME...           the entries of these packages in a lock file, to stdout
python packages.py split VENV TARGET NAME...   TARGET: a copy of VENV with these packages and all they need, no more
"""

from __future__ import annotations

import re
import shutil
import sys
from importlib.metadata import Distribution, distributions
from pathlib import Path


def pick(lock: Path, names: list[str]) -> str:
    entries = re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8"))
    wanted = {_canonical(name) for name in names}
    found = [entry for entry in entries if _canonical(re.split(r"==| ", entry)[0]) in wanted]
    missing = wanted - {_canonical(re.split(r"==| ", entry)[0]) for entry in found}
    if missing:
        raise SystemExit(f"{lock} has no {', '.join(sorted(missing))}")
    return "\n".join(found) + "\n"


def split(venv: Path, target: Path, names: list[str]) -> None:
    site = next(venv.glob("lib/python*/site-packages"))
    installed = {_canonical(each.name): each for each in distributions(path=[str(site)])}
    wanted: set[str] = set()
    _add(wanted, installed, names)
    for name in ("bin/python", "bin/python3"):
        (target / "bin").mkdir(parents=True, exist_ok=True)
        shutil.copy2(venv / name, target / name, follow_symlinks=False)
    for link in (venv / "bin").glob("python3.*"):
        shutil.copy2(link, target / "bin" / link.name, follow_symlinks=False)
    shutil.copy2(venv / "pyvenv.cfg", target / "pyvenv.cfg")
    for name in sorted(wanted):
        for file in installed[name].files or []:
            source = Path(str(file.locate())).resolve()
            if source.is_file():
                copy = target / source.relative_to(venv.resolve())
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, copy)


def _add(wanted: set[str], installed: dict[str, Distribution], names: list[str]) -> None:
    for name in map(_canonical, names):
        if name in wanted or name not in installed:
            continue  # not installed: for another system, or an extra that nobody asked for
        wanted.add(name)
        needed = [line for line in installed[name].requires or [] if "extra ==" not in line.replace("'", '"')]
        _add(wanted, installed, [re.split(r"[\s;\[<>=!~(]", line, maxsplit=1)[0] for line in needed])


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    if sys.argv[1] == "pick":
        sys.stdout.write(pick(Path(sys.argv[2]), sys.argv[3:]))
    else:
        split(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
