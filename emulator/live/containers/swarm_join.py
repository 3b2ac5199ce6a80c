"""How another host joins a fleet's Swarm with one command: it fetches a script, the script fetches the image.

    curl -fsS http://MANAGER:8102/SECRET | sh

The host needs an engine, curl and a shell. The script loads the image that nodes run, where the engine has it not yet
(so no registry is needed), joins, waits until the run is over, leaves, and takes away what the Swarm left. A host that
is in a Swarm already gets the image, and no more. Who knows the address with its secret may join; it is plain HTTP, for
a network whose hosts trust each other, as a Swarm has.
"""

from __future__ import annotations

import secrets
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

from emulator.background_server import HttpServer, Serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_THERE = {"", "image", "over"}
_SCRIPT = """set -eu
url='{url}'
[ "$(docker image inspect --format '{{{{.Id}}}}' '{image}' 2>/dev/null)" = '{image_id}' ] ||
    curl -fsS "$url/image" | docker load --quiet
[ "$(docker info --format '{{{{.Swarm.LocalNodeState}}}}')" = inactive ] || exit 0
has_bridge=$(docker network ls --quiet --filter name=docker_gwbridge)
docker swarm join --token '{token}' '{manager}'
leave() {{
    trap - EXIT
    docker swarm leave
    [ -n "$has_bridge" ] || for i in 1 2 3 4 5 6 7 8 9 10; do
        docker network disconnect --force docker_gwbridge gateway_ingress-sbox >/dev/null 2>&1 || true
        docker network rm docker_gwbridge >/dev/null 2>&1 && break || sleep 0.5
    done
}}
trap leave EXIT
trap 'exit 130' INT TERM
curl -fsS "$url/over" || true
"""
"""Doubled braces are those of the script. What is piped into `docker load` and ends half-way is its error."""


@dataclass(frozen=True, slots=True)
class JoinTicket:
    """What a host needs. `manager`: HOST:PORT of the Swarm; `image`: name and `image_id` of what its nodes run."""

    manager: str
    token: str
    image: str
    image_id: str
    image_tar: Callable[[], Iterable[bytes]]

    def script(self, url: str) -> str:
        return _SCRIPT.format(
            url=url, image=self.image, image_id=self.image_id, token=self.token, manager=self.manager
        )


class JoinServer(Serving):
    """Invites hosts at `address` (one of this machine's) while the block lasts; port 0: any."""

    def __init__(self, address: tuple[str, int], invitation: JoinTicket) -> None:
        server = _Server(address, invitation)
        super().__init__(server, "invitations")
        self.over = server.over
        """Set it, and the hosts leave."""
        self.command = f"curl -fsS {server.url} | sh"
        """What to type on each other host."""


class _Server(HttpServer):
    def __init__(self, address: tuple[str, int], invitation: JoinTicket) -> None:
        super().__init__(address, _Handler)
        self.invitation = invitation
        self.over = threading.Event()
        self.secret = secrets.token_urlsafe(16)
        self.url = f"http://{address[0]}:{self.server_port}/{self.secret}"


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        secret, _, what = self.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(secret.encode(), self.server.secret.encode()) or what not in _THERE:
            self.send_error(404)
            return
        if what == "over":
            self.server.over.wait()
        self.send_response(200)
        self.end_headers()
        if what == "image":
            for part in self.server.invitation.image_tar():
                self.wfile.write(part)
        elif not what:
            self.wfile.write(self.server.invitation.script(self.server.url).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002, ARG002 - the base class's name
        """Only what went wrong; never the address with its secret."""
        if args[1:2] != ("200",):
            sys.stderr.write(f"emulator: {self.client_address[0]} asked for what is not here\n")
