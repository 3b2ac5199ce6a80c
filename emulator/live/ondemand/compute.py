"""Nova: microversions and servers. What administrators see of the site is in `compute_site.py`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, jsonify, request
from werkzeug.exceptions import HTTPException

from emulator.live.ondemand import server_states, server_view
from emulator.live.ondemand.aggregates import add_aggregates
from emulator.live.ondemand.cloud import made_password
from emulator.live.ondemand.compute_checks import (
    after_marker,
    find_server,
    only_admin,
    wrong_value,
)
from emulator.live.ondemand.compute_hosts import add_hosts
from emulator.live.ondemand.compute_images import add_images
from emulator.live.ondemand.compute_site import Quotas, add_site
from emulator.live.ondemand.create_request import read_create, read_rebuild
from emulator.live.ondemand.create_rules import is_named, is_true, wrong_field
from emulator.live.ondemand.flavors import Flavors, add_flavors
from emulator.live.ondemand.http import ApiError, body_part, caller, service, site_url, unauthorized
from emulator.live.ondemand.keypairs import Keypairs, add_keypairs
from emulator.live.ondemand.server_actions import add_actions
from emulator.live.ondemand.server_groups import ServerGroups, add_server_groups, members
from emulator.live.ondemand.server_query import read_query
from emulator.live.ondemand.server_tags import add_tags

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.live.ondemand.auth import Account, Keyring
    from emulator.live.ondemand.cloud import Cloud
    from emulator.live.ondemand.config import OndemandConfig
    from emulator.live.ondemand.server_groups import ServerGroup
    from emulator.live.ondemand.servers import Server
    from emulator.live.ondemand.site import Site

_MINIMUM, _MAXIMUM = (2, 1), (2, 104)
_VERSION = re.compile(r"(\d+)\.(\d+)")
_PAGE = 1000

_FAULTS = {
    400: "badRequest",
    403: "forbidden",
    404: "itemNotFound",
    406: "computeFault",
    409: "conflictingRequest",
    410: "computeFault",
    501: "notImplemented",
}


def compute_app(keyring: Keyring, site: Site, config: OndemandConfig) -> Flask:
    app, cloud = service("compute"), site.cloud
    flavors, quotas, keypairs, groups = (
        Flavors(config.flavor),
        Quotas(config.quota),
        Keypairs(keyring.user_ids),
        ServerGroups(),
    )

    @app.before_request
    def guard() -> tuple[dict[str, object], int, dict[str, str]] | None:
        g.version = _MINIMUM
        if request.path == "/":
            return None
        g.version = _requested_version()
        if request.path.rstrip("/") == "/v2.1":
            return None
        token = caller(keyring)
        if token is None:
            return unauthorized()
        g.account = token.account
        if not _MINIMUM <= g.version <= _MAXIMUM:
            raise ApiError(
                406,
                f"Version {_text(g.version)} is not supported by the API. "
                f"Minimum is {_text(_MINIMUM)} and maximum is {_text(_MAXIMUM)}.",
            )
        _check_limit()
        return None

    @app.after_request
    def show_version(response: Response) -> Response:
        response.headers["x-compute-request-id"] = g.request_id
        if request.path != "/" and response.status_code != 401:  # noqa: PLR2004
            response.headers["OpenStack-API-Version"] = f"compute {_text(g.version)}"
            response.headers["X-OpenStack-Nova-API-Version"] = _text(g.version)
            response.headers["Vary"] = "OpenStack-API-Version, X-OpenStack-Nova-API-Version"
        return response

    @app.errorhandler(ApiError)
    def show_error(error: ApiError) -> Response:
        response = jsonify({_FAULTS[error.code]: {"code": error.code, "message": error.message}})
        response.status_code = error.code
        response.content_type = "application/json; charset=UTF-8"
        return response

    @app.errorhandler(HTTPException)
    def show_page(error: HTTPException) -> Response:
        page = f"<html><head><title>{error.code} {error.name}</title></head><body>{error.name}</body></html>"
        return Response(page, status=error.code, content_type="text/html; charset=UTF-8")

    _add_versions(app)
    add_flavors(app, flavors)
    _add_servers(app, site, config, flavors=flavors, quotas=quotas, keypairs=keypairs, groups=groups)
    add_keypairs(app, keypairs, cloud.clock, lambda project: quotas.of(project)["key_pairs"])
    add_server_groups(app, groups, cloud, lambda project: quotas.of(project)["server_groups"])
    add_tags(app, cloud)
    add_images(app, config.image)
    add_aggregates(app, site)
    add_site(app, site, config, quotas)
    add_hosts(app, site, config)
    return app


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _requested_version() -> tuple[int, int]:
    text = request.headers.get("OpenStack-API-Version", "").removeprefix("compute ").strip()
    text = text or request.headers.get("X-OpenStack-Nova-API-Version", "").strip()
    if not text:
        return _MINIMUM
    if text == "latest":
        return _MAXIMUM
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ApiError(
            400, f"API Version String {text} is of invalid format. Must be of format MajorNum.MinorNum."
        )
    return int(match[1]), int(match[2])


def _add_versions(app: Flask) -> None:
    updated = "2013-07-23T11:33:21Z"

    @app.get("/")
    def versions() -> dict[str, Any]:
        root = request.root_url.rstrip("/")
        return {
            "versions": [
                {
                    "id": "v2.1",
                    "status": "CURRENT",
                    "version": _text(_MAXIMUM),
                    "min_version": _text(_MINIMUM),
                    "updated": updated,
                    "links": [{"rel": "self", "href": f"{root}/v2.1/"}],
                }
            ]
        }

    @app.get("/v2.1")
    def version() -> dict[str, Any]:
        return {
            "version": {
                "id": "v2.1",
                "status": "CURRENT",
                "version": _text(_MAXIMUM),
                "min_version": _text(_MINIMUM),
                "updated": updated,
                "links": [
                    {"rel": "self", "href": f"{request.root_url.rstrip('/')}/v2.1/"},
                    {"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"},
                ],
                "media-types": [
                    {
                        "base": "application/json",
                        "type": "application/vnd.openstack.compute+json;version=2.1",
                    }
                ],
            }
        }


def _why_impossible(cloud: Cloud, group: ServerGroup | None, count: int) -> str:
    """Why a server cannot be with the others of its group: each has a node to itself."""
    if group is None or group.policy != "affinity":
        return ""
    return "affinity: a node has room for one server" if count + len(members(cloud, group.id)) > 1 else ""


def _check_quota(cloud: Cloud, config: OndemandConfig, limits: dict[str, int], count: int) -> None:
    """Of the caller's project, before anything is made."""
    account: Account = g.account
    used = sum(server.spec.account.project_id == account.project_id for server in cloud.servers())
    each = {"instances": 1, "cores": config.flavor.vcpus, "ram": config.flavor.ram_mb}
    for name, share in each.items():
        if 0 <= limits[name] < (used + count) * share:
            text = f"Requested {count * share}, but already used {used * share} of {limits[name]} {name}"
            raise ApiError(403, f"Quota exceeded for {name}: {text}")


def _add_servers(
    app: Flask,
    site: Site,
    config: OndemandConfig,
    *,
    flavors: Flavors,
    quotas: Quotas,
    keypairs: Keypairs,
    groups: ServerGroups,
) -> None:
    cloud = site.cloud

    def show(server: Server, *, is_single: bool) -> dict[str, Any]:
        return server_view.detail(
            server,
            flavors.of(server.spec.flavor_id),
            site=site_url(),
            version=g.version,
            admin=g.account.admin,
            now_us=cloud.clock.now_us(),
            is_single=is_single,
        )

    @app.post("/v2.1/servers")
    def create() -> tuple[dict[str, Any], int, dict[str, str]]:
        account: Account = g.account
        hosts = {*config.hosts, *(config.pool or ())}
        order = read_create(
            request.get_json(silent=True),
            g.version,
            config,
            admin=account.admin,
            hosts=hosts,
            keys=keypairs.names(account.user_id),
            groups={each.id for each in groups.of(account.project_id)},
            flavors={each.flavor.id for each in flavors.all(account)},
        )
        _check_quota(cloud, config, quotas.of(account.project_id), order.count)
        group = None if order.group_id is None else groups.get(order.group_id)
        why = _why_impossible(cloud, group, order.count)
        spec = order.spec(account, g.request_id, impossible=why)
        reservation = cloud.create(spec, exclude=site.closed())
        if order.return_reservation:
            return {"reservation_id": reservation.id}, 202, {}
        body = server_view.created(reservation.servers[0], site_url())
        return {"server": body}, 202, {"Location": body["links"][0]["href"]}

    @app.get("/v2.1/servers")
    def servers() -> dict[str, Any]:
        rows, more = _page(_requested_servers(cloud), "servers")
        return {"servers": [server_view.brief(server, site_url()) for server in rows], **more}

    @app.get("/v2.1/servers/detail")
    def servers_detail() -> dict[str, Any]:
        rows, more = _page(_requested_servers(cloud), "servers/detail")
        return {"servers": [show(server, is_single=False) for server in rows], **more}

    @app.get("/v2.1/servers/<server_id>")
    def one_server(server_id: str) -> dict[str, Any]:
        return {"server": show(find_server(cloud, server_id), is_single=True)}

    _add_changes(app, cloud, config, show)


def _add_changes(
    app: Flask, cloud: Cloud, config: OndemandConfig, show: Callable[..., dict[str, Any]]
) -> None:
    """What becomes of a server that is there; `show` gives all of it."""

    @app.put("/v2.1/servers/<server_id>")
    def update(server_id: str) -> dict[str, Any]:
        server = find_server(cloud, server_id)
        changes = body_part("server")
        known = {"name", "description"} | ({"hostname"} if g.version >= (2, 90) else set())
        if not isinstance(changes, dict) or not changes.keys() <= known:
            raise wrong_value("server", changes)
        if (wrong := wrong_field(changes)) is not None:
            raise wrong_value(wrong, changes[wrong])
        server.name = _checked_name(changes.get("name", server.name))
        server.description = changes.get("description", server.description)
        server.hostname = changes.get("hostname", server.hostname)
        cloud.changed(server)
        return {"server": show(server, is_single=True)}

    @app.delete("/v2.1/servers/<server_id>")
    def delete(server_id: str) -> Response:
        server = find_server(cloud, server_id)
        server_states.check_lock(server)
        cloud.delete(server)
        return Response(status=204, content_type="application/json")

    def rebuild(server: Server, arguments: Any) -> tuple[dict[str, Any], int]:
        """The same server on the same node, with the image again: what was told of it anew counts."""
        rebuilt = read_rebuild(arguments, g.version, config)
        server_states.change(server, "rebuild", rebuilt, cloud.clock.now_us())
        server.name, server.admin_pass = (
            rebuilt.get("name", server.name),
            rebuilt.get("adminPass") or made_password(),
        )
        server.metadata = rebuilt.get("metadata", server.metadata)
        server.description = rebuilt.get("description", server.description)
        cloud.changed(server)
        return {"server": show(server, is_single=True) | {"adminPass": server.admin_pass}}, 202

    add_actions(app, cloud, rebuild)


def _checked_name(name: object) -> str:
    if not is_named(name):
        raise wrong_value("name", name)
    return str(name)


def _check_limit() -> None:
    """Of any list."""
    if not request.args.get("limit", "0").isdecimal():
        raise ApiError(400, "Invalid input for query parameters limit.")


def _requested_servers(cloud: Cloud) -> list[Server]:
    """The servers of the project (of all, for an administrator who asks) that pass the query's filters."""
    args = request.args
    account: Account = g.account
    query = read_query(args, g.version, account)
    everybody = args.get("all_tenants", "").lower() in {"1", "true"}
    if everybody:
        only_admin("servers:detail:get_all_tenants")
    now_us = cloud.clock.now_us()
    return query.sorted(
        [
            server
            for server in _alive_or_not(cloud, account)
            if (everybody or server.spec.account.project_id == account.project_id)
            and query.passes(server, now_us)
        ]
    )


def _alive_or_not(cloud: Cloud, account: Account) -> list[Server]:
    """Deleted ones for an administrator who asks; those beside the others in a list of what has changed."""
    args = request.args
    if args.get("status", "").upper() == "DELETED" or args.get("vm_state", "").lower() == "deleted":
        if not account.admin:
            raise ApiError(403, "Only administrators may list deleted instances")
        return cloud.past()[::-1]
    if account.admin and args.get("deleted"):
        return cloud.past()[::-1] if is_true(args["deleted"]) else cloud.servers()
    changed = "changes-since" in args or "changes-before" in args
    found = cloud.servers() + (cloud.past() if changed else [])
    return sorted(found, key=lambda server: server.number, reverse=True) if changed else found


def _page(rows: list[Server], path: str) -> tuple[list[Server], dict[str, Any]]:
    """One page of a list, and the link to the next one."""
    limit = min(int(request.args.get("limit", _PAGE)), _PAGE)
    rows = after_marker(rows, lambda server: server.id)
    if limit == 0 or len(rows) <= limit:
        return rows[:limit], {}
    rest = {key: value for key, value in request.args.items() if key != "marker"} | {
        "marker": rows[limit - 1].id
    }
    query = "&".join(f"{key}={value}" for key, value in rest.items())
    href = f"{site_url()}/compute/v2.1/{path}?{query}"
    return rows[:limit], {"servers_links": [{"rel": "next", "href": href}]}
