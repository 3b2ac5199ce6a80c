"""Writes Torque's commands into a folder, bound to one server's address."""

from __future__ import annotations

import sys
from pathlib import Path

from emulator.live.torque.commands import NAMES

_TEMPLATE = Path(__file__).with_name("command.py.in")
_SHEBANG_LIMIT = 255


def install_commands(bin_dir: Path, address: tuple[str, int], server_name: str = "server") -> None:
    """`qsub`, `qstat`, ... in `bin_dir` (made if need be), for the server at `address`.

    The user who runs them is `$TORQUE_USER`, or who they are.
    """
    text = _TEMPLATE.read_text(encoding="utf-8")
    shebang = text.partition("\n")[0].replace("@PYTHON@", sys.executable)
    if len(shebang) > _SHEBANG_LIMIT or " " in sys.executable:
        raise ValueError(f"the interpreter's path cannot stand in a script's first line: {sys.executable}")
    for place, value in {
        "@PYTHON@": sys.executable,
        "@HOST@": repr(address[0]),
        "@PORT@": str(address[1]),
        "@SERVER@": repr(server_name),
    }.items():
        text = text.replace(place, value)
    bin_dir.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        path = bin_dir / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
