"""Builds the docs site (`scripts/docs`): the pages of `docs`, and what they need beside them.

The README is the first page. What pages link to elsewhere in the checkout, examples and the CHANGELOG among it, becomes
a page too, so the site is whole without a repository beside it. The references of commands and of what programs import
are made from the code. A link that leads nowhere ends the build with status 1.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import atlas_page
import claims_page
import measurements
import measurements_page
from sphinx.cmd.build import main as sphinx

import emulator
from emulator.simulation import mechanism

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OUTSIDE = "checkout/"
"""Where the site has pages of files that are not in `docs`."""
RESULTS = "reference/claims.md"
"""The page of what `claims.json`, `atlas.json` and `measurements.json` have: links to these files lead there."""
_DATA = {file.relative_to(ROOT).as_posix() for file in (claims_page.KEPT, atlas_page.KEPT, measurements.KEPT)}
_LINK = re.compile(r"(?<=\]\()([^)#\s:]+)((?:#[^)\s]*)?)(?=\))")
_LANGUAGE = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".sh": "bash"}

DECISIONS = (
    "ledger-chain", "one-writer", "pure-lifecycle", "flask", "front-end", "held-clock", "kernels", "slurm-twin",
    "test-doubles", "failing-nodes", "api-page",
)  # fmt: skip

CONTENTS = {
    "All pages": ("contents",),
    "Balancer: tutorial": ("tutorials/operator",),
    "Balancer: how to": (
        "balancer/service", "balancer/runbook", "balancer/nova", "balancer/managers", "balancer/security",
        "balancer/backup", "balancer/high-availability",
    ),
    "Balancer: reference": ("balancer/api", "balancer/drivers", "balancer/algorithms"),
    "Balancer: explanation": ("balancer/lifecycle", "balancer/reconcile"),
    "Emulator: tutorials": (
        "tutorials/first-run", "tutorials/own-log", "tutorials/two-machines", "own-policy", "tutorials/paper-figure",
        "tutorials/live-fleet", "tutorials/lab", "tutorials/lab-answers",
    ),
    "Emulator: how to": (
        "python", "sweeps", "study", "reproduce", "plugins", "reinforcement-learning", "containers",
        "live-slurm",
    ),
    "Emulator: reference": (
        "scenarios", "traces", "results", "schedulers", "slurm-twin", "job-rules", "placement", "shared-nodes",
        "moldable", "failures", "energy", "mechanisms", "mechanisms/balancer", "mechanisms/hybrid",
        "mechanisms/realtime", "mechanisms/malleable", "mechanisms/oversubscribe", "live-torque", "live-ondemand",
    ),
    "Emulator: explanation": ("reference/claims", "peers"),
    "Commands and Python": ("reference/commands", "reference/python"),
    "The project": (
        "architecture", "decisions", *(f"decisions/{name}" for name in DECISIONS), "checklists", "testing",
        "benchmarks", "dependencies",
    ),
}  # fmt: skip
"""What stands where at the side. A page of `docs` that is missing here ends the build."""


def build(out: Path) -> int:
    """The site in `out`. Returns an exit status."""
    with tempfile.TemporaryDirectory() as kept:
        pages = Path(kept)
        _lay_out(pages)
        return sphinx(["-q", "-W", "--keep-going", "-b", "html", "-c", str(HERE), str(pages), str(out)])


def _lay_out(folder: Path) -> None:
    """All pages as Sphinx reads them."""
    shutil.copytree(ROOT / "docs", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("site", "*.md"))
    origins = ["README.md", *(file.relative_to(ROOT).as_posix() for file in (ROOT / "docs").rglob("*.md"))]
    seen = set(origins)
    while origins:
        origin = origins.pop()
        text = _text(origin)
        new = [each for each in _targets(origin, text) if each not in seen and not each.startswith("docs/")]
        seen.update(new)
        origins += new
        _write(
            folder / _place(origin),
            _with_links(origin, text) + (_contents() if origin == "README.md" else ""),
        )
    _write(folder / "reference" / "commands.md", _commands())
    _write(folder / "reference" / "python.md", _python())
    _write(folder / RESULTS, _results())


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")


def _place(origin: str) -> str:
    """Where the site has a file of the checkout."""
    if origin == "README.md":
        return "index.md"
    if origin in _DATA:
        return RESULTS
    if origin.startswith("docs/"):
        return origin.removeprefix("docs/")
    return OUTSIDE + (origin if origin.endswith(".md") else f"{origin}.md")


def _resolved(origin: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), link))


def _targets(origin: str, text: str) -> Iterator[str]:
    """The files of the checkout that a page links to."""
    for link in _LINK.finditer(text):
        target = _resolved(origin, link[1])
        if (ROOT / target).is_file():
            yield target


def _with_links(origin: str, text: str) -> str:
    """Links to the places that files have in the site."""
    here = posixpath.dirname(_place(origin)) or "."

    def in_site(link: re.Match[str]) -> str:
        target = _resolved(origin, link[1])
        known = (ROOT / target).is_file()  # Sphinx names a link that leads nowhere
        return posixpath.relpath(_place(target), here) + link[2] if known else link[0]

    return _LINK.sub(in_site, text)


def _text(origin: str) -> str:
    """The page of a file: itself, or its lines as code."""
    text = (ROOT / origin).read_text("utf-8")
    if origin.endswith(".md"):
        text = text.replace(
            "```mermaid", "```text"
        )  # drawing it takes a script from elsewhere; it reads well as text
        return (
            text
            if origin.startswith("docs/") or origin == "README.md"
            else f"---\norphan: true\n---\n\n{text}"
        )
    language = _LANGUAGE.get(Path(origin).suffix, "text")
    return f"---\norphan: true\n---\n\n# `{origin}`\n\n````{language}\n{text}````\n"


def _contents() -> str:
    """What stands at the side."""
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(names) + "\n```\n"
        for caption, names in CONTENTS.items()
    )


def _results() -> str:
    claims = json.loads(claims_page.KEPT.read_text("utf-8"))
    besides = atlas_page.section(
        atlas_page.load(), [each["paper"] for each in claims]
    ) + measurements_page.sections(measurements.load())
    return claims_page.page(claims, besides)


def _commands() -> str:
    said = "# Commands\n\nAs `--help` prints them.\n"
    for program, place in (("emulator", "emulator.cli:main"), ("balancer", "balancer.console.commands:cli")):
        said += f"\n```{{eval-rst}}\n.. click:: {place}\n   :prog: {program}\n   :nested: full\n```\n"
    return said


def _python() -> str:
    """What `emulator` offers, and the protocols of a mechanism."""
    protocols = [
        f"{mechanism.__name__}.{name}"
        for name in vars(mechanism)
        if name == "Actions" or name.startswith("Has")
    ]
    said = "# Python reference\n\nWhat `import emulator` offers ([guide](../python.md)).\n"
    said += "".join(_documented(f"emulator.{name}") for name in emulator.__all__)
    said += "\n## What a mechanism is given and may be asked\n\n([guide](../mechanisms.md))\n"
    return said + "".join(map(_documented, protocols))


def _documented(name: str) -> str:
    module, _, attribute = name.rpartition(".")
    is_class = isinstance(getattr(sys.modules[module], attribute), type)
    options = "\n   :members:" if is_class else ""
    return f"\n```{{eval-rst}}\n.. auto{'class' if is_class else 'function'}:: {name}{options}\n```\n"


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "runs" / "site")))
