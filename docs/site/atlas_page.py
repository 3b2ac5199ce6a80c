"""The part of the site's page of results on the atlas: in how many worlds that a paper allows each claim holds.

`atlas.json` beside this module has the last results; this renews those of a paper:

    emulator reproduce PAPER --atlas --json | python docs/site/atlas_page.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from claims_page import as_cell

from balancer.whole_file import write_text
from emulator.experiments.atlas.verdict import AtlasOutcome
from emulator.text.number_text import grouped, number_of, percent

KEPT = Path(__file__).with_name("atlas.json")
_OF_A_CLAIM = ("id", "statement", "told", "worlds", "held", "interval", "why")
_HEAD = """
## Claims in all worlds that a paper allows

[The atlas](../reproduce.md#the-atlas-claims-in-all-worlds-that-the-paper-allows) draws the inputs that a paper leaves
open, keeps the draws (*worlds*) that agree with every figure it prints about its inputs, and runs the experiments in
each. The commands write a map of the worlds for each claim. Claims of the quick experiments count.

"""


def kept(document: dict[str, Any]) -> dict[str, Any]:
    """Of what the command prints, what the page shows: nothing that depends on the machine."""
    return {
        "paper": document["paper"],
        "title": document["title"],
        "seed": document["options"]["seed"],
        "worlds": len(document["worlds"]),
        "drawn": sum(each["drawn"] for each in document["rounds"]),
        "counts": document["counts"],
        "claims": [{key: claim[key] for key in _OF_A_CLAIM} for claim in document["claims"]],
    }


def section(documents: list[dict[str, Any]], papers: list[str]) -> str:
    """In Markdown; '' if no atlas was kept. `papers`: all there are; those without an atlas are named."""
    if not documents:
        return ""
    missing = [name for name in papers if name not in {each["paper"] for each in documents}]
    left = f"\nNot measured: {', '.join(missing)}.\n" if missing else ""
    outcomes = [str(each) for each in AtlasOutcome]
    head = f"| paper | worlds | of draws | {' | '.join(outcomes)} |\n|{'---|' * (len(outcomes) + 3)}\n"
    commands = "".join(f"    {_command(each)}\n" for each in documents)
    table = head + "".join(_paper(each, outcomes) for each in documents) + left
    return _HEAD + commands + "\n" + table + "".join(map(_claims, documents))


def _command(document: dict[str, Any]) -> str:
    return f"emulator reproduce {document['paper']} --atlas --worlds {document['worlds']}"


def _paper(document: dict[str, Any], outcomes: list[str]) -> str:
    counts = " | ".join(str(document["counts"].get(each, 0)) for each in outcomes)
    name = document["paper"]
    return f"| [{name}](#worlds-{name}) | {grouped(document['worlds'])} | {grouped(document['drawn'])} | {counts} |\n"


def _claims(document: dict[str, Any]) -> str:
    judged = sorted((each for each in document["claims"] if each["worlds"]), key=lambda each: -each["held"])
    left = number_of(len(document["claims"]) - len(judged), "claim")
    return (
        f"\n(worlds-{document['paper']})=\n### {document['title']}: worlds\n\n"
        f"Seed {document['seed']}; {left} not tested.\n\n"
        "| claim | holds in | 95 % interval | verdict |\n|---|---|---|---|\n"
    ) + "".join(map(_row, judged))


def _row(claim: dict[str, Any]) -> str:
    """A claim, with a bar of the worlds in which it holds; what decides is folded."""
    low, high = claim["interval"]
    held = f"{claim['held']} of {claim['worlds']}"
    bar = f'<meter max="{claim["worlds"]}" value="{claim["held"]}" title="{held} worlds"></meter> {held}'
    why = f" <details><summary>reason</summary>{as_cell(claim['why'])}</details>" if claim["why"] else ""
    between = f"{percent(low, 0)} to {percent(high, 0)}"
    return f"| {as_cell(claim['id'])}: {as_cell(claim['statement'])} | {bar} | {between} | **{claim['told']}**{why} |\n"


def load() -> list[dict[str, Any]]:
    documents: list[dict[str, Any]] = json.loads(KEPT.read_text("utf-8"))
    return documents


def main() -> int:
    """Keep what `emulator reproduce PAPER --atlas --json` printed; 2 and a message if stdin is something else."""
    try:
        found = kept(json.load(sys.stdin))
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        wrong = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        said = f"stdin: is not what `emulator reproduce PAPER --atlas --json` prints: {wrong}"
        print(said, file=sys.stderr)  # noqa: T201 - a command
        return 2
    papers = {each["paper"]: each for each in load()} | {found["paper"]: found}
    write_text(
        KEPT, json.dumps([papers[name] for name in sorted(papers)], indent=1, ensure_ascii=False) + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
