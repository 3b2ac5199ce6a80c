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


def _create(**more: Any) -> Ask:
    body = {"name": "s", "imageRef": "{IMAGE}", "flavorRef": "{FLAVOR}", "networks": "none"} | more
    server = {name: value for name, value in body.items() if value != "-"}
    return Ask("POST", "/servers", {"server": server})


def _get(path: str, user: str = "demo", version: str = "2.96") -> Ask:
    return Ask("GET", path, None, user, version)


def _act(body: Any, user: str = "demo", server: str = "{SERVER}") -> Ask:
    return Ask("POST", f"/servers/{server}/action", body, user)


SCRIPT: dict[str, Ask] = {
    # creates that are refused
    "create: unknown zone": _create(availability_zone="elsewhere"),
    "create: name of 300 characters": _create(name="n" * 300),
    "create: empty name": _create(name=""),
    "create: name of blanks": _create(name="   "),
    "create: name that is a number": _create(name=3),
    "create: no name": _create(name="-"),
    "create: no count": _create(min_count=0),
    "create: negative count": _create(max_count=-1),
    "create: count that is a word": _create(max_count="many"),
    "create: more at least than at most": _create(min_count=3, max_count=2),
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
    "create: something unknown": _create(colour="red"),
    "create: description too long": _create(description="d" * 256),
    "create: return_reservation_id that is a word": _create(return_reservation_id="perhaps"),
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
    "list: unknown status": _get("/servers?status=HAPPY"),
    "list: unknown filter": _get("/servers?colour=red"),
    "list: hypervisors by a user": _get("/os-hypervisors"),
    "list: hypervisors": _get("/os-hypervisors?limit=3", "admin"),
    "list: no hypervisors at a time": _get("/os-hypervisors?limit=-1", "admin"),
    "list: hypervisors after an unknown one": _get(f"/os-hypervisors?marker={NOBODY}", "admin"),
    "list: services by a user": _get("/os-services"),
    "list: aggregates by a user": _get("/os-aggregates"),
    "list: flavors": _get("/flavors?limit=-1"),
    "list: limits": _get("/limits"),
    # one server
    "server: unknown": _get(f"/servers/{NOBODY}"),
    "server: shown": _get("/servers/{SERVER}"),
    "server: its metadata": _get("/servers/{SERVER}/metadata"),
    "server: renamed to nothing": Ask("PUT", "/servers/{SERVER}", {"server": {"name": ""}}),
    "server: name too long": Ask("PUT", "/servers/{SERVER}", {"server": {"name": "n" * 300}}),
    "server: something unknown": Ask("PUT", "/servers/{SERVER}", {"server": {"colour": "red"}}),
    "server: nothing to change": Ask("PUT", "/servers/{SERVER}", {"server": {}}),
    "action: of an unknown server": _act({"os-stop": None}, server=NOBODY),
    "action: none": _act({}),
    "action: start what runs": _act({"os-start": None}),
    "action: bad reboot": _act({"reboot": {"type": "GENTLE"}}),
    "action: unpause what runs": _act({"unpause": None}),
    "action: resume what runs": _act({"resume": None}),
    "action: unrescue what runs": _act({"unrescue": None}),
    "action: rescue with a word": _act({"rescue": "now"}),
    "list: deleted servers": _get("/servers?deleted=true", "admin"),
    "list: deleted servers by a user": _get("/servers?status=deleted"),
    "delete: unknown": Ask("DELETE", f"/servers/{NOBODY}"),
    "flavor: unknown": _get("/flavors/9999"),
    "version: too new": _get("/servers", version="2.999"),
    "version: nonsense": _get("/servers", version="new"),
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
