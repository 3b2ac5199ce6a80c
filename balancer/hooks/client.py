"""How a batch system's hook calls the Balancer: its settings, the signed call, and what may go wrong on the way.

Only the standard library: this runs on a node before every job.
"""

from __future__ import annotations

import http.client
import json
import re
import signal
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from balancer.auth.signature import sign
from balancer.clock import utc_us

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping, Sequence

START = 0
"""The exit status with which a hook lets its job start."""
DEFAULT_URL = "http://127.0.0.1:8090"
DEFAULT_MARKER = "/run/balancer/handed-over"
DEFAULT_DEADLINE_S = 5.0
DEFAULT_KEY_FILE = "/etc/balancer/hook.key"
_MOST_DEADLINE_S = 60.0
_PATH = "/v1/update_nodes"
_NOT_OURS = "balancer.node_not_in_batch_pool"
_CONFLICT = 409
_ANSWER_BYTES = 65_536
_KEY_LINE = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s+((?:[0-9a-f]{2})+)\s*")


@dataclass(frozen=True, slots=True)
class HookSettings:
    """`marker`: this file exists on a node while on-demand has it. `deadline_s`: wall time for everything.

    `keys`: of nodes, hexadecimal; a call is signed with the first that a node of the job has, else not at all.
    `ca_file`: the certificates to trust, instead of the system's.
    """

    url: str = DEFAULT_URL
    marker: Path = field(default=Path(DEFAULT_MARKER))
    deadline_s: float = DEFAULT_DEADLINE_S
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: str | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> HookSettings:
        """Unreadable settings are told and fall back to the defaults: a typing error must not stop the queue."""
        return cls(
            url=environ.get("BALANCER_URL") or DEFAULT_URL,
            # An empty name would be the current folder, which is always there.
            marker=Path(environ.get("BALANCER_MARKER") or DEFAULT_MARKER),
            deadline_s=_deadline_s(environ.get("BALANCER_HOOK_DEADLINE_S") or f"{DEFAULT_DEADLINE_S}"),
            keys=read_keys(Path(environ.get("BALANCER_HOOK_KEY_FILE") or DEFAULT_KEY_FILE)),
            ca_file=environ.get("BALANCER_CA_FILE") or None,
        )


def _deadline_s(text: str) -> float:
    try:
        if 0 < (found := float(text)) <= _MOST_DEADLINE_S:
            return found
    except ValueError:
        pass  # told below, like a number that will not do
    say(
        f"BALANCER_HOOK_DEADLINE_S={text} is no number of seconds up to {_MOST_DEADLINE_S:g}: "
        f"{DEFAULT_DEADLINE_S:g} s are used"
    )
    return DEFAULT_DEADLINE_S


@dataclass(frozen=True, slots=True)
class Answer:
    """What the Balancer said. `status` 0: it could not be asked in time."""

    status: int
    code: str = ""
    detail: str = ""

    @property
    def accepted(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004

    @property
    def refused(self) -> bool:
        return self.status == _CONFLICT and self.code == _NOT_OURS


def send_update(
    settings: HookSettings, nodes: Sequence[str], state: str, job: str, remaining_s: float | None
) -> Answer:
    """POST update_nodes, within the deadline; whatever goes wrong is an Answer that is neither yes nor no."""
    body: dict[str, object] = {"states": dict.fromkeys(nodes, state), "job": job}
    if remaining_s is not None:
        body["remaining_s"] = remaining_s
    try:
        with _deadline(settings.deadline_s):
            return _post(settings, json.dumps(body).encode(), nodes)
    except Exception as error:  # noqa: BLE001 - whatever an answer can do to us, the job must not suffer
        return Answer(0, detail=f"{settings.url}: {error or type(error).__name__}")


def _post(settings: HookSettings, body: bytes, nodes: Sequence[str]) -> Answer:
    url = urlsplit(settings.url)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ValueError("BALANCER_URL must look like http://host:port")
    path = url.path.rstrip("/") + _PATH
    headers = {"Content-Type": "application/json"} | _signed(settings, nodes, body)
    connection: http.client.HTTPConnection
    if url.scheme == "https":
        trusted = _trusted(settings.ca_file)
        connection = http.client.HTTPSConnection(
            url.hostname, url.port, timeout=settings.deadline_s, context=trusted
        )
    else:
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=settings.deadline_s)
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        answer = response.read(_ANSWER_BYTES)
    finally:
        connection.close()
    if 200 <= response.status < 300:  # noqa: PLR2004
        return Answer(response.status)
    try:
        problem = json.loads(answer)
        return Answer(response.status, str(problem.get("code", "")), str(problem.get("detail", "")))
    except (ValueError, AttributeError):
        return Answer(response.status, detail=f"HTTP {response.status} without a problem document")


def read_keys(path: Path) -> dict[str, str]:
    """Keys (hexadecimal) by node from lines `NODE KEY`; what cannot be used is left out, with a message."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        say(f"{path} cannot be read ({error}): calls are not signed")
        return {}
    found = [match for match in map(_KEY_LINE.fullmatch, lines) if match is not None]
    if len(found) < len([line for line in lines if line.strip()]):
        say(f"{path} has a line that is not a node's name and its key")
    return {match[1]: match[2] for match in found}


def _signed(settings: HookSettings, nodes: Sequence[str], body: bytes) -> dict[str, str]:
    """The header that shows that a node of this job sent it; nothing without a key."""
    node = next((node for node in nodes if node in settings.keys), None)
    if node is None:
        return {}
    # The path as the service sees it: a proxy in front may have a prefix of its own.
    signature = sign(bytes.fromhex(settings.keys[node]), node, utc_us(), _PATH, body)
    return {"Authorization": signature.header()}


def _trusted(ca_file: str | None) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - takes a while, and is needed for https only

    return ssl.create_default_context(cafile=ca_file)


@contextmanager
def _deadline(limit_s: float) -> Iterator[None]:
    """TimeoutError after `limit_s`, however the time is spent (look-up of the name, a byte a second, ...).

    Signals reach the main thread only; a hook that is called in another one has the socket's time-outs.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_alarm(*_: object) -> NoReturn:
        raise TimeoutError(f"no answer within {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def say(text: str) -> None:
    """To standard error. Torque puts a prologue's into the job's .e file, where its owner can read it."""
    sys.stderr.write(f"balancer: {text}\n")
