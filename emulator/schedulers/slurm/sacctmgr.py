"""What `sacctmgr show` prints, in each of its forms, as rows by the names of its columns.

Columns are told apart by `|` (`--parsable2`, `--parsable`) or have a width, which the line of dashes gives; `--json`
and `--yaml` call them by other names, which are put back (those of Slurm 23.11 to 26.05, from its sources).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from emulator.text.file_errors import refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_DASHES = re.compile(r"-+( -+)+ *")
_YAML = re.compile(r"\A(%YAML|---|[a-z]+:\s)")
_NUMBER = {"set", "infinite", "number"}


@dataclass(frozen=True, slots=True)
class Table:
    """What is read: what sacctmgr is told to show, a column that each form has, and the names in JSON.

    `harmless`: columns, in small letters, in which a value that was cut at its width is none the worse. `seconds`: the
    names in JSON of times that columns have in minutes.
    """

    what: str
    shown: str
    column: str
    listed: str
    columns: Mapping[str, str]
    harmless: frozenset[str] = frozenset()
    seconds: frozenset[str] = frozenset()

    @property
    def remedy(self) -> str:
        return f"write what `sacctmgr show {self.shown} --parsable2` prints"


@dataclass(frozen=True, slots=True)
class Row:
    """`place`: file, and line or number. `said`: what is not empty, by column; blanks in front only show depth."""

    place: str
    said: Mapping[str, str]


def read_rows(path: Path, table: Table) -> list[Row]:
    """The rows of a file. Raises ValueError that names file and line, and what to do."""
    try:
        raw = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{table.what}: {path} cannot be read: {refusal(error)}") from error
    if text.lstrip().startswith("{") or _YAML.match(text):
        return list(_of_document(path, text, table))
    lines = raw.splitlines()
    if len(lines) > 1 and _DASHES.fullmatch(lines[1].decode()):
        return list(_by_widths(path, lines, table))
    return list(_by_character(path, text.splitlines(), table))


def _by_character(path: Path, lines: list[str], table: Table) -> Iterator[Row]:
    heading = lines[0].rstrip("|").split("|") if lines else []
    if table.column not in heading:
        raise ValueError(f"{table.what}: {path}:1: {_what_else(lines, table)}; {table.remedy}")
    for number, line in enumerate(lines[1:], 2):
        if not line.strip() or line == lines[0]:
            continue
        values = line.split("|")
        if len(values) < len(heading):
            raise ValueError(
                f"{table.what}: {path}:{number}: {len(values)} columns, the heading has {len(heading)}"
            )
        yield Row(
            f"{path}:{number}",
            {name: text for name, text in zip(heading, values, strict=False) if text.strip()},
        )


def _what_else(lines: list[str], table: Table) -> str:
    """What a file is that has no heading."""
    if lines and table.column in lines[0].split():
        return "the line of dashes below the heading is missing, which says how wide the columns are"
    if lines and lines[0].startswith(("#", "Cluster - ")):
        return "this is what sacctmgr dump writes"
    if lines and "|" in lines[0]:
        return f"no heading with {table.column}|... (write it again without -n and with that column)"
    return f"no heading with {table.column}|..."


def _by_widths(path: Path, lines: list[bytes], table: Table) -> Iterator[Row]:
    """Columns that are as wide as their dashes, in bytes, as sacctmgr counts."""
    spans = [slice(*match.span()) for match in re.finditer(b"-+", lines[1])]
    heading = [lines[0][span].decode() for span in spans]
    names = [each.strip() for each in heading]
    if table.column not in names:
        raise ValueError(f"{table.what}: {path}:1: no column {table.column}; {table.remedy}")
    for number, line in enumerate(lines[2:], 3):
        if not line.strip() or line in lines[:2]:
            continue
        where = f"{table.what}: {path}:{number}"
        if any(line[span.stop : span.stop + 1].strip() for span in spans):
            raise ValueError(f"{where}: a value is wider than its column; {table.remedy}")
        said = {}
        for name, title, span in zip(names, heading, spans, strict=True):
            text = line[span].decode("utf-8", "replace")
            if len(line[span]) == span.stop - span.start and text.endswith("+"):
                if name.lower() in table.harmless:
                    continue
                raise ValueError(
                    f"{where}: {name}={text.strip()} is cut at the width of its column; {table.remedy}"
                )
            if text.strip():  # blanks in front are depth where the column begins at the left (`tree`)
                said[name] = text.rstrip() if title[0] != " " else text.strip()
        yield Row(f"{path}:{number}", said)


def _of_document(path: Path, text: str, table: Table) -> Iterator[Row]:
    import yaml  # noqa: PLC0415 - most tables are no YAML

    try:
        document = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(f"{table.what}: {path} cannot be read: {error}") from error
    listed = document.get(table.listed) if isinstance(document, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise ValueError(f"{table.what}: {path}: no list `{table.listed}` of objects; {table.remedy}")
    for number, each in enumerate(listed, 1):
        said = {
            table.columns.get(name, name): f"0:{value}" if name in table.seconds else value
            for name, value in _leaves(each, "")
            if value
        }
        yield Row(f"{path}: number {number} of `{table.listed}`", said)


def _leaves(part: Mapping[str, Any], within: str) -> Iterator[tuple[str, str]]:
    """What the parts of an object say, by their names with those that they are in (`max/jobs/active`)."""
    for key, value in part.items():
        name = f"{within}{key}"
        if not isinstance(value, dict):
            yield name, _listed(value) if isinstance(value, list) else _text(value)
        elif set(value) <= _NUMBER and "number" in value:
            yield name, _text(value["number"]) if value.get("set") and not value.get("infinite") else ""
        else:
            yield from _leaves(value, f"{name}/")


def _listed(values: list[Any]) -> str:
    """Names, or trackable resources with their counts."""
    return ",".join(
        f"{each['type']}{'/' if each.get('name') else ''}{each.get('name', '')}={each.get('count')}"
        if isinstance(each, dict) and "type" in each
        else str(each)
        for each in values
    )


def _text(value: Any) -> str:
    return "" if value is None else str(value)
