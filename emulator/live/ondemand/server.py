"""The manager as one process: all services on one port, until somebody says stop."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import structlog
from werkzeug.exceptions import NotFound
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.serving import WSGIRequestHandler, make_server

from balancer.clock import Clock, SystemClock, micros
from emulator.clock.background_server import Serving
from emulator.clock.shared_clock import SharedClock
from emulator.config.cloud_faults import CloudFaults
from emulator.live.ondemand.cloud import Cloud
from emulator.live.ondemand.compute import compute_app
from emulator.live.ondemand.failed_hosts import FailedHosts
from emulator.live.ondemand.fixed_services import image_app, network_app
from emulator.live.ondemand.http import Keyring
from emulator.live.ondemand.identity import identity_app
from emulator.live.ondemand.nodes import BalancerSource, FixedPool, NodeSource
from emulator.live.ondemand.servers import Memory
from emulator.live.ondemand.site import Site, placement_app

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

    from emulator.live.ondemand.config import OndemandConfig

_log = structlog.get_logger(__name__)
_LOOK_S = 0.1


class _Handler(WSGIRequestHandler):
    """Keeps connections open and does not hold back small answers."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        if type != "info":
            _log.warning("http", message=message % args)


def wsgi_app(keyring: Keyring, cloud: Cloud, config: OndemandConfig) -> WSGIApplication:
    """All services; the catalog names these paths."""
    site = Site(cloud, (*config.hosts, *(config.pool or ())))
    return DispatcherMiddleware(
        NotFound(),
        {
            "/identity": identity_app(keyring, config.region),
            "/compute": compute_app(keyring, site, config),
            "/image": image_app(keyring, config.image),
            "/placement": placement_app(keyring, site, config),
            "/network": network_app(keyring),
        },
    )


class OndemandServer(Serving):
    """A manager that listens as soon as it is made. Use it as a context, or call `serve` and `close`."""

    def __init__(
        self, config: OndemandConfig, *, source: NodeSource | None = None, clock: Clock | None = None
    ) -> None:
        if clock is None:
            clock = SystemClock() if config.clock is None else SharedClock(config.clock, name="ondemand")
        self.source = source if source is not None else _source(config)
        self.keyring = Keyring.of(config)
        self.cloud = Cloud(
            self.source,
            clock,
            boot_us=micros(config.boot_s),
            delete_us=micros(config.delete_s),
            faults=CloudFaults.of(config.cloud_faults),
            release_linger_s=config.release_linger_s,
            memory=Memory(config.memory),
        )
        self.cloud.resume()
        self._failed_hosts: FailedHosts | None = None
        if config.on_failure in {"replace", "end"} and isinstance(self.source, BalancerSource):
            self._failed_hosts = FailedHosts(
                self.cloud,
                self.source,
                clock,
                period_us=micros(config.reconcile_period_s),
                replace=config.on_failure == "replace",
            )
        app = wsgi_app(self.keyring, self.cloud, config)
        server = make_server(config.listen, config.port, app, threaded=True, request_handler=_Handler)
        super().__init__(server, "ondemand", _LOOK_S)
        self.url = f"http://{config.listen}:{self.port}"
        self.auth_url = f"{self.url}/identity/v3"

    def serve(self) -> None:
        """Answer until `stop` is called from another thread."""
        self._server.serve_forever(_LOOK_S)

    def stop(self) -> None:
        self._server.shutdown()

    def close(self) -> tuple[str, ...]:
        """Forget everything; what could not be returned to the source."""
        self._server.server_close()
        if self._failed_hosts is not None:
            self._failed_hosts.close()
        return self.cloud.close()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.close()


def _source(config: OndemandConfig) -> NodeSource:
    if config.pool is not None:
        return FixedPool(config.pool)
    return BalancerSource(
        config.balancer_url or "",
        token=config.balancer_token,
        wait_s=config.wait_s,
        replace=config.on_failure == "replace",
    )
