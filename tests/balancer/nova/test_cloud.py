"""What the agent reads of Nova, against a cloud that is played call by call; the real one: test_real_nova.py."""

from types import SimpleNamespace

from balancer.nova.cloud import NovaCloud


class Compute:
    """Two hosts, of which one has two hypervisors, as ironic's has; two hypervisors a page."""

    def __init__(self):
        self.asked = []

    def get(self, path, *, params, microversion):
        self.asked.append((path, params, microversion))
        found = [
            {"id": uuid, "service": {"host": host}}
            for uuid, host in (("u1", "n1"), ("u2", "ironic"), ("u3", "ironic"))
        ]
        first = 2 if params else 0
        page = {"hypervisors": found[first : first + 2]}
        if not first:
            page["hypervisors_links"] = [{"rel": "next", "href": "..."}]
        return SimpleNamespace(status_code=200, json=lambda: page)


def test_the_providers_of_a_host_are_its_hypervisors_and_no_host_is_asked_for_them():
    compute = Compute()
    cloud = NovaCloud(connection=SimpleNamespace(compute=compute))
    assert cloud.providers() == {"n1": ("u1",), "ironic": ("u2", "u3")}
    assert [(path, params) for path, params, _ in compute.asked] == [
        ("/os-hypervisors/detail", {}),
        ("/os-hypervisors/detail", {"marker": "u2"}),
    ]
    # Ids are those of Placement from 2.53 on; from 2.88 on Nova asks every host for its uptime.
    assert all((2, 53) <= tuple(map(int, version.split("."))) < (2, 88) for *_, version in compute.asked)
