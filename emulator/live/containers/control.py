"""The controller's small HTTP server: settings for the containers, status and marks for people.

GET  /start/ROLE             200 the role's settings (JSON), 503 what it waits for (text);
                             a node adds ?name=NODE, or ?host=HOSTNAME to be named by its address
GET  /status                 where the run is
POST /marks                  {"text": ..., "fault": number, "do": action, "host": name}: what was done to the fleet
"""

from __future__ import annotations

import json
import re
import socket
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from emulator.clock.background_server import HttpHandler, HttpServer, Serving
from emulator.live.names import NODE, ROLES, node_name

_MOST_BYTES = 65_536


class NotYet(Exception):
    """A container has to wait; the text says for what."""


def replica_at(address: str) -> str | None:
    """The name of the node at an address by its number among the replicas; None where it has none.

    Compose gives a replica no name of its own but in its address's reverse look-up: PROJECT-node-3.NETWORK. The replica
    itself cannot ask for it: its own hosts file answers first, with the container's id.
    """
    try:
        found, *_ = socket.gethostbyaddr(address)
    except OSError:
        return None
    match = re.search(rf"[-_.]{NODE}[-_.](\d+)(?:\.|$)", found)
    return None if match is None else node_name(int(match[1]))


class Answers(Protocol):
    """What the server asks the controller."""

    def start_settings(self, role: str, name: str | None) -> dict[str, Any]: ...
    def status(self) -> dict[str, Any]: ...
    def mark(
        self, text: str, *, fault: int | None, action: str | None, host: str | None
    ) -> dict[str, Any]: ...


class ControlServer(Serving):
    """Listens while the block lasts."""

    def __init__(self, address: tuple[str, int], answers: Answers) -> None:
        super().__init__(HttpServer(address, type("_Bound", (_Handler,), {"answers": answers})), "control")


class _Handler(HttpHandler):
    answers: Answers
    speaker = "controller"
    quiet = ("200", "503")

    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        url = urlsplit(self.path)
        match url.path.strip("/").split("/"):
            case ["start", role] if role in ROLES:
                try:
                    asks = {key: values[0] for key, values in parse_qs(url.query).items()}
                    name = asks.get("name")
                    if name is None and "host" in asks:
                        name = replica_at(self.client_address[0]) or asks["host"]
                    self.answer_json(200, self.answers.start_settings(role, name))
                except NotYet as error:
                    self.answer_text(503, str(error))
                except ValueError as error:
                    self.answer_text(400, str(error))
            case ["status"]:
                self.answer_json(200, self.answers.status())
            case _:
                self.answer_text(404, f"there is no {url.path} here")

    def do_POST(self) -> None:  # noqa: N802 - the base class's name
        if self.path != "/marks":
            self.answer_text(404, f"there is no {self.path} here")
            return
        try:
            size = int(self.headers.get("Content-Length", "0"))
            body = json.loads(self.rfile.read(min(size, _MOST_BYTES)))
            text, fault = str(body["text"]), body.get("fault")
            answer = self.answers.mark(
                text,
                fault=None if fault is None else int(fault),
                action=body.get("do"),
                host=body.get("host"),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.answer_text(400, f"not a mark: {error!r}")
            return
        self.answer_json(200, answer)
