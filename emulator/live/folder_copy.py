"""A node's copies of its jobs' files, where the folder that jobs share is on another host (`folder_server.py`).

An agent fetches a job's files before it starts the job, and sends what the job has written whenever the job rests and
when it is over, before anybody hears of that. So a job that goes on elsewhere finds its checkpoints and output there.
Batch systems call it stage in and stage out; nothing is mounted, and a host needs no file system of the network.
"""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from balancer.whole_file import write_bytes
from emulator.live.folder_server import files_of
from emulator.live.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

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
