"""The site's page of results, and on it all claims: what each paper says, what our runs say, the verdict, its reason.

`claims.json` beside this module has the last results; this renews it:

    emulator reproduce all --json | python docs/site/claims_page.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from balancer.whole_file import write_text

KEPT = Path(__file__).with_name("claims.json")
_OF_A_PAPER = ("paper", "title", "seeds", "readings", "counts")
_OF_A_CLAIM = ("id", "statement", "where", "paper", "ours", "spread", "outcome", "why")
_HEAD = """# Results: five papers, Slurm, live runs, other simulators, speed

All figures, each with its command: [claims of papers](#claims-of-the-five-papers),
[worlds](#claims-in-all-worlds-that-a-paper-allows), [Slurm](#slurm-by-release),
[live runs](#live-runs-and-virtual-time), [other simulators](#other-simulators), [speed](#speed). Tables of
schedulers that others published are beside ours in [reproducing papers](../reproduce.md).

## Claims of the five papers

What each paper prints, what our runs give (the median over the seeds, and the range), and the verdict with its reason.
[When a claim holds](../reproduce.md#when-a-claim-holds) was written down before the runs.

    emulator reproduce all
"""


def kept(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of what the command prints, what the page shows: nothing that depends on the machine."""
    return [
        {key: document[key] for key in _OF_A_PAPER}
        | {"claims": [{key: claim[key] for key in _OF_A_CLAIM} for claim in document["claims"]]}
        for document in documents
    ]


def page(documents: list[dict[str, Any]], measured: str) -> str:
    """The page, in Markdown: a row for each paper, then what was `measured` besides, then each paper's claims."""
    papers = "".join(map(_paper, documents))
    outcomes = " | ".join(documents[0]["counts"])
    table = f"\n| paper | {outcomes} |\n|---|{'---|' * len(documents[0]['counts'])}\n{papers}"
    return _HEAD + table + measured + "".join(map(_section, documents))


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
    why = f" <details><summary>reason</summary>{as_cell(claim['why'])}</details>" if claim["why"] else ""
    return f"| {as_cell(claimed)} | {as_cell(claim['paper'])} | {as_cell(ours)} | **{claim['outcome']}**{why} |\n"


def as_cell(text: str) -> str:
    """In one line, and read as it stands: a bar ends a cell, an asterisk emphasises, brackets link."""
    for mark in ("\\", "|", "*", "_", "[", "]", "<", "`", "$"):
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


def main() -> int:
    """Keep what `emulator reproduce all --json` printed; 2 and a message if stdin is something else."""
    try:
        found = kept(json.load(sys.stdin))
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        wrong = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        print(f"stdin: is not what `emulator reproduce all --json` prints: {wrong}", file=sys.stderr)  # noqa: T201
        return 2
    write_text(KEPT, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
