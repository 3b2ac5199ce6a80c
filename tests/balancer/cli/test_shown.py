"""What commands print stays in its line and its column, whoever named it."""

from __future__ import annotations

import pytest

from balancer.console_kit import fail, show


def test_a_table_has_no_more_lines_than_rows_and_no_escapes(capsys):
    show(False, None, ["NODE", "NOTE"], [["n1", "fan\nloud"], ["n\x1b[2J2", "é\t日本"]])
    assert capsys.readouterr().out.splitlines() == [
        "NODE       NOTE",
        "n1         fan\\nloud",
        "n\\x1b[2J2  é\\t日本",
    ]


def test_an_error_keeps_its_lines_and_has_no_escapes(capsys):
    with pytest.raises(SystemExit):
        fail("no\x1b[31m\nnor this")
    assert capsys.readouterr().err == "balancer: no\\x1b[31m\nnor this\n"
