"""The folder that jobs share, where it is on another host: served there, and copies of a job's files on its node.

An agent fetches a job's files before it starts the job, and sends what the job has written whenever the job rests and
when it is over, before anybody hears of that. So a job that goes on elsewhere finds its checkpoints and output there.
Batch systems call it stage in and stage out; nothing is mounted, and a host needs no file system of the network.

    GET  /?name=j12&name=12        {"files": {PATH: BASE64}}: of a job, by its name and its number
    POST / {"files": {PATH: BASE64}, "gone": [PATH]}: what it has written and deleted; 200 once that is in the folder

Plain HTTP without any password, as the clock's: for a network in which there is nobody but the fleet.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

from balancer.whole_file import write_bytes
from emulator.clock.background_server import HttpHandler, HttpServer, Serving
from emulator.live.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

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


_ANSWER_S = 60.0

Stamp = tuple[int, int, int]


class FolderCopyConfig(Settings):
    """`folder` here is a copy of that at `server` (HOST:PORT)."""

    folder: Path
    server: str


class FolderCopy:
    """Everything raises ConnectionError where the folder cannot be reached or takes nothing more.

    `names` are a job's own: those that its files begin with.
    """

    def __init__(self, config: FolderCopyConfig) -> None:
        self._folder = config.folder
        self._server = config.server
        self._there: dict[tuple[str, ...], dict[str, Stamp]] = {}
        """By job, what the server has: path -> how our copy looked then."""

    def fetch(self, names: tuple[str, ...]) -> None:
        """The job's files as they are there, instead of any that are here."""
        for path in files_of(self._folder, names):
            path.unlink()
        reply = self._ask(f"?{urlencode([('name', name) for name in names])}", None)
        for path, text in reply["files"].items():
            (self._folder / path).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(self._folder / path, base64.b64decode(text))
        self._there[names] = self._here(names)

    def send(self, names: tuple[str, ...]) -> None:
        """What the job has written or deleted since."""
        here, there = self._here(names), self._there.get(names, {})
        changed = [path for path, stamp in here.items() if there.get(path) != stamp]
        gone = sorted(there.keys() - here.keys())
        if changed or gone:
            self._ask("", {"files": self._texts(changed), "gone": gone})
        self._there[names] = here

    def leave(self, names: tuple[str, ...]) -> None:
        """The job is over here: its files are there, and here no more."""
        self.send(names)
        for path in self._there.pop(names, {}):
            (self._folder / path).unlink(missing_ok=True)

    def _here(self, names: tuple[str, ...]) -> dict[str, Stamp]:
        found = {}
        for path in files_of(self._folder, names):
            seen = path.stat()
            found[str(path.relative_to(self._folder))] = seen.st_mtime_ns, seen.st_size, seen.st_ino
        return found

    def _texts(self, paths: Iterable[str]) -> dict[str, str]:
        return {path: base64.b64encode((self._folder / path).read_bytes()).decode() for path in paths}

    def _ask(self, query: str, document: dict[str, Any] | None) -> dict[str, Any]:
        body = None if document is None else json.dumps(document).encode()
        try:
            with urllib.request.urlopen(f"http://{self._server}/{query}", body, _ANSWER_S) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            with error:
                why = error.read().decode(errors="replace")
            raise ConnectionError(f"the jobs' folder at {self._server} says {error.code}: {why}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ConnectionError(f"the jobs' folder at {self._server} does not answer: {error}") from error
