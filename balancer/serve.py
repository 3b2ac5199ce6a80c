"""Runs the service under gunicorn: one worker process (the one writer) with threads."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import struct
import sys
from typing import TYPE_CHECKING, Any

import structlog
from gunicorn.app.base import BaseApplication
from gunicorn.workers.gthread import ThreadWorker

from balancer.api.access import Access
from balancer.app import create_app
from balancer.auth.files import AuthFileError
from balancer.auth.gate import Gate
from balancer.auth.hook_keys import HookKeyFile
from balancer.auth.rates import Rates
from balancer.auth.tokens import TokenFile
from balancer.clock import ManualClock
from balancer.config import Config, ConfigError
from balancer.engine import Engine
from balancer.ledger.store import Ledger
from balancer.metrics import Metrics

if TYPE_CHECKING:
    from flask import Flask

    from balancer.clock import Clock

_log = structlog.get_logger()

_FAILURES_PER_S = 5.0
_FAILURES_BURST = 100
_KEEP_ALIVE_S = 75
_GRACE_S = 10
_BACKLOG = 512
_STALLED_S = 30


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 is a free one. Raises ConfigError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Accepted connections inherit these: one that neither sends nor reads does not keep a thread for ever.
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        listener.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", _STALLED_S, 0))
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}; choose another --port"
        ) from error
    listener.set_inheritable(True)
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
    ledger = make_engine(config, ManualClock()).ledger
    try:
        if ledger.is_led_by_another():
            _log.info("another Balancer leads: standing by", ledger=ledger.writer().holder)
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
    if config.tls_cert is not None and config.tls_key is not None:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                config.tls_cert, config.tls_key
            )
        except OSError as error:
            raise ConfigError(
                f"tls_cert, tls_key: {config.tls_cert} and its key cannot be used: {error}"
            ) from error
    if not config.authenticates:
        return
    try:
        tokens = TokenFile(config.tokens_path).tokens()
        HookKeyFile(config.hook_keys_path).keys_of("any")
    except AuthFileError as error:
        raise ConfigError(str(error)) from error
    if not tokens:
        _log.warning("there is no token yet: make one with `balancer token create --role operator`")
    if config.tls_cert is None and not config.is_loopback:
        _log.warning("tokens travel unencrypted: give tls_cert and tls_key, or put a TLS proxy in front")


class Worker(ThreadWorker):  # type: ignore[misc] # gunicorn ships no types
    """A threaded worker that lets waiting calls go when it is told to end."""

    def handle_exit(self, sig: int, frame: Any) -> None:
        engine = getattr(self.app, "engine", None)
        if engine is not None:
            engine.interrupt()
        super().handle_exit(sig, frame)


class Server(BaseApplication):  # type: ignore[misc] # gunicorn ships no types
    """gunicorn with our engine; the engine lives in the worker process."""

    def __init__(self, config: Config, listener: socket.socket, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._listener = listener
        self._url = url_of(
            listener, tls=config.tls_cert is not None
        )  # gunicorn closes this descriptor and uses a copy
        self._main_pid = os.getpid()
        self.engine: Engine | None = None
        super().__init__()

    def load_config(self) -> None:
        settings: dict[str, Any] = {
            "bind": f"fd://{self._listener.fileno()}",
            "workers": 1,
            "worker_class": Worker,
            "threads": self._config.threads,
            "keepalive": _KEEP_ALIVE_S,
            "graceful_timeout": _GRACE_S,
            "control_socket_disable": True,
            "loglevel": "warning",
            "worker_exit": self._worker_exit,
            "post_worker_init": self._worker_ready,
        }
        if self._config.tls_cert is not None:
            settings |= {"certfile": str(self._config.tls_cert), "keyfile": str(self._config.tls_key)}
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        config = self._config
        self.engine = make_engine(config, self._clock)
        # Overtaken: end, so that whoever watches us starts us again, and we stand by.
        self.engine.ledger.on_lost(lambda: os.kill(self._main_pid, signal.SIGTERM))
        self.engine.start()
        return create_app(
            self.engine,
            max_waiting=config.max_waiting,
            disable_file=config.disable_file,
            who=make_access(config),
            max_body_bytes=config.max_body_bytes,
        )

    def _worker_ready(self, _: Any) -> None:
        path = self._config.ready_file
        if path is not None:
            beside = path.with_name(path.name + ".new")
            text = json.dumps({"url": self._url, "pid": self._main_pid})
            beside.write_text(text + "\n", encoding="utf-8")
            beside.replace(path)

    def _worker_exit(self, _server: Any, _worker: Any) -> None:
        if self.engine is not None:
            self.engine.stop()
            self.engine = None


def configure_logs(level: str) -> None:
    """One line an event on standard error; JSON when nobody watches."""
    shown: Any = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
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


def serve(config: Config) -> None:
    """Returns when the service ends. Raises ConfigError, LedgerError or ValueError before it starts."""
    configure_logs(config.log_level)
    clock = config.make_clock()  # before anything is waited for: a wrong one is told at once
    check(config)
    listener = listen(config.host, config.port)
    url = url_of(listener, tls=config.tls_cert is not None)
    sys.stdout.write(
        f"balancer listens on {url}{'' if config.authenticates else ' without authentication'}\n"
    )
    sys.stdout.flush()
    Server(config, listener, clock).run()
