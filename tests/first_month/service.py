"""The service as its operator has it: the unit, its journal, and the command `balancer` with a token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from first_month.machine import StepError, command, eventually, run

CONFIG = "/etc/balancer/balancer.yaml"
LEDGER = "/var/lib/balancer/ledger.db"
FILLER = "/var/lib/balancer/filler"
"""What fills the disk of the ledger."""
TOKEN = "/first-month/balancer.token"


def ask(arguments: str, *, status: int | None = 0, **environment: str) -> str:
    """What `balancer ...` says to the operator."""
    return run(f"balancer {arguments}", status=status, BALANCER_TOKEN_FILE=TOKEN, **environment)


def told() -> dict[str, Any]:
    """`balancer status` as JSON."""
    found: dict[str, Any] = json.loads(ask("status --json"))
    return found


def problem() -> str | None:
    """Why the service is not ready; None: it is."""
    found: str | None = told()["problem"]
    return found


def nodes() -> dict[str, str]:
    """Node -> its state in the Balancer's words."""
    return {each["name"]: each["state"] for each in json.loads(ask("nodes --json"))}


def state(node: str) -> str:
    return nodes()[node]


def nodes_in(wanted: str) -> list[str]:
    return [name for name, found in nodes().items() if found == wanted]


def lent() -> list[str]:
    """All that batch has no use of: granted nodes and the reserve."""
    return [*nodes_in("OD_ALLOC"), *nodes_in("OD_RESERVE")]


def in_doubt() -> list[str]:
    """Quarantined nodes, as this release or the one before calls them."""
    return [name for name, found in nodes().items() if found in {"QUARANTINED", "HELD"}]


def request(count: int, more: str = "") -> list[str]:
    """The nodes that are granted."""
    return sorted(json.loads(ask(f"request {count} {more} --json"))["nodes"])


def check(*, status: int = 0, config: str = CONFIG) -> str:
    """The page's `balancer check`, as the service's user."""
    page = command("tutorials/operator.md", "balancer check").replace(CONFIG, config)
    return run(page, status=status, user="balancer")


def unit(key: str) -> str:
    """A property of the unit."""
    return run(f"systemctl show balancer --property {key} --value").strip()


def journal(since: str) -> str:
    """What the service has said since `now()` was that."""
    return run(f"journalctl --unit balancer --output cat --no-pager --since @{since}")


def now() -> str:
    return run("date +%s.%N").strip()


def start() -> None:
    """Raises StepError if it does not come to be ready."""
    _forget_failures()
    run("systemctl start balancer")
    is_ready()


def restart() -> None:
    _forget_failures()
    run("systemctl restart balancer")
    is_ready()


def _forget_failures() -> None:
    """What has failed too often is not started again. A unit that is not loaded has not failed."""
    run("systemctl reset-failed balancer", status=None)


def stop() -> None:
    run("systemctl stop balancer")


def is_ready() -> None:
    """All is read, and nothing is wrong. Raises StepError."""
    eventually(lambda: unit("ActiveState"), "active")
    eventually(problem, None, within_s=240)  # a ledger that may be a copy is watched for 75 s first


def no_traceback(since: str) -> None:
    """Raises StepError."""
    said = journal(since)
    if "Traceback" in said:
        raise StepError(f"a traceback in the journal:\n{said}")


def tidy() -> None:
    """A failed step must not fail the next one: there is room, and nothing is granted, quarantined or frozen."""
    Path(FILLER).unlink(missing_ok=True)
    _forget_failures()
    for each in ("systemctl stop second", "systemctl restart balancer", "balancer thaw"):
        run(each, status=None)
    for kind, then in (("QUARANTINED", "ledger adopt --yes --to batch"), ("OD_ALLOC", "release")):
        found = run(f"balancer nodes --state {kind} | grep -o ^n00.", status=None, BALANCER_TOKEN_FILE=TOKEN)
        ask(f"{then} {' '.join(found.split())}", status=None)
