"""Nodes that were down by Slurm's report of a cluster's use."""

from __future__ import annotations

import pytest

from command_line import emulate
from emulator.workload.files import TraceError
from emulator.workload.sreport import is_sreport, read_sreport

SUNDAY, DAY = 1_767_484_800, 86_400
"""2026-01-04, midnight UTC."""
RULE = "-" * 80
HEAD = "Cluster|Allocated|Down|PLND Down|Idle|Planned|Reported"


def report(day, row, head=HEAD):
    return [
        RULE,
        f"Cluster Utilization 2026-01-{day:02}T00:00:00 - 2026-01-{day:02}T23:59:59",
        "Usage reported in CPU Minutes",
        RULE,
        head,
        row,
    ]


def test_as_many_nodes_are_down_as_the_report_says_for_as_long(text_file):
    """A quarter of ten nodes on the first day, a tenth of them on the second, by plan."""
    path = text_file(
        *report(4, "c|500|250|0|250|0|1000"), *report(5, "c|50.00%|0.00%|10.00%|40.00%|0|100.00%")
    )
    assert is_sreport(path)
    assert read_sreport(path, nodes=10) == {
        "down 1": [(SUNDAY, SUNDAY + DAY), (SUNDAY + DAY, SUNDAY + 2 * DAY)],
        "down 2": [(SUNDAY, SUNDAY + DAY)],
        "down 3": [(SUNDAY, SUNDAY + DAY / 2)],
    }


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (report(4, "c|1|many|0|1|0|2"), "txt:6: Down is 'many', not a number"),
        (report(4, "c|1|1|0|1|0|0"), "txt:6: Reported is 0"),
        (report(4, "c|gres/gpu|1|0|0|1|0|2", HEAD.replace("Cluster", "Cluster|TRES Name")), "it reports gres/gpu"),
        (report(4, "c   1  1", "Cluster  Down"), "no report with columns told apart by |; write it with sreport -P"),
    ],
)  # fmt: skip
def test_bad_input_is_named(text_file, lines, reason):
    with pytest.raises(TraceError, match=reason.replace("|", r"\|")):
        read_sreport(text_file(*lines), nodes=10)


def test_a_log_is_held_against_it(text_file, swf_file, swf_line):
    """Four nodes are in use all day. With half of them down there cannot have been four."""
    lines = [swf_line(at, at * 3600, run=3600, requested=4, estimate=3600) for at in range(24)]
    log = swf_file(f"; UnixStartTime: {SUNDAY}", *lines)
    path = text_file(*report(4, "c|0|500|0|500|0|1000"))
    done = emulate("trace", "check", log, "--nodes", "4", "--down-nodes", path)
    text = " ".join(done.stdout.split())
    assert done.exit_code == 1
    assert "2.0 nodes on average, at most 2 at once; they count as in use" in text
    assert "Up to 6 nodes were in use at once" in text
