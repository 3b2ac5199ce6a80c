"""`balancer predictor` and `balancer predict` on the command line."""

from __future__ import annotations

import json

import pytest

from command_line import balance


def csv_of(path, rows: list[tuple[str, int]]):
    path.write_text("start,nodes_requested\n" + "".join(f"{start},{nodes}\n" for start, nodes in rows))
    return str(path)


def test_a_backtest_ranks_the_predictors_by_pinball_loss(tmp_path):
    quarters = ("00", "06", "12", "18")
    rows = [
        (f"2026-01-{day:02}T{hour}:00:00Z", 8 if hour == "12" else 0)
        for day in range(1, 31)
        for hour in quarters
    ]
    found = balance("predictor", "backtest", "--history", csv_of(tmp_path / "h.csv", rows), "--json")
    scores = json.loads(found.stdout)
    assert {score["predictor"] for score in scores} == {"peak", "seasonal_quantile", "recency_weighted"}
    assert [score["pinball_loss"] for score in scores] == sorted(score["pinball_loss"] for score in scores)
    assert next(score for score in scores if score["predictor"] == "peak")["wasted_node_h"] == 0


def test_a_history_in_a_file_goes_before_the_service_of_the_environment(tmp_path, monkeypatch):
    rows = [
        (f"2026-01-{day:02}T{hour}:00:00Z", 1) for day in range(1, 31) for hour in ("00", "06", "12", "18")
    ]
    path = csv_of(tmp_path / "h.csv", rows)
    monkeypatch.setenv("BALANCER_URL", "http://127.0.0.1:9")
    assert balance("predictor", "backtest", "--history", path).exit_code == 0
    both = balance("predictor", "backtest", "--history", path, "--url", "http://127.0.0.1:9")
    assert (both.exit_code, "give either --url or --history" in both.stderr) == (2, True)


def test_a_history_with_a_hole_is_refused_naming_file_and_line(tmp_path):
    path = csv_of(tmp_path / "h.csv", [("2026-01-01T00:00:00Z", 1), ("2026-01-01T12:00:00Z", 1)])
    refused = balance("predictor", "backtest", "--history", path)
    assert refused.exit_code == 2
    assert f"{path}, line 3: starts at 2026-01-01T12:00:00Z, expected 2026-01-01T06:00:00Z" in refused.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["predictor", "backtest"], "give either --url or --history"),
        (["predict", "--predictor", "peek", "--once"], "did you mean 'peak'"),
        (["predict", "--set", "combine", "--once"], "expected NAME=VALUE"),
        (["predict", "--dry-run"], "--dry-run goes with --once"),
        (["predict", "--once", "--until-s", "5"], "--until-s: --once is one step; leave it out"),
        (["predict", "--once", "--url", "http://127.0.0.1:9"], "no answer from http://127.0.0.1:9"),
    ],
)
def test_bad_input_is_one_clear_line_and_status_2(words, text):
    refused = balance(*words)
    assert refused.exit_code == 2
    assert text in refused.stderr


@pytest.mark.live
def test_one_step_is_told_in_words(service):
    _, client = service
    told = balance("predict", "--once", "--dry-run", "--url", client.url)
    assert told.exit_code == 0, told.output
    assert told.stdout.endswith(": 0 nodes, nothing reserved\n")
