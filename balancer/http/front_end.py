"""The HTTP front end: granian reads whole requests, pools of threads of their own answer them.

    accept, TLS, header ──► granian (Rust, outside the interpreter): time and size limits, no thread of ours
    body                ──► the event loop: whole, or 4xx; a slow sender costs a coroutine
    answer              ──► a thread of the lane that the call belongs to: health | hooks | streams | calls

A caller that sends slowly, reads slowly or only holds a connection therefore occupies no thread, and calls that
may block (requests that wait, event streams) cannot take the threads that hooks and health checks need.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

import structlog
from granian.constants import HTTPModes, Interfaces, SSLProtocols
from granian.http import HTTP1Settings
from granian.net import SocketHolder
from granian.rsgi import ProtocolClosed
from granian.server.embed import Server

from balancer.api.call import CLIENT_IS_GONE
from balancer.api.problems import MEDIA_TYPE, document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from balancer.limits import Limits

_log = structlog.get_logger()

_BACKLOG = 512
_MOST_QUEUED = 2000
"""Calls that wait for a thread of their lane; beyond it: 503 at once."""
_GRACE_S = 10.0
_FIRST_LOOK_S = 0.02
_HEALTH = frozenset({"/livez", "/readyz", "/healthz", "/healthcheck"})
_ONCE = frozenset({"host", "content-length", "content-type", "authorization", "origin", "idempotency-key"})
_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """PEM files. With `client_ca` a caller must show a certificate that this authority signed."""

    cert: Path
    key: Path
    client_ca: Path | None = None


class Lane:
    """Threads for calls of one kind, and a bounded queue before them. Used by the event loop alone."""

    def __init__(self, name: str, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._most = threads + _MOST_QUEUED
        self._accepted = 0

    async def run(self, call: Callable[[], None]) -> None:
        """Returns when it has been called. Raises Refusal: too many wait already."""
        if self._accepted >= self._most:
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many calls wait for an answer already")
        self._accepted += 1
        try:
            await asyncio.get_running_loop().run_in_executor(self._pool, call)
        finally:
            self._accepted -= 1

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class Refusal(Exception):
    """A request that is not passed on."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        super().__init__(detail)
        self.status = status

    def send(self, proto: Any, path: str) -> None:
        """With all that openapi.json requires of a problem."""
        name = "invalid_request" if self.status is HTTPStatus.BAD_REQUEST else self.status.name.lower()
        request_id = f"req-{uuid4()}"
        problem = document(self.status, f"balancer.{name}", str(self), instance=path, request_id=request_id)
        text = json.dumps(problem).encode()
        headers = [
            ("content-type", MEDIA_TYPE),
            ("connection", "close"),
            ("x-openstack-request-id", request_id),
        ]
        _log.info(
            "a call was refused", path=path, status=self.status.value, why=str(self), request_id=request_id
        )
        if self.status is HTTPStatus.SERVICE_UNAVAILABLE:
            headers.append(("retry-after", "1"))
        proto.response_bytes(self.status.value, headers, text)


_FAILED = Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "something went wrong here; the log has the details")


class Calls:
    """From granian's requests to calls of the WSGI application, in threads."""

    def __init__(self, app: Any, limits: Limits, *, scheme: str) -> None:
        self._app, self._limits, self._scheme = app, limits, scheme
        self._health = Lane("health", limits.health_threads)
        self._hooks = Lane("hooks", limits.hook_threads)
        self._streams = Lane("streams", limits.streams)
        self._calls = Lane("calls", limits.threads)
        self._under_way = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def wait_until_idle(self, timeout_s: float) -> None:
        """Until all requests have been answered, or for so long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_idle.wait(), timeout_s)

    def close(self) -> None:
        for lane in (self._health, self._hooks, self._streams, self._calls):
            lane.close()

    async def __call__(self, scope: Any, proto: Any) -> None:
        """One request, answered when this returns."""
        self._under_way += 1
        self._is_idle.clear()
        try:
            environ = self._environ(scope)
            environ["wsgi.input"] = io.BytesIO(await self._body(environ, proto))
            answer = _Answer(self._app, environ, proto, asyncio.get_running_loop())
            await self._lane(environ).run(answer)
        except Refusal as refusal:
            refusal.send(proto, scope.path)
        except ProtocolClosed:
            _log.debug("a caller hung up before its answer")
        except Exception:  # noqa: BLE001 - a bug of ours: said here, or nobody would hear of it
            _log.exception("a call could not be answered")
            _FAILED.send(proto, scope.path)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._is_idle.set()

    def _lane(self, environ: dict[str, Any]) -> Lane:
        path = environ["PATH_INFO"]
        if path in _HEALTH:
            return self._health
        if path == "/v1/update_nodes":
            return self._hooks
        if path == "/v1/events" and _STREAM in environ.get("HTTP_ACCEPT", ""):
            return self._streams
        return self._calls

    async def _body(self, environ: dict[str, Any], proto: Any) -> bytes:
        """The whole body. Raises Refusal, and ProtocolClosed where it breaks off."""
        if "HTTP_TRANSFER_ENCODING" in environ:
            # Whether a body in chunks is whole or broke off cannot be told here.
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "send the body with a Content-Length, not in chunks")
        length = environ.get("CONTENT_LENGTH", "0")
        if not (length.isascii() and length.isdigit()):
            raise Refusal(HTTPStatus.BAD_REQUEST, f"Content-Length: {length!r} is not a number")
        if int(length) == 0 or int(length) > self._limits.max_body_bytes:
            return b""  # the application refuses what is too large by its header, without the body
        try:
            async with asyncio.timeout(self._limits.body_s):
                body: bytes = await proto()
        except TimeoutError as error:
            raise Refusal(
                HTTPStatus.REQUEST_TIMEOUT, f"the body did not come within {self._limits.body_s:g} s"
            ) from error
        return body

    def _environ(self, scope: Any) -> dict[str, Any]:
        """The request as WSGI (PEP 3333) puts it. Raises Refusal."""
        headers = _headers(scope)
        size = len(scope.path) + len(scope.query_string) + sum(len(value) for value in headers.values())
        if size > self._limits.max_header_bytes:
            raise Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the header is too large")
        host = headers.get("HTTP_HOST")
        if scope.http_version != "1" and not host:
            raise Refusal(HTTPStatus.BAD_REQUEST, "the header Host is missing")
        if scope.authority is not None and scope.authority != host:
            raise Refusal(HTTPStatus.BAD_REQUEST, "the request's address and its header Host differ")
        address, _, port = scope.client.rpartition(":")
        name, _, own_port = (host or "localhost").rpartition(":")
        return headers | {
            "REQUEST_METHOD": scope.method,
            "SCRIPT_NAME": "",
            "PATH_INFO": scope.path.encode("utf-8", "surrogateescape").decode("latin-1"),
            "QUERY_STRING": scope.query_string,
            "SERVER_PROTOCOL": f"HTTP/{scope.http_version}",
            "SERVER_NAME": name or host or "localhost",
            "SERVER_PORT": own_port if own_port.isdigit() else "0",
            "REMOTE_ADDR": address,
            "REMOTE_PORT": port,
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": self._scheme,
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            "wsgi.input_terminated": True,
        }


def _headers(scope: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in scope.headers.items():
        if "_" in name:
            continue  # WSGI would take it for the header with dashes
        key = name.upper().replace("-", "_")
        if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
            key = f"HTTP_{key}"
        if key not in found:
            found[key] = value
        elif name in _ONCE:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"the header {name} is given twice")
        else:
            found[key] += ("; " if name == "cookie" else ",") + value
    return found


class _Answer:
    """One call of the application, from a thread of its lane."""

    def __init__(
        self, app: Any, environ: dict[str, Any], proto: Any, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._app, self._environ, self._proto, self._loop = app, environ, proto, loop
        self._gone: Any = None
        self._status = 500
        self._headers: list[tuple[str, str]] = []
        environ[CLIENT_IS_GONE] = self._is_gone

    def __call__(self) -> None:
        chunks: Iterable[bytes] = self._app(self._environ, self._start)
        try:
            if any(name == "content-type" and value.startswith(_STREAM) for name, value in self._headers):
                self._stream(chunks)
            else:
                body = b"".join(chunks)
                self._proto.response_bytes(self._status, self._headers, body)
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
            if self._gone is not None:
                # Else it would wait for the end of the connection, which may serve its client for days.
                self._gone.cancel()

    def _start(self, status: str, headers: list[tuple[str, str]], _: Any = None) -> Callable[[bytes], None]:
        self._status = int(status[:3])
        self._headers = [(name.lower(), value) for name, value in headers]
        return _no_write

    def _stream(self, chunks: Iterable[bytes]) -> None:
        transport = self._proto.response_stream(self._status, self._headers)
        for chunk in chunks:
            asyncio.run_coroutine_threadsafe(_send(transport, chunk), self._loop).result()
            if self._is_gone():
                return

    def _is_gone(self) -> bool:
        """The first look has to ask the event loop and waits a moment for it."""
        if self._gone is None:
            self._gone = asyncio.run_coroutine_threadsafe(_disconnected(self._proto), self._loop)
            with contextlib.suppress(TimeoutError):
                self._gone.result(_FIRST_LOOK_S)
        done: bool = self._gone.done()
        return done


async def _send(transport: Any, chunk: bytes) -> None:
    await transport.send_bytes(chunk)


async def _disconnected(proto: Any) -> None:
    await proto.client_disconnect()


def _no_write(_: bytes) -> None:
    raise TypeError("the application answers with an iterable, not through write()")


class _Listener(Server):  # type: ignore[misc] # the base class is not typed
    """granian on a socket that is bound already: a taken port is found out before anything starts."""

    def __init__(self, calls: Calls, listener: socket.socket, limits: Limits, tls: Tls | None) -> None:
        encrypted: dict[str, Any] = {}
        if tls is not None:
            encrypted = {
                "ssl_cert": tls.cert,
                "ssl_key": tls.key,
                "ssl_protocol_min": SSLProtocols.tls12,
                "ssl_ca": tls.client_ca,
                "ssl_client_verify": tls.client_ca is not None,
            }
        super().__init__(
            calls,
            interface=Interfaces.RSGI,
            http=HTTPModes.http1,
            websockets=False,
            backlog=_BACKLOG,
            backpressure=limits.max_connections,
            http1_settings=HTTP1Settings(
                header_read_timeout=round(limits.header_s * 1000), max_buffer_size=limits.max_header_bytes
            ),
            log_enabled=False,
            **encrypted,
        )
        self._listener = listener

    def _init_shared_socket(self) -> None:
        unix = self._listener.family == socket.AF_UNIX
        self._ssp = None
        self._shd = SocketHolder(self._listener.detach(), unix, _BACKLOG)  # it closes it, too


def prepare(listener: socket.socket, stalled_s: float) -> None:
    """Connections inherit these: one whose caller has vanished, or reads nothing for so long, is closed."""
    listener.setblocking(False)
    if listener.family != socket.AF_UNIX:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, round(stalled_s))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(stalled_s * 1000))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def end_process() -> NoReturn:
    """The last act of a process that served, when everything of ours has been stopped.

    granian's runtime may still be dropping connections. If it meets an interpreter that is being taken down it
    aborts the process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


async def _beat(every_s: float, action: Callable[[], None]) -> None:
    while True:
        action()
        await asyncio.sleep(every_s)


async def serve(
    app: Any,
    listeners: Sequence[socket.socket],
    limits: Limits,
    *,
    tls: Tls | None,
    on_ready: Callable[[], None],
    on_stop: Callable[[], None],
    on_reload: Callable[[], None] | None = None,
    beat: tuple[float, Callable[[], None]] | None = None,
) -> None:
    """Until SIGTERM or SIGINT; calls that are under way are answered, for at most 10 s. Later both are ignored.

    `on_stop` is called when the signal comes and must let waiting calls go. `on_reload` is called in a thread for each
    SIGHUP, one after the other. `beat`: what is called every so many seconds while the front end lives.
    """
    loop = asyncio.get_running_loop()
    stop_signal = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_signal.set)
    reloading = ThreadPoolExecutor(1, thread_name_prefix="reload")
    if on_reload is not None:
        loop.add_signal_handler(signal.SIGHUP, reloading.submit, on_reload)
    calls: list[Calls] = []
    servers: list[_Listener] = []
    for listener in listeners:
        # A Unix socket is a matter of its file's rights: no TLS there.
        listener_tls = tls if listener.family != socket.AF_UNIX else None
        calls.append(Calls(app, limits, scheme="https" if listener_tls else "http"))
        servers.append(_Listener(calls[-1], listener, limits, listener_tls))
    tasks = [asyncio.create_task(server.serve()) for server in servers]
    on_ready()
    beating = None if beat is None else asyncio.create_task(_beat(*beat))
    waiting = asyncio.create_task(stop_signal.wait())
    await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
    on_stop()
    await asyncio.gather(*(each.wait_until_idle(_GRACE_S) for each in calls))
    for server in servers:
        server.stop()
    await asyncio.wait(tasks, timeout=_GRACE_S)
    reloading.shutdown()
    if beating is not None:
        beating.cancel()
    for each in calls:
        each.close()
    # Said again, it must not end the process while the caller closes what is its own: the loop, when it is closed,
    # leaves signals to the system. Not SIG_IGN, which commands that are still begun would inherit.
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
        signal.signal(number, lambda *_: None)
