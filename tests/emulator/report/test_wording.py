"""A figure that stands alone has a name in words."""

from __future__ import annotations

import pytest

from emulator.report.wording import title


@pytest.mark.parametrize(
    ("key", "name", "with_unit"),
    [
        ("mean_wait_s", "mean wait", "mean wait, s"),
        ("ondemand_rejected", "on-demand requests rejected", "on-demand requests rejected"),
        ("batch_utilization", "utilisation by batch jobs", "utilisation by batch jobs"),
        ("window.idle", "window.idle", "window.idle"),
    ],
)
def test_a_figure_has_a_name(key, name, with_unit):
    assert (title(key), title(key, with_unit=True)) == (name, with_unit)
