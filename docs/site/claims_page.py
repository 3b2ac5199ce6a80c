"""The site's page of all claims: what each paper says, what our runs say, and the verdict with its reason.

`claims.json` beside this module has the last results; this renews it:

    emulator reproduce all --json | python docs/site/claims_page.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

KEPT = Path(__file__).with_name("claims.json")
_OF_A_PAPER = ("paper", "title", "seeds", "options", "readings", "counts")
_OF_A_CLAIM = ("id", "statement", "where", "paper", "ours", "spread", "outcome", "why")
_HEAD = """# Every claim of the five papers

What each paper prints, what our runs give (the median over the seeds, and the range), and the verdict with its reason.
[When a claim holds](../reproduce.md#when-a-claim-holds) was written down before the runs.

    emulator reproduce all

How right the tools are that ran this:

* the rules of Slurm against the real one, by release: [Slurm's twin](../slurm-twin.md)
* live runs against virtual time, and each scheduler against a slow, obvious reference: [tests](../testing.md)
* other simulators' starts, one by one, and the time that each takes: [benchmarks](../benchmarks.md#other-simulators)
* tables that others have published: [tables of others](../reproduce.md)
"""


def kept(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of what the command prints, what the page shows: nothing that depends on the machine."""
    return [
        {key: document[key] for key in _OF_A_PAPER}
        | {"claims": [{key: claim[key] for key in _OF_A_CLAIM} for claim in document["claims"]]}
        for document in documents
    ]


def page(documents: list[dict[str, Any]]) -> str:
    """The page, in Markdown."""
    return _HEAD + "".join(map(_section, documents))


def _section(document: dict[str, Any]) -> str:
    counts = ", ".join(f"{count} {outcome}" for outcome, count in document["counts"].items() if count)
    readings = ", ".join(f"`{name}={value}`" for name, value in document["readings"].items())
    read = f" Where the paper leaves a point open: {readings}." if readings else ""
    rows = "".join(map(_row, document["claims"]))
    return (
        f"\n## {document['paper']}: {document['title']}\n\n"
        f"{counts[:1].upper()}{counts[1:]}; {len(document['seeds'])} seeds.{read}\n\n"
        f"    emulator reproduce {document['paper']}\n\n"
        f"| | claim | paper | ours | verdict | reason |\n|---|---|---|---|---|---|\n{rows}"
    )


def _row(claim: dict[str, Any]) -> str:
    ours = f"{claim['ours']} ({claim['spread']})" if claim["spread"] else claim["ours"]
    cells = (
        claim["id"],
        f"{claim['statement']} ({claim['where']})",
        claim["paper"],
        ours,
        f"**{claim['outcome']}**",
        claim["why"],
    )
    return "| " + " | ".join(map(_cell, cells)) + " |\n"


def _cell(text: str) -> str:
    """In one line, and read as it stands: a bar ends a cell, an asterisk emphasises, brackets link."""
    for mark in ("\\", "|", "*", "_", "[", "]", "<", "`", "$"):
        text = text if text.startswith("**") else text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


if __name__ == "__main__":
    found = kept(json.load(sys.stdin))
    KEPT.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
