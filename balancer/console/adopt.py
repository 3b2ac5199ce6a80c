"""`balancer adopt`: an operator says that no other Balancer runs on the nodes."""

from __future__ import annotations

import click

from balancer.console_kit import asks_service, fail, service_at, show
from balancer.nodelist import some

_DANGERS = (
    "If another Balancer runs on these nodes, both give the same node to two owners from now on, and each drains what "
    "the other gives back. Look first: `systemctl status balancer` on each host that has ever run it."
)


@click.command()
@asks_service
@click.option("--reason", required=True, help="Reason for the service's log.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
def adopt(url: str, as_json: bool, reason: str, yes: bool) -> None:
    """Take over the nodes when no other Balancer runs on them. Operators only.

    Nodes that carry marks of another ledger stay QUARANTINED: `balancer ledger adopt` says whose each is.
    """
    with service_at(url, patience_s=30.0) as balancer:
        claimed = balancer.status().get("claimed")  # older services do not tell
        if not claimed:
            fail("no other Balancer claims the nodes: there is nothing to adopt")
        click.echo(f"{claimed}\n\n{_DANGERS}", err=True)
        if not yes and not click.confirm("Does no other Balancer run?", default=False, err=True):
            fail("nothing is changed")
        found = balancer.adopt(reason)
    if found["claimed"]:
        fail(f"still read-only: {found['claimed']}", 3)
    names = list(found["quarantined"])
    then = f"{some(names)}: see `balancer ledger adopt`" if names else "none"
    show(as_json, found, ["ADOPTED", "QUARANTINED"], [["yes", then]])
