"""The site's page of results shows the claims of the code, and the manual's table has their counts."""

import io
import json
import re
import sys
from pathlib import Path

import claims_page
import pytest

from emulator.experiments.logs import checkout_logs
from emulator.experiments.paper import GROUP, Options, find_paper
from emulator.plugins import plugin_names

ROOT = Path(__file__).parents[2]
KEPT = json.loads(claims_page.KEPT.read_text("utf-8"))
RENEW = "emulator reproduce all --json | python docs/site/claims_page.py"


def test_all_papers_are_on_the_page():
    assert [document["paper"] for document in KEPT] == plugin_names(GROUP)


@pytest.mark.parametrize("document", KEPT, ids=lambda document: document["paper"])
def test_the_claims_on_the_page_are_those_of_the_code(document):
    paper = find_paper(document["paper"])
    options = Options(traces=checkout_logs() if paper.reads_logs else None)
    wanted = [(claim.id, claim.statement, claim.where, claim.paper) for claim in paper.claims(options)]
    shown = [
        tuple(claim[key] for key in ("id", "statement", "where", "paper")) for claim in document["claims"]
    ]
    assert shown == wanted, f"renew it: {RENEW}"


def test_the_manuals_table_counts_what_is_on_the_page():
    table = re.findall(
        r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) \|(?: (\d+))? \| [\d.]+ \|$",
        (ROOT / "docs" / "reproduce.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert [(name, *(int(count or 0) for count in counts)) for name, *counts in table] == [
        (document["paper"], *document["counts"].values()) for document in KEPT
    ]


def test_a_cell_stays_a_cell_and_its_marks_stay_marks():
    claim = {"id": "A1", "statement": "wait | slowdown *halved*", "where": "Table [1]", "paper": "0.5x\n",
             "ours": "0.6x", "spread": "0.5x to 0.7x", "outcome": "holds", "why": "n < 5"}  # fmt: skip
    document = {"paper": "toy", "title": "Toys", "seeds": [1, 2], "readings": {},
                "counts": {"holds": 1, "does not hold": 0}, "claims": [claim]}  # fmt: skip
    page = claims_page.page([document], "\n## Slurm\n")
    assert (
        "\n| paper | holds | does not hold |\n|---|---|---|\n| [toy](#paper-toy) | 1 | 0 |\n\n## Slurm\n"
        in page
    )
    assert page.endswith(
        "\n(paper-toy)=\n## Toys\n\n2 seeds.\n\n    emulator reproduce toy\n\n"
        "| claim | paper | ours | verdict |\n|---|---|---|---|\n"
        "| A1: wait \\| slowdown \\*halved\\* (Table \\[1\\]) | 0.5x | 0.6x (0.5x to 0.7x) | "
        "**holds** <details><summary>reason</summary>n \\< 5</details> |\n"
    )


@pytest.mark.parametrize(
    ("printed", "wrong"),
    [
        ("", "Expecting value: line 1 column 1 (char 0)"),
        ('[{"paper": "toy"}]', "'title' is missing"),
        ('{"paper": "toy"}', "string indices must be integers, not 'str'"),
    ],
)
def test_what_is_no_list_of_claims_changes_nothing(printed, wrong, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(claims_page, "KEPT", tmp_path / "claims.json")
    monkeypatch.setattr(sys, "stdin", io.StringIO(printed))
    assert claims_page.main() == 2
    assert capsys.readouterr().err == f"stdin: is not what `emulator reproduce all --json` prints: {wrong}\n"
    assert list(tmp_path.iterdir()) == []


def test_what_was_printed_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(claims_page, "KEPT", tmp_path / "claims.json")
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps([each | {"seconds": 9} for each in KEPT])))
    assert claims_page.main() == 0
    assert json.loads(claims_page.KEPT.read_text("utf-8")) == KEPT
