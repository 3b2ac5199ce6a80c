"""`python -m emulator.live.nova.front --config FILE`: Keystone, Glance and an empty Neutron around a real Nova.

They are the small manager's. Nova and Placement are passed through, under the same port, from where `urls.json` says.
"""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import click
from pydantic import Field
from werkzeug.exceptions import BadGateway, NotFound
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.middleware.http_proxy import ProxyMiddleware
from werkzeug.serving import WSGIRequestHandler, make_server

from emulator.live.nova.image_store import image_store
from emulator.live.ondemand.auth import Keyring
from emulator.live.ondemand.config import OndemandConfig
from emulator.live.ondemand.fixed_services import network_app
from emulator.live.ondemand.identity import identity_app
from emulator.live.process import stop_on_signal, write_ready
from emulator.live.settings import Settings, SettingsError, load_settings

if TYPE_CHECKING:
    from collections.abc import Iterable

PASSED = ("compute", "placement")
_TIMEOUT_S = 120


class FrontConfig(Settings):
    """`hosts`: names of the nodes. `urls`: the file in which Nova's process says where it listens.

    What is uploaded of images goes into the folder `images` beside it.
    """

    listen: str = "127.0.0.1"
    port: int = Field(0, ge=0, le=65_535)
    ready_file: Path | None = None
    hosts: tuple[str, ...] = Field(min_length=1)
    urls: Path
    token_lifetime_s: float = Field(86_400.0, gt=0)


class _Quiet(WSGIRequestHandler):
    def log(self, *_: object) -> None:
        """Nova keeps a log of its own requests."""


class Front:
    """Listens as soon as it is made; answers between `serve` and `stop`."""

    def __init__(self, config: FrontConfig) -> None:
        identity_config = OndemandConfig.model_validate(
            {"pool": config.hosts, "token_lifetime_s": config.token_lifetime_s}
        )
        keyring = Keyring.of(identity_config)
        mounts: dict[str, Any] = {
            "/identity": identity_app(keyring, identity_config.region),
            "/image": image_store(keyring, identity_config.image, config.urls.with_name("images")),
            "/network": network_app(keyring),
        }
        self._urls = config.urls
        self._fixed = DispatcherMiddleware(NotFound(), mounts)
        self._server = make_server(
            config.listen, config.port, self._answer, threaded=True, request_handler=_Quiet
        )
        self.url = f"http://{config.listen}:{self._server.server_port}"

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        self._server.shutdown()

    def close(self) -> None:
        self._server.server_close()

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        service = environ["PATH_INFO"].split("/", 2)[1]
        if service not in PASSED:
            return self._fixed(environ, start_response)
        try:
            target = json.loads(self._urls.read_text(encoding="utf-8"))[service]
        except (OSError, ValueError, KeyError):
            return BadGateway(f"{service} does not listen")(environ, start_response)
        if environ["PATH_INFO"] == f"/{service}":
            environ["PATH_INFO"] += "/"
        options = {"target": target, "remove_prefix": True, "host": None}
        passed = ProxyMiddleware(self._fixed, {f"/{service}": options}, timeout=_TIMEOUT_S)
        return passed(environ, start_response)


@click.command()
@click.option("--config", "config_file", required=True, type=click.Path(path_type=Path), help="YAML or JSON.")
def main(config_file: Path) -> None:
    """Serve what a real Nova needs around it, and Nova itself, until SIGTERM."""
    try:
        config = load_settings(config_file, FrontConfig)
        front = Front(config)
    except (SettingsError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(2) from error
    stop_on_signal(front.stop)
    write_ready(config.ready_file, url=front.url)
    serving = Thread(target=front.serve)
    serving.start()
    serving.join()
    front.close()


if __name__ == "__main__":
    main()
