"""A platform format: the nodes that `nodes: FILE` of a scenario names."""

from pathlib import Path

from emulator.runs.platforms import Platform
from emulator.workload.files import open_trace

HEADER = b"# inventory"


class Inventory:
    """The name of a node in each line, after a first line that says what this is."""

    name = "inventory"

    def can_read(self, path: Path) -> bool:
        """Looks at the beginning only."""
        with open_trace(path) as stream:
            return stream.read(len(HEADER)) == HEADER

    def read_platform(self, path: Path) -> Platform:
        with open_trace(path) as stream:
            lines = stream.read().decode().splitlines()
        return Platform(nodes=sum(1 for line in lines[1:] if line.strip()))
