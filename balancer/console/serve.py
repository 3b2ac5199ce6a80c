"""Runs the service: one process, which is the one writer, behind the front end."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import stat
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import structlog

from balancer.api.service import Access
from balancer.auth.gate import Gate
from balancer.auth.hook_keys import HookKeyFile
from balancer.auth.rates import Rates
from balancer.auth.tokens import TokenFile
from balancer.clock import Clock, SystemClock
from balancer.config import Config, ConfigError
from balancer.http import front_end
from balancer.http.app import create_app
from balancer.ledger.errors import LedgerError
from balancer.ledger.store import Ledger
from balancer.service.engine import Engine
from balancer.service.metrics import Metrics
from balancer.service.service_manager import beat_s, notify
from balancer.service.writer import StoppingError
from balancer.startup_checks import check_tls, check_tokens, is_answered
from balancer.whole_file import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


_log = structlog.get_logger()

_FAILURES_PER_S = 5.0
_FAILURES_BURST = 100
_BACKLOG = 512
_STALLED_S = 30
_SWITCH_S = 0.0005
"""How long a thread may keep the interpreter from another. A first look at thousands of nodes computes a quarter of a
second; an answer, which changes threads some ten times, would wait for it 5 ms each time, which is Python's usual."""


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 is a free one. Raises ConfigError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    front_end.prepare(listener, _STALLED_S)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --port"
        ) from error
    return listener


def listen_unix(path: Path) -> socket.socket:
    """A Unix socket for whoever may use its file (mode 0660). Raises ConfigError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    front_end.prepare(listener, _STALLED_S)
    try:
        if path.exists() and stat.S_ISSOCK(path.stat().st_mode) and not is_answered(path):
            path.unlink()  # left behind by a process that was killed
        listener.bind(str(path))
        path.chmod(0o660)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(f"unix_socket: cannot listen on {path}: {error.strerror}") from error
    return listener


def url_of(listener: socket.socket, *, tls: bool = False) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "https" if tls else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def make_engine(config: Config, clock: Clock) -> Engine:
    """Raises ConfigError, LedgerError or ValueError (the settings contradict each other)."""
    nodes, algorithm, driver = config.node_names(), config.make_algorithm(), config.make_driver()
    cloud = config.make_cloud()
    ledger = Ledger(config.db)
    try:
        return Engine(
            nodes,
            algorithm,
            config.lifecycle_settings(),
            ledger=ledger,
            driver=driver,
            clock=clock,
            metrics=Metrics(driver.name),
            settings=config.engine_settings(),
            algorithm_name=config.algorithm_name,
            cloud=cloud,
            freeze=config.freeze(),
        )
    except Exception:
        ledger.close()
        raise


def check(config: Config) -> None:
    """Try everything that can be tried without starting; wait while another Balancer leads.

    Raises as `make_engine` does.
    """
    config.check_bind()
    _check_auth(config)
    ledger = make_engine(config, SystemClock()).ledger
    try:
        if ledger.is_led_by_another():
            holder = ledger.writer().holder
            _log.info("another Balancer leads: standing by", ledger=holder)
            notify(f"STATUS=standing by: {holder} leads")
            ledger.take_epoch(None)  # given back below: our worker takes the next one at once
    finally:
        ledger.close()


def make_access(config: Config) -> Access:
    """What stands before every call. Raises ConfigError."""
    gate = None
    if config.authenticates:
        gate = Gate(
            TokenFile(config.tokens_path),
            HookKeyFile(config.hook_keys_path),
            skew_s=config.hook_skew_s,
            failures=Rates(_FAILURES_PER_S, _FAILURES_BURST),
        )
    return Access(gate, Rates(config.rate_per_s, config.rate_burst))


def _check_auth(config: Config) -> None:
    check_tls(config)
    missing = check_tokens(config)
    if not config.authenticates:
        return
    if missing:
        _log.warning(missing)
    if config.tls_cert is None and not config.is_loopback:
        _log.warning("tokens travel unencrypted: give tls_cert and tls_key, or put a TLS proxy in front")


@lru_cache(maxsize=1)
def _encoder(default: Callable[[Any], Any]) -> json.JSONEncoder:
    """Made once: `json.dumps` would make one for each line."""
    return json.JSONEncoder(default=default)


def _json(event: Any, default: Callable[[Any], Any]) -> str:
    return _encoder(default).encode(event)


def configure_logs(level: str) -> None:
    """One line an event on standard error; JSON when nobody watches."""
    shown: Any = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer(_json)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            shown,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


_LIVE = frozenset(
    {
        *(
            "nodes",
            "reserve",
            "reserve_rule",
            "wait_s",
            "idle_reserve_s",
            "at_once_s",
            "confirm_s",
            "lease_s",
            "pick",
        ),
        *("max_waiting_requests", "max_reserves", "unreachable_s", "mark_wait_s", "log_level"),
    }
)
"""The keys that may change while the service runs."""


@dataclass(slots=True)
class Reloading:
    """Reads the configuration again at each SIGHUP. What cannot be used is said in the log, and changes nothing."""

    engine: Engine
    config: Config
    read: Callable[[], Config]

    def __call__(self) -> None:
        try:
            found = self.read()
            self.engine.reconfigure(found.node_names(), found.lifecycle_settings(), found.engine_settings())
        except (LedgerError, StoppingError, ValueError) as error:
            _log.error("the configuration was read again and cannot be used: all stays", error=str(error))
            return
        changed = {name for name in Config.model_fields if getattr(found, name) != getattr(self.config, name)}
        if later := sorted(changed - _LIVE):
            _log.warning("these keys have changed and need a restart", keys=later)
        configure_logs(found.log_level)
        self.config = self.config.model_copy(update={name: getattr(found, name) for name in _LIVE})
        _log.info("the configuration was read again", changed=sorted(changed & _LIVE))


def serve(config: Config, read: Callable[[], Config] | None = None) -> NoReturn:
    """Serve, and end the process with status 0. Raises ConfigError, LedgerError or ValueError before it starts.

    `read` gives the configuration as it is at a SIGHUP.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something that can be told
    sys.setswitchinterval(_SWITCH_S)
    configure_logs(config.log_level)
    clock = config.make_clock()  # before anything is waited for: a wrong one is told at once
    check(config)
    with ExitStack() as stack:
        listeners = [stack.enter_context(each) for each in _listeners(config)]
        url = url_of(listeners[0], tls=config.tls_cert is not None)
        sys.stdout.write(
            f"balancer listens on {url}{'' if config.authenticates else ' without authentication'}\n"
        )
        sys.stdout.flush()
        if config.unix_socket is not None:
            stack.callback(config.unix_socket.unlink, missing_ok=True)
        engine = make_engine(config, clock)
        stack.callback(engine.stop)
        # Overtaken: end, so that whoever watches us starts us again, and we stand by.
        engine.ledger.lease.on_lost = lambda: os.kill(os.getpid(), signal.SIGTERM)
        engine.start()
        app = create_app(
            engine,
            max_waiting=config.max_waiting,
            disable_file=config.disable_file,
            access=make_access(config),
            max_body_bytes=config.max_body_bytes,
            max_streams=config.max_streams,
            hosts=config.hosts(),
        )
        # What is there by now stays there. To search it for garbage again and again stopped all threads for a tenth of
        # a second each time.
        gc.collect()
        gc.freeze()
        every_s = beat_s()

        def stopping() -> None:
            notify("STOPPING=1")
            engine.interrupt()

        asyncio.run(
            front_end.serve(
                app,
                listeners,
                config.limits(),
                tls=_tls(config),
                on_ready=lambda: _tell_ready(config, url),
                on_stop=stopping,
                on_reload=Reloading(engine, config, read or (lambda: config)),
                beat=None if every_s is None else (every_s, lambda: notify("WATCHDOG=1")),
            )
        )
    front_end.end_process()


def _listeners(config: Config) -> Iterator[socket.socket]:
    yield listen(config.host, config.port)
    if config.unix_socket is not None:
        yield listen_unix(config.unix_socket)


def _tls(config: Config) -> front_end.Tls | None:
    if config.tls_cert is None or config.tls_key is None:
        return None
    return front_end.Tls(cert=config.tls_cert, key=config.tls_key, client_ca=config.tls_client_ca)


def _tell_ready(config: Config, url: str) -> None:
    if config.ready_file is not None:
        try:
            write_text(config.ready_file, json.dumps({"url": url, "pid": os.getpid()}) + "\n")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
            # A full disk is not the configuration's fault: with status 2 systemd would not start the service again.
            raise ConfigError(
                f"ready_file: {config.ready_file} cannot be written: {error.strerror}"
            ) from error
    notify("READY=1", f"STATUS=listens on {url}")
