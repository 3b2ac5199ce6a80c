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
_OF_A_PAPER = ("paper", "title", "seeds", "readings", "counts")
_OF_A_CLAIM = ("id", "statement", "where", "paper", "ours", "spread", "outcome", "why")
_HEAD = """# Every claim of the five papers

What each paper prints, what our runs give (the median over the seeds, and the range), and the verdict with its reason.
[When a claim holds](../reproduce.md#when-a-claim-holds) was written down before the runs.

    emulator reproduce all
"""
_CHECKED = """
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
    """The page, in Markdown: a row for each paper, then its claims."""
    papers = "".join(map(_paper, documents))
    outcomes = " | ".join(documents[0]["counts"])
    table = f"\n| paper | {outcomes} |\n|---|{'---|' * len(documents[0]['counts'])}\n{papers}"
    return _HEAD + table + _CHECKED + "".join(map(_section, documents))


def _paper(document: dict[str, Any]) -> str:
    name = document["paper"]
    return f"| [{name}](#paper-{name}) | " + " | ".join(map(str, document["counts"].values())) + " |\n"


def _section(document: dict[str, Any]) -> str:
    readings = ", ".join(f"`{name}={value}`" for name, value in document["readings"].items())
    read = f" Where the paper leaves a point open: {readings}." if readings else ""
    rows = "".join(map(_row, document["claims"]))
    return (
        f"\n(paper-{document['paper']})=\n## {document['title']}\n\n"
        f"{len(document['seeds'])} seeds.{read}\n\n"
        f"    emulator reproduce {document['paper']}\n\n"
        f"| claim | paper | ours | verdict |\n|---|---|---|---|\n{rows}"
    )


def _row(claim: dict[str, Any]) -> str:
    """A claim; its reason is folded."""
    ours = f"{claim['ours']} ({claim['spread']})" if claim["spread"] else claim["ours"]
    claimed = f"{claim['id']}: {claim['statement']} ({claim['where']})"
    why = f" <details><summary>reason</summary>{_cell(claim['why'])}</details>" if claim["why"] else ""
    return f"| {_cell(claimed)} | {_cell(claim['paper'])} | {_cell(ours)} | **{claim['outcome']}**{why} |\n"


def _cell(text: str) -> str:
    """In one line, and read as it stands: a bar ends a cell, an asterisk emphasises, brackets link."""
    for mark in ("\\", "|", "*", "_", "[", "]", "<", "`", "$"):
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


if __name__ == "__main__":
    found = kept(json.load(sys.stdin))
    KEPT.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
