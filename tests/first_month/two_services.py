"""Two services by mistake: a second one with a ledger of its own on the same nodes, and who goes on afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from first_month import cluster, service
from first_month.days import all_home, give_back
from first_month.machine import command, eventually, is_so, run, says, write
from first_month.service import CONFIG, LEDGER, ask

_SECOND = "/etc/balancer/second.yaml"
_URL = "http://127.0.0.1:8091"


def a_second_service_moves_nothing_and_check_says_so() -> None:
    granted = service.request(2)
    drained = cluster.drained()
    _configure_second()
    says(service.check(status=1, config=_SECOND), "^not so .*no other Balancer.*(claim|mark)")
    _start_second()
    says(ask("status", BALANCER_URL=_URL), "^claimed +by another Balancer", "^ready +no: ")
    says(ask("request 1 --wait-s 1", status=1, BALANCER_URL=_URL), "balancer:")
    for _ in range(3):
        ask("nodes", BALANCER_URL=_URL)
        is_so(cluster.drained(), drained)
    give_back(granted)
    is_so(service.problem(), None)
    run("systemctl stop second")


def _configure_second() -> None:
    """A staging configuration, as somebody copies it."""
    own = {r"db": "/var/lib/second/ledger.db", "port": "8091", "token_file": f"{LEDGER}.tokens"}
    kept = [
        line for line in Path(CONFIG).read_text(encoding="utf-8").splitlines() if not line.startswith("db:")
    ]
    write(_SECOND, "\n".join([*kept, *(f"{key}: {value}" for key, value in own.items()), ""]))
    run("install -d -o balancer -m 0700 /var/lib/second")


def _start_second() -> None:
    run(f"systemd-run --unit second --uid balancer balancer serve --config {_SECOND}")
    eventually(lambda: "ready" in ask("status", status=None, BALANCER_URL=_URL), True)


def one_that_adopts_goes_on_and_the_other_way_round() -> None:
    _configure_second()
    granted = service.request(2)
    run("systemctl kill --signal SIGKILL balancer; systemctl stop balancer")
    marked = cluster.drained()
    is_so(set(granted) <= set(marked), True)
    _start_second()
    line = command("balancer/backup.md", "balancer adopt --reason 'its disk is dead' --yes")
    says(ask(line.removeprefix("balancer "), BALANCER_URL=_URL), "^yes +n00")
    eventually(lambda: sorted(_of_second("quarantined")), marked)
    ask(f"ledger adopt --to batch {' '.join(marked)} --yes", BALANCER_URL=_URL)
    eventually(lambda: _of_second("problem"), None)
    eventually(lambda: len(cluster.drained()), 1)  # the second one's reserve
    run("systemctl stop second")
    run("systemctl start balancer")
    eventually(lambda: service.told()["claimed"] is None, False)
    ask(line.removeprefix("balancer "))
    ask(f"ledger adopt --to batch {' '.join(service.in_doubt())} --yes", status=None)
    eventually(service.problem, None)
    if still := service.nodes_in("OD_ALLOC"):
        ask(f"release {' '.join(still)}")
    all_home()


def _of_second(key: str) -> Any:
    return json.loads(ask("status --json", BALANCER_URL=_URL))[key]


STEPS = (
    a_second_service_moves_nothing_and_check_says_so,
    one_that_adopts_goes_on_and_the_other_way_round,
)
