"""The site's page of results shows in how many worlds each claim holds, as the atlas says."""

import io
import json
import sys

import atlas_page
import pytest

from emulator.experiments.logs import checkout_logs
from emulator.experiments.paper import GROUP, Options, find_paper
from emulator.plugins import plugin_names

KEPT = atlas_page.load()
CLAIM = {
    "id": "F3", "statement": "the width | half", "where": "Fig. 3", "told": "depends", "worlds": 20, "held": 5,
    "interval": [0.112, 0.469], "why": "It holds where load < 0.5; fails otherwise.", "rule": None,
}  # fmt: skip
PRINTED = {
    "paper": "toy", "title": "Toys", "options": {"seed": 3, "logs": True},
    "worlds": [{"id": "a"}] * 20, "rounds": [{"drawn": 256}, {"drawn": 1024}], "counts": {"holds": 0, "depends": 1},
    "claims": [CLAIM, CLAIM | {"id": "F4", "worlds": 0, "held": 0, "told": "not tested"}],
}  # fmt: skip


def test_each_atlas_is_of_a_paper_and_has_claims_of_the_code():
    papers = [document["paper"] for document in KEPT]
    assert papers == [name for name in plugin_names(GROUP) if name in papers]
    for document in KEPT:
        paper = find_paper(document["paper"])
        options = Options(traces=checkout_logs() if paper.reads_logs else None)
        known = {claim.id for claim in paper.claims(options)}
        assert {claim["id"] for claim in document["claims"]} <= known
        assert sum(document["counts"].values()) == len(document["claims"])


def test_a_claim_has_a_bar_its_interval_and_what_decides():
    page = atlas_page.section([atlas_page.kept(PRINTED)], ["other", "toy"])
    assert "\n    emulator reproduce toy --atlas --worlds 20\n" in page
    assert (
        "\n| [toy](#worlds-toy) | 20 | 1\u202f280 | 0 | 0 | 0 | 1 | 0 | 0 | 0 |\n\nNot measured: other.\n"
        in page
    )
    assert page.endswith(
        "\n(worlds-toy)=\n### Toys: worlds\n\nSeed 3; 1 claim not tested.\n\n"
        "| claim | holds in | 95 % interval | verdict |\n|---|---|---|---|\n"
        '| F3: the width \\| half | <meter max="20" value="5" title="5 of 20 worlds"></meter> 5 of 20 | 11 % to 47 % | '
        "**depends** <details><summary>reason</summary>It holds where load \\< 0.5; fails otherwise.</details> |\n"
    )


@pytest.fixture
def renew(tmp_path, monkeypatch):
    """The command, given what another printed; returns its exit status."""
    monkeypatch.setattr(atlas_page, "KEPT", tmp_path / "atlas.json")
    atlas_page.KEPT.write_text("[]", "utf-8")

    def run(printed):
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(printed)))
        return atlas_page.main()

    return run


def test_an_atlas_takes_the_place_of_that_papers_and_others_stay(renew):
    assert renew(PRINTED | {"paper": "other"}) == 0
    assert renew(PRINTED) == 0
    assert renew(PRINTED | {"title": "More toys"}) == 0
    assert [(each["paper"], each["title"]) for each in atlas_page.load()] == [
        ("other", "Toys"),
        ("toy", "More toys"),
    ]


def test_what_is_no_atlas_changes_nothing(renew, capsys):
    assert renew({"paper": "toy"}) == 2
    said = "stdin: is not what `emulator reproduce PAPER --atlas --json` prints: 'title' is missing\n"
    assert (capsys.readouterr().err, atlas_page.load()) == (said, [])
