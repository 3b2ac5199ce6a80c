"""Tables of the docs are tables: a row of pipes without a header renders as raw pipes."""

import re
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
_RULE = re.compile(r"\|?(\s*:?-+:?\s*\|)+(\s*:?-+:?\s*)?")


def cells(row):
    """How many a row has; a pipe behind a backslash is text."""
    return len(re.findall(r"(?<!\\)\|", row.strip().strip("|"))) + 1


def broken_tables(text):
    """Numbers of the lines in which a table begins that is none."""
    lines, is_code = ["", *text.splitlines(), ""], False
    found = []
    for number, (before, line) in enumerate(pairwise(lines), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        if is_code or not is_row(line) or is_row(before):
            continue
        rule = lines[number + 1].strip()
        if not _RULE.fullmatch(rule) or cells(rule) != cells(line):
            found.append(number)
    return found


def is_row(line):
    """Four spaces make it code."""
    return re.match(r" {0,3}\|", line) is not None


def test_every_table_of_a_page_has_a_header():
    found = {page.relative_to(ROOT).as_posix(): broken_tables(page.read_text("utf-8")) for page in PAGES}
    assert {page: lines for page, lines in found.items() if lines} == {}


def test_a_table_with_a_blank_line_in_it_or_another_width_in_its_rule_is_found():
    head = "| a | b |\n| --- | --- |\n"
    assert broken_tables(f"{head}| 1 | 2 |\n| `x \\| y` | 2 |\n") == []
    assert broken_tables(f"{head}| 1 | 2 |\n\n| 3 | 4 |\n") == [5]
    assert broken_tables("text\n\n| a | b |\n|---|\n| 1 | 2 |\n") == [3]
    assert broken_tables("```\n| a |\n```\n\n    | b |\n") == []
