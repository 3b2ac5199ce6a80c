"""Notes on nodes: which are ours, what is kept of others, through each driver's own programs."""

from __future__ import annotations

import pytest

from balancer.drivers.base import NodeStatus, with_ours
from balancer.drivers.marks import Mark, Stamp, mark_text, operator_note_of, parse

NOTE = "lent to on-demand by the Balancer"
STAMP = Stamp("0badcafe", 3401, "01234567")
OURS = {"torque": NOTE, "openpbs": NOTE, "slurm": "balancer: lent to on-demand"}


@pytest.fixture(params=list(OURS))
def site(request, kit, tmp_path, monkeypatch):
    return kit.Site(request.param, tmp_path, monkeypatch)


@pytest.mark.parametrize("kept", ["", "fan loud", "a | b", "two\nlines", f"see: {NOTE}"])
@pytest.mark.parametrize("stamp", [STAMP, None])
def test_what_was_noted_is_read_back(kept, stamp):
    text = mark_text(NOTE, str(stamp) if stamp else "", kept)
    assert parse(text, NOTE) == Mark(kept, stamp)
    assert operator_note_of(text, NOTE) == kept


@pytest.mark.parametrize(
    "text", [f"{NOTE} (epoch 12, e3401)", f"{NOTE} (epoch 12, req-0-1)", f"{NOTE} (epoch 3)"]
)
def test_notes_of_older_releases_are_ours_and_say_nothing_of_the_ledger(text):
    assert parse(text, NOTE) == Mark("", None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "broken disk",
        f"do not touch, was {NOTE}",
        f"{NOTE}, but broken now",
        f"{NOTE} (ledger 0badcafe, event 3401-01234567) do not clear",
        f"{NOTE} (ledger 0badcafe, event 3401)",
        f"{NOTE} (ledger NOTHEX00, event 3401-01234567)",
        f"x{NOTE}",
        f"broken |{NOTE}",
        f"{NOTE} (broken)",
    ],
)
def test_a_note_that_only_contains_ours_is_somebody_elses(text):
    assert parse(text, NOTE) is None
    status = with_ours(NodeStatus("offline", note=text, marked=True), NOTE)
    assert (status.is_ours, status.is_foreign, status.stamp) == (False, bool(text), None)


def test_a_loan_keeps_what_an_operator_had_noted(site):
    site.change("free", reason="fan loud, ticket 12")
    site.driver.reclaim_nodes(["free", "other"], why=str(STAMP))
    text = f"fan loud, ticket 12 | {OURS[site.system]} (ledger 0badcafe, event 3401-01234567)"
    assert site.nodes()["free"]["reason"] == text
    read = site.driver.get_status_of_nodes(["free", "other"])
    assert all(each.is_ours and each.is_handed_over and each.stamp == STAMP for each in read.values())
    site.driver.restore_nodes(["free", "other"])
    assert site.nodes()["free"] == {
        "marked": False,
        "jobs": [],
        "down": False,
        "reason": "fan loud, ticket 12",
    }
    assert site.nodes()["other"]["reason"].strip() == ""  # Slurm 24.11 takes no empty reason


def test_a_mark_that_is_set_again_says_the_newer_event_and_keeps_the_note_once(site):
    site.change("free", reason="fan loud")
    for seq in (1, 2):
        site.driver.reclaim_nodes(["free"], why=str(Stamp("0badcafe", seq, "01234567")))
    read = site.driver.get_status_of_nodes(["free"])["free"]
    assert (read.note.count("fan loud"), read.stamp) == (1, Stamp("0badcafe", 2, "01234567"))


def test_a_node_that_an_operator_took_offline_is_not_marked_by_us(site):
    site.change("free", marked=True, reason=f"broken, was {OURS[site.system]}")
    if site.system == "slurm":
        with pytest.raises(Exception, match="drained by somebody else"):
            site.driver.reclaim_nodes(["free"], why=str(STAMP))
    else:
        site.driver.reclaim_nodes(["free"], why=str(STAMP))
    read = site.driver.get_status_of_nodes(["free"])["free"]
    assert (read.is_ours, read.is_foreign, read.note) == (False, True, f"broken, was {OURS[site.system]}")


def test_a_node_that_an_operator_took_offline_while_we_had_it_is_not_put_online_by_us(site):
    site.driver.reclaim_nodes(["free", "other"], why=str(STAMP))
    site.change("free", reason="broken disk")
    if site.system == "slurm":
        with pytest.raises(Exception, match="drained by somebody else"):
            site.driver.restore_nodes(["free", "other"])
    else:
        site.driver.restore_nodes(["free", "other"])
    nodes = site.nodes()
    assert (nodes["free"]["marked"], nodes["free"]["reason"]) == (True, "broken disk")
    assert not nodes["other"]["marked"]
