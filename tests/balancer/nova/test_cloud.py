"""What the agent reads of Nova, against a cloud that is played call by call; the real one: test_real_nova.py."""

from types import SimpleNamespace

from balancer.nova.cloud import NovaCloud


class Compute:
    """Two hosts, of which one has two hypervisors, as ironic's has."""

    def __init__(self):
        self.asked = []

    def hypervisors(self, **given):
        self.asked.append(given)
        found = (("u1", "n1.site", "n1"), ("u2", "a", "ironic"), ("u3", "b", "ironic"), ("u4", "n2", None))
        return [
            SimpleNamespace(id=uuid, name=name, service_details=host and {"host": host})
            for uuid, name, host in found
        ]


def test_the_providers_of_a_host_are_its_hypervisors_and_no_host_is_asked_for_them():
    compute = Compute()
    cloud = NovaCloud(connection=SimpleNamespace(compute=compute))
    assert cloud.providers() == {"n1": ("u1",), "ironic": ("u2", "u3"), "n2": ("u4",)}
    ((version, details),) = [(each["microversion"], each["details"]) for each in compute.asked]
    assert details
    # Ids are those of Placement from 2.53 on; from 2.88 on Nova asks every host for its uptime.
    assert (2, 53) <= tuple(map(int, version.split("."))) < (2, 88)
