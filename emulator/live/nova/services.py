"""Nova and Placement in one process, unmodified: run by the interpreter of the environment that has them.

    PYTHON services.py FOLDER HOST...

FOLDER has nova.conf, placement.conf and api-paste.ini; `ready.json` appears there once every host is up. Only Nova,
Placement and the standard library are there, nothing of the emulator. The computes are Nova's own fake driver, which
FOLDER/faults.json tells what fails: {"boot_fails": [HOST], "boot_s": SECONDS}.
"""
# ruff: noqa: PLC0415, E402, I001 - Nova wants to be imported in its own order

from __future__ import annotations

import io
import json
import logging as std_logging
import os
import sys
import threading
import uuid
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

FOLDER, HOSTS = Path(sys.argv[1]), sys.argv[2:]
os.environ["OS_NOVA_CONFIG_DIR"] = os.environ["OS_PLACEMENT_CONFIG_DIR"] = str(FOLDER)
sys.argv = ["nova", "--config-file", str(FOLDER / "nova.conf")]

from nova import monkey_patch

monkey_patch.patch(backend="threading")

from nova import config, context, exception, objects, service
from nova.api.openstack import wsgi_app
from nova.compute import rpcapi as compute_rpcapi
from nova.conductor import rpcapi as conductor_rpcapi
from nova.db import migration
from nova.scheduler import rpcapi as scheduler_rpcapi
from nova.image import glance
from nova.virt import fake
import nova.conf
from oslo_log import log as logging

CONF = nova.conf.CONF


class FleetDriver(fake.MediumFakeDriver):  # type: ignore[misc]
    """Nova's fake hypervisor; its node keeps its identity when Nova is started again, and starts fail when told to."""

    def get_nodenames_by_uuid(self, refresh: bool = False) -> dict[str, str]:  # noqa: ARG002 - as Nova has it
        return {str(uuid.uuid5(uuid.NAMESPACE_DNS, name)): name for name in self.get_available_nodes()}

    def get_available_resource(self, nodename: str) -> dict[str, Any]:
        found = super().get_available_resource(nodename)
        return {**found, "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, nodename))}

    def get_host_uptime(self) -> str:
        return " 08:00:00 up 1 day,  0:01,  0 users,  load average: 0.00, 0.00, 0.00"

    def spawn(self, context: Any, instance: Any, *arguments: Any, **options: Any) -> None:
        faults = FOLDER / "faults.json"
        fault = json.loads(faults.read_text()) if faults.exists() else {}
        if fault.get("boot_s"):
            threading.Event().wait(fault["boot_s"])
        if instance.host in fault.get("boot_fails", ()):
            raise exception.ComputeResourcesUnavailable(reason="told to fail")
        super().spawn(context, instance, *arguments, **options)

    def snapshot(self, context: Any, instance: Any, image_id: str, update_task_state: Any) -> None:
        """It uploads, as other hypervisors do: Nova starts nothing from an image that is only announced."""
        super().snapshot(context, instance, image_id, update_task_state)
        meta = {"disk_format": "raw", "container_format": "bare"}
        glance.API().update(context, image_id, meta, io.BytesIO(instance.uuid.encode()))

    def post_live_migration(self, context: Any, instance: Any, *_: Any, **__: Any) -> None:
        """A server that moved alive is no more where it was, as Nova's FakeLiveMigrateDriver has it."""
        self.destroy(context, instance, network_info=None)


# Nova loads drivers from its own package only; the name is all that is put there.
sys.modules["nova.virt.fleet"] = sys.modules[__name__]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class _Handler(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass

    def address_string(self) -> str:
        return str(self.client_address[0])


def make_databases() -> None:
    """Schemas by Nova's own migrations, once; then its one cell."""
    migration.db_sync(database="api")
    migration.db_sync(database="main")
    objects.register_all()
    everywhere = context.get_admin_context()
    for name, cell, suffix in (
        ("cell0", objects.CellMapping.CELL0_UUID, "_cell0"),
        ("cell1", str(uuid.uuid4()), ""),
    ):
        database = CONF.database.connection.replace("/nova?", f"/nova{suffix}?")
        transport = "none:///" if suffix else CONF.transport_url
        objects.CellMapping(
            everywhere, uuid=cell, name=name, database_connection=database, transport_url=transport
        ).create()
    from nova import context as nova_context

    with nova_context.target_cell(
        everywhere, objects.CellMapping.get_by_uuid(everywhere, objects.CellMapping.CELL0_UUID)
    ) as cell0:
        migration.db_sync(database="main", context=cell0)
    from placement import conf as placement_conf, db_api
    from placement.db.sqlalchemy import migration as placement_migration
    from oslo_config import cfg

    options = cfg.ConfigOpts()
    placement_conf.register_opts(options)
    options([], default_config_files=[str(FOLDER / "placement.conf")])
    db_api.configure(options)
    placement_migration.upgrade("head")


def serve(app: Any) -> str:
    server = make_server("127.0.0.1", 0, app, server_class=_Server, handler_class=_Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def main() -> None:
    if "--make-databases" in HOSTS:
        config.parse_args(sys.argv)
        logging.setup(CONF, "nova")
        make_databases()
        return
    from placement.wsgi import init_application

    placement = serve(init_application())
    # Nova's API reads the configuration for all its services, and sets the log up anew.
    compute = serve(wsgi_app.init_application("osapi_compute", "nova-api-os-compute"))
    (FOLDER / "urls.json.new").write_text(json.dumps({"compute": compute, "placement": placement}))
    (FOLDER / "urls.json.new").rename(FOLDER / "urls.json")
    while not (FOLDER / "go").exists():  # what follows asks Placement by its address in the catalog
        threading.Event().wait(0.05)
    started = [
        service.Service.create(host="control", binary="nova-conductor", topic=conductor_rpcapi.RPC_TOPIC),
        service.Service.create(host="control", binary="nova-scheduler", topic=scheduler_rpcapi.RPC_TOPIC),
    ]
    for each in started:
        each.start()
    for host in HOSTS:
        each = service.Service.create(
            host=host,
            binary="nova-compute",
            topic=compute_rpcapi.RPC_TOPIC,
            topic_alt=compute_rpcapi.RPC_TOPIC_ALT,
        )
        each.start()
        started.append(each)
    _map_hosts()
    (FOLDER / "ready.json.new").write_text(json.dumps({"pid": os.getpid()}))
    (FOLDER / "ready.json.new").rename(FOLDER / "ready.json")
    threading.Event().wait()


def _map_hosts() -> None:
    """Make hosts known to the cell; the scheduler does the same once a second, and one of the two comes first."""
    from nova.objects import host_mapping

    while True:
        try:
            host_mapping.discover_hosts(context.get_admin_context())
        except exception.HostMappingExists:
            continue
        return


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        std_logging.getLogger("nova").exception("it ends")
        os._exit(1)  # services that are up already would keep the process
