"""The Python of the pages for researchers runs as it stands, and says what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def blocks_of(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def run(blocks):
    """Run the blocks one after the other, as the cells of a notebook; what they have in the end."""
    names = {"__name__": "notebook"}
    for number, block in enumerate(blocks):
        exec(compile(block, f"block {number}", "exec"), names)  # noqa: S102 - our own page
    return names


@pytest.fixture(autouse=True)
def _in_a_checkout(tmp_path, monkeypatch):
    (tmp_path / "traces").symlink_to(ROOT / "traces")
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_the_page_of_the_interface_runs():
    names = run(blocks_of("python.md"))
    assert names["easy"].summary["mean_wait_s"] == pytest.approx(6888, rel=0.01)
    assert len(names["found"].table) == 2 * 2 * 2


@pytest.mark.slow
def test_the_page_of_own_policies_runs_and_its_policies_are_what_it_says():
    names = run(blocks_of("own-policy.md"))
    emulator, log = names["emulator"], names["log"]
    assert emulator.compare(
        names["mine"], emulator.run(log, nodes=100, overrun="kill", scheduler="wfp3+easy")
    ).is_same
    own = emulator.run(log, nodes=100, overrun="kill", scheduler=names["easy"])
    assert emulator.compare(own, emulator.run(log, nodes=100, overrun="kill")).is_same


@pytest.mark.slow
def test_the_page_of_learning_runs():
    names = run(blocks_of("reinforcement-learning.md"))
    assert names["reward"] == -names["result"].summary["mean_bounded_slowdown"]
    assert names["infos"]["mean_wait_s"].shape == (8,)
