"""One script of requests for two clouds, the real one and the small manager: what one refuses the other must refuse.

Everything here is refused or only read, so that nothing is left behind but the one server that `SERVER` stands for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

NOBODY = "5d3b1bb9-2b0e-4f6a-9a53-0d6b1b1e7c11"
"""An identifier that nothing has."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. `{SERVER}`, `{IMAGE}` and `{FLAVOR}` are filled in."""

    method: str
    path: str
    body: Any = None
    user: str = "demo"
    version: str = "2.96"


def _create(user: str = "demo", version: str = "2.96", hints: Any = None, **more: Any) -> Ask:
    body = {"name": "s", "imageRef": "{IMAGE}", "flavorRef": "{FLAVOR}", "networks": "none"} | more
    server = {name: value for name, value in body.items() if value != "-"}
    document: dict[str, Any] = {"server": server}
    if hints is not None:
        document["os:scheduler_hints"] = hints
    return Ask("POST", "/servers", document, user, version)


def _get(path: str, user: str = "demo", version: str = "2.96") -> Ask:
    return Ask("GET", path, None, user, version)


def _act(body: Any, user: str = "demo", server: str = "{SERVER}") -> Ask:
    return Ask("POST", f"/servers/{server}/action", body, user)


SCRIPT: dict[str, Ask] = {
    # creates that are refused
    "create: unknown key": _create(key_name="nobody"),
    "create: host by a user": _create(host="n01"),
    "create: hypervisor by a user": _create(hypervisor_hostname="n01"),
    "create: unknown host": _create("admin", host="nowhere"),
    "create: unknown hypervisor": _create("admin", hypervisor_hostname="nowhere"),
    "create: host before 2.74": _create("admin", "2.73", host="n01"),
    "create: forced host by a user": _create(availability_zone="nova:n01"),
    "create: unknown zone": _create(availability_zone="elsewhere"),
    "create: unknown server group": _create(hints={"group": NOBODY}),
    "create: server group that is no identifier": _create(hints={"group": "mine"}),
    "create: 60 tags": _create(tags=[f"t{n}" for n in range(60)]),
    "create: tag of 61 characters": _create(tags=["t" * 61]),
    "create: tag with a comma": _create(tags=["a,b"]),
    "create: empty tag": _create(tags=[""]),
    "create: tags before 2.52": _create(version="2.51", tags=["a"]),
    "create: tags that are no list": _create(tags="a"),
    "create: name of 300 characters": _create(name="n" * 300),
    "create: empty name": _create(name=""),
    "create: name of blanks": _create(name="   "),
    "create: name that is a number": _create(name=3),
    "create: no name": _create(name="-"),
    "create: bad config drive": _create(config_drive="perhaps"),
    "create: bad disk config": _create(**{"OS-DCF:diskConfig": "SOMEHOW"}),
    "create: bad address": _create(accessIPv4="here"),
    "create: bad IPv6 address": _create(accessIPv6="10.0.0.1"),
    "create: no count": _create(min_count=0),
    "create: negative count": _create(max_count=-1),
    "create: count that is a word": _create(max_count="many"),
    "create: more at least than at most": _create(min_count=3, max_count=2),
    "create: user data not in base64": _create(user_data="hello world"),
    "create: user data too long": _create(user_data="QUJD" * 20_000),
    "create: metadata that is no text": _create(metadata={"a": 1}),
    "create: metadata key too long": _create(metadata={"k" * 256: "v"}),
    "create: metadata value too long": _create(metadata={"k": "v" * 256}),
    "create: metadata that is a list": _create(metadata=["a"]),
    "create: metadata key with a slash": _create(metadata={"a/b": "v"}),
    "create: 200 metadata": _create(metadata={f"k{n}": "v" for n in range(200)}),
    "create: unknown image": _create(imageRef=NOBODY),
    "create: image that is no identifier": _create(imageRef="tiny"),
    "create: no image": _create(imageRef="-"),
    "create: empty image": _create(imageRef=""),
    "create: unknown flavor": _create(flavorRef="9999"),
    "create: no flavor": _create(flavorRef="-"),
    "create: no networks": _create(networks="-"),
    "create: networks that are a word": _create(networks="some"),
    "create: network that is no identifier": _create(networks=[{"uuid": "here"}]),
    "create: network with an unknown field": _create(networks=[{"network": NOBODY}]),
    "create: something unknown": _create(colour="red"),
    "create: description too long": _create(description="d" * 256),
    "create: description before 2.19": _create(version="2.18", networks="-", description="d"),
    "create: bad host name": _create(hostname="not a name"),
    "create: host name before 2.90": _create(version="2.89", hostname="name"),
    "create: personality after 2.57": _create(personality=[]),
    "create: return_reservation_id that is a word": _create(return_reservation_id="perhaps"),
    "create: security groups that are a word": _create(security_groups="default"),
    "create: key name too long": _create(key_name="k" * 256),
    "create: administrator's password that is a number": _create(adminPass=3),
    "create: nothing": Ask("POST", "/servers", {}),
    "create: a list": Ask("POST", "/servers", {"server": []}),
    # lists
    "list: servers": _get("/servers"),
    "list: nothing at a time": _get("/servers?limit=0"),
    "list: fewer than nothing at a time": _get("/servers?limit=-1"),
    "list: limit that is a word": _get("/servers?limit=many"),
    "list: unknown marker": _get(f"/servers?marker={NOBODY}"),
    "list: bad expression": _get("/servers?name=%5B"),
    "list: all projects by a user": _get("/servers?all_tenants=1"),
    "list: all projects": _get("/servers?all_tenants=1", "admin"),
    "list: all_tenants that is a word": _get("/servers?all_tenants=perhaps", "admin"),
    "list: bad time": _get("/servers?changes-since=yesterday"),
    "list: bad time before": _get("/servers?changes-before=yesterday"),
    "list: unknown status": _get("/servers?status=HAPPY"),
    "list: unknown filter": _get("/servers?colour=red"),
    "list: unknown sort key": _get("/servers?sort_key=colour"),
    "list: sorted": _get("/servers?sort_key=display_name&sort_dir=asc"),
    "list: bad direction": _get("/servers?sort_dir=sideways"),
    "list: locked that is a word": _get("/servers?locked=perhaps"),
    "list: tags": _get("/servers?tags=a"),
    "list: hypervisors by a user": _get("/os-hypervisors"),
    "list: hypervisors": _get("/os-hypervisors?limit=3", "admin"),
    "list: no hypervisors at a time": _get("/os-hypervisors?limit=-1", "admin"),
    "list: hypervisors after an unknown one": _get(f"/os-hypervisors?marker={NOBODY}", "admin"),
    "list: services by a user": _get("/os-services"),
    "list: aggregates by a user": _get("/os-aggregates"),
    "list: server groups": _get("/os-server-groups"),
    "list: keys": _get("/os-keypairs"),
    "list: flavors": _get("/flavors?limit=-1"),
    "list: limits": _get("/limits"),
    # one server
    "server: unknown": _get(f"/servers/{NOBODY}"),
    "server: shown": _get("/servers/{SERVER}"),
    "server: its addresses": _get("/servers/{SERVER}/ips"),
    "server: its tags": _get("/servers/{SERVER}/tags"),
    "server: its metadata": _get("/servers/{SERVER}/metadata"),
    "server: its actions": _get("/servers/{SERVER}/os-instance-actions"),
    "server: its groups": _get("/servers/{SERVER}/os-security-groups"),
    "server: renamed to nothing": Ask("PUT", "/servers/{SERVER}", {"server": {"name": ""}}),
    "server: name too long": Ask("PUT", "/servers/{SERVER}", {"server": {"name": "n" * 300}}),
    "server: something unknown": Ask("PUT", "/servers/{SERVER}", {"server": {"colour": "red"}}),
    "server: nothing to change": Ask("PUT", "/servers/{SERVER}", {"server": {}}),
    "action: of an unknown server": _act({"os-stop": None}, server=NOBODY),
    "action: unknown": _act({"dance": None}),
    "action: none": _act({}),
    "action: start what runs": _act({"os-start": None}),
    "action: bad reboot": _act({"reboot": {"type": "GENTLE"}}),
    "action: unpause what runs": _act({"unpause": None}),
    "action: resume what runs": _act({"resume": None}),
    "action: unrescue what runs": _act({"unrescue": None}),
    "action: confirm without a resize": _act({"confirmResize": None}),
    "action: revert without a resize": _act({"revertResize": None}),
    "action: rebuild without an image": _act({"rebuild": {}}),
    "action: rebuild from an unknown image": _act({"rebuild": {"imageRef": NOBODY}}),
    "action: rebuild with something unknown": _act({"rebuild": {"imageRef": "{IMAGE}", "colour": "red"}}),
    "action: password that is a number": _act({"changePassword": {"adminPass": 3}}),
    "action: no password": _act({"changePassword": {}}),
    "action: rescue with a word": _act({"rescue": "now"}),
    "action: reset to nonsense": _act({"os-resetState": {"state": "happy"}}, "admin"),
    "action: a console there is not": _act({"os-getVNCConsole": {"type": "novnc"}}),
    "action: dump before 2.17": Ask("POST", "/servers/{SERVER}/action", {"trigger_crash_dump": None}, "demo", "2.16"),
    "tag: missing": _get("/servers/{SERVER}/tags/nothing"),
    "tag: with a comma": Ask("PUT", "/servers/{SERVER}/tags/a,b"),
    "tag: too long": Ask("PUT", f"/servers/{{SERVER}}/tags/{'t' * 61}"),
    "tag: missing one removed": Ask("DELETE", "/servers/{SERVER}/tags/nothing"),
    "tags: that are no list": Ask("PUT", "/servers/{SERVER}/tags", {"tags": "a"}),
    "tags: with something unknown": Ask("PUT", "/servers/{SERVER}/tags", {"tags": [], "colour": "red"}),
    "tags: before 2.26": _get("/servers/{SERVER}/tags", version="2.25"),
    "server: bad host name": Ask("PUT", "/servers/{SERVER}", {"server": {"hostname": "not a name"}}),
    "server: host name before 2.90": Ask("PUT", "/servers/{SERVER}", {"server": {"hostname": "a-b"}}, "demo", "2.89"),
    "server: its volumes": _get("/servers/{SERVER}/os-volume_attachments"),
    "server: an unknown volume": _get(f"/servers/{{SERVER}}/os-volume_attachments/{NOBODY}"),
    "server: its shares": _get("/servers/{SERVER}/shares", version="2.97"),
    "server: its shares before 2.97": _get("/servers/{SERVER}/shares"),
    "server: its migrations": _get("/servers/{SERVER}/migrations", "admin"),
    "server: its migrations by a user": _get("/servers/{SERVER}/migrations"),
    "server: an unknown migration": _get("/servers/{SERVER}/migrations/7", "admin"),
    "server: actions after an unknown one": _get("/servers/{SERVER}/os-instance-actions?marker=req-none"),
    "server: one of its actions": _get("/servers/{SERVER}/os-instance-actions?limit=1"),
    "server: actions since nonsense": _get("/servers/{SERVER}/os-instance-actions?changes-since=yesterday"),
    "console: of no kind": Ask("POST", "/servers/{SERVER}/remote-consoles", {"remote_console": {}}),
    "console: not there": Ask(
        "POST", "/servers/{SERVER}/remote-consoles", {"remote_console": {"protocol": "vnc", "type": "novnc"}}
    ),
    "console: token by a user": _get(f"/os-console-auth-tokens/{NOBODY}"),
    "console: unknown token": _get(f"/os-console-auth-tokens/{NOBODY}", "admin"),
    "list: deleted servers": _get("/servers?deleted=true", "admin"),
    "list: deleted servers by a user": _get("/servers?status=deleted"),
    "list: migrations": _get("/os-migrations", "admin"),
    "list: migrations by a user": _get("/os-migrations"),
    "list: usage": _get("/os-simple-tenant-usage?detailed=1", "admin"),
    "list: usage by a user": _get("/os-simple-tenant-usage"),
    "list: usage since nonsense": _get("/os-simple-tenant-usage?start=yesterday", "admin"),
    "list: agents": _get("/os-agents", "admin"),
    "hosts: listed": _get("/os-hosts", "admin", "2.42"),
    "hosts: by a user": _get("/os-hosts", version="2.42"),
    "hosts: after 2.42": _get("/os-hosts", "admin", "2.43"),
    "hosts: unknown": _get("/os-hosts/nowhere", "admin", "2.42"),
    "hosts: nonsense told": Ask("PUT", "/os-hosts/nowhere", {"status": "perhaps"}, "admin", "2.42"),
    "service: unknown deleted": Ask("DELETE", f"/os-services/{NOBODY}", None, "admin"),
    "service: that is no identifier deleted": Ask("DELETE", "/os-services/mine", None, "admin"),
    "service: deleted by a user": Ask("DELETE", f"/os-services/{NOBODY}"),
    "aggregate: images of an unknown one": Ask(
        "POST", "/os-aggregates/77/images", {"cache": [{"id": NOBODY}]}, "admin"
    ),
    "aggregate: no images": Ask("POST", "/os-aggregates/77/images", {}, "admin"),
    "aggregate: images by a user": Ask("POST", "/os-aggregates/77/images", {"cache": [{"id": NOBODY}]}),
    "extension: unknown": _get("/extensions/nothing"),
    "action: migrate by a user": _act({"migrate": None}),
    "action: reset by a user": _act({"os-resetState": {"state": "active"}}),
    "delete: unknown": Ask("DELETE", f"/servers/{NOBODY}"),
    "flavor: unknown": _get("/flavors/9999"),
    "flavor: made by a user": Ask("POST", "/flavors", {"flavor": {"name": "x", "ram": 1, "vcpus": 1, "disk": 0}}),
    "key: unknown": _get("/os-keypairs/nobody"),
    "group: unknown": _get(f"/os-server-groups/{NOBODY}"),
    "version: too new": _get("/servers", version="2.999"),
    "version: nonsense": _get("/servers", version="new"),
    "path: unknown": _get("/nothing"),
}  # fmt: skip


def filled(value: Any, known: dict[str, str]) -> Any:
    """The value with what stands in braces."""
    if isinstance(value, str):
        for name, text in known.items():
            value = value.replace(f"{{{name}}}", text)
        return value
    if isinstance(value, dict):
        return {name: filled(each, known) for name, each in value.items()}
    return [filled(each, known) for each in value] if isinstance(value, list) else value


def answers(connections: dict[str, Any]) -> dict[str, int]:
    """The status of each; `connections` of openstacksdk by user, whose `demo` has the server `script`."""
    user = connections["demo"]
    known = {
        "SERVER": next(each.id for each in user.compute.servers() if each.name == "script"),
        "IMAGE": user.image.find_image("tiny").id,
        "FLAVOR": user.compute.find_flavor("node").id,
    }
    found = {}
    for name, ask in SCRIPT.items():
        cloud = connections[ask.user]
        response = cloud.session.request(
            cloud.compute.get_endpoint().rstrip("/") + filled(ask.path, known),
            ask.method,
            json=filled(ask.body, known),
            headers={"OpenStack-API-Version": f"compute {ask.version}"},
            authenticated=True,
            raise_exc=False,
        )
        found[name] = response.status_code
    return found
