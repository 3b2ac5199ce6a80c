"""Where every page's templates come from: one setting of Jinja for all."""

from __future__ import annotations

from pathlib import Path

import jinja2


def environment(*folders: Path) -> jinja2.Environment:
    """Templates of `folders`, then those that all pages share.

    A value is escaped, and a name that the template was not given is an error.
    """
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
