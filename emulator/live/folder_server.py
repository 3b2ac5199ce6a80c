"""A folder served to agents of other hosts, which have copies of their jobs' files (`folder_copy.py`).

    GET  /?name=j12&name=12        {"files": {PATH: BASE64}}: of a job, by its name and its number
    POST / {"files": {PATH: BASE64}, "gone": [PATH]}: what it has written and deleted; 200 once that is in the folder

Plain HTTP without any password, as the clock's: for a network in which there is nobody but the fleet.
"""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from balancer.whole_file import write_bytes
from emulator.background_server import HttpHandler, HttpServer, Serving

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_MOST_BYTES = 256 << 20


def files_of(folder: Path, names: Collection[str]) -> Iterator[Path]:
    """A job's files, wherever in the folder: their names begin with the job's name or number, up to the first dot."""
    for path in folder.rglob("*"):
        if path.name.partition(".")[0] in names and path.is_file():
            yield path


class FolderServer(Serving):
    """Serves `folder` while the block lasts."""

    def __init__(self, address: tuple[str, int], folder: Path) -> None:
        super().__init__(HttpServer(address, type("_Bound", (_Handler,), {"folder": folder})), "folder")


class _Handler(HttpHandler):
    folder: Path
    speaker = "folder server"

    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        names = parse_qs(urlsplit(self.path).query).get("name", [])
        found = {
            str(path.relative_to(self.folder)): base64.b64encode(path.read_bytes()).decode()
            for path in files_of(self.folder, names)
        }
        self.answer_json(200, {"files": found})

    def do_POST(self) -> None:  # noqa: N802 - the base class's name
        size = int(self.headers.get("Content-Length", "0"))
        if size > _MOST_BYTES:
            self.answer_json(413, {"error": f"more than {_MOST_BYTES >> 20} MiB at once"})
            return
        try:
            document = json.loads(self.rfile.read(size))
            files = {self._inside(path): base64.b64decode(text) for path, text in document["files"].items()}
            gone = [self._inside(path) for path in document["gone"]]
            for path, content in files.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_bytes(path, content)
            for path in gone:
                path.unlink(missing_ok=True)
        except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
            self.answer_json(400, {"error": f"not files of a job: {error}"})
        except OSError as error:  # a full volume, for one: who sent them must know
            self.answer_json(507, {"error": str(error)})
        else:
            self.answer_json(200, {})

    def _inside(self, text: str) -> Path:
        path = Path(text)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise ValueError(f"{text!r} is not a path in the folder")
        return self.folder / path
