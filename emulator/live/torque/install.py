"""Writes Torque's commands into a folder, bound to one server's address."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from balancer.clock import US, wall_us
from emulator.live.process import read_address
from emulator.live.torque.commands import NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="emulator.live.torque.install", description="Writes the batch commands into a folder."
    )
    parser.add_argument("bin", type=Path, help="the folder")
    parser.add_argument("--home", type=Path, required=True, help="the server's home")
    parser.add_argument("--wait-s", type=float, default=30.0, help="wait so long for the server (30)")
    options = parser.parse_args(arguments)
    end_us = wall_us() + round(options.wait_s * US)
    pause = threading.Event()
    while (address := read_address(options.home)) is None:
        if wall_us() > end_us:
            sys.stderr.write(f"no batch server listens in {options.home}; start it first\n")
            return 2
        pause.wait(0.05)
    install_commands(options.bin, address)
    return 0


if __name__ == "__main__":
    sys.exit(main())
