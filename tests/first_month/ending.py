"""Removing the package, and the release before: upgraded from, gone back to, and upgraded from again."""

from __future__ import annotations

from pathlib import Path

from first_month import cluster, install, service
from first_month.days import all_home, give_back
from first_month.machine import block, command, eventually, is_so, run, says
from first_month.service import CONFIG, LEDGER, TOKEN, ask


def the_unit_is_hardened_and_its_figure_is_low() -> None:
    said = run("systemd-analyze security --no-pager balancer").splitlines()[-1]
    print(f"  {said.strip()}")
    says(said, r"level for balancer\.service: 1\.\d OK")


def an_upgrade_restarts_the_service_and_keeps_what_is_lent() -> None:
    granted = service.request(2)
    first = service.unit("MainPID")
    install.install("new.deb")
    is_so(service.unit("MainPID") != first, True)
    service.is_ready()
    is_so(service.nodes_in("OD_ALLOC"), granted)
    give_back(granted)


def removal_leaves_ledger_tokens_and_configuration_and_purge_leaves_no_configuration() -> None:
    run("dpkg --remove balancer")
    is_so(service.unit("ActiveState"), "inactive")
    is_so(Path("/usr/bin/balancer").exists(), False)
    is_so([path for path in (CONFIG, LEDGER, f"{LEDGER}.tokens") if not Path(path).exists()], [])
    is_so(Path("/usr/lib/balancer").exists(), False)
    is_so(Path("/etc/systemd/system/multi-user.target.wants/balancer.service").is_symlink(), False)
    run("dpkg --purge balancer")
    is_so([path for path in (CONFIG, "/etc/default/balancer") if Path(path).exists()], [])
    is_so(Path(LEDGER).exists(), True)
    run("id balancer")


def the_release_before_serves_and_the_upgrade_keeps_what_it_lent() -> None:
    run("dpkg --purge balancer")
    run("scontrol update nodename=n00[1-8] state=resume", status=None)
    claim = "scontrol --oneliner show reservation | grep -o 'balancer-claim-[0-9a-f]*'"
    run(f"rm -rf /var/lib/balancer && scontrol delete reservation $({claim})")
    install.install("old.deb")
    # By its own name for a key, which later releases take as well.
    run(f"sed 's/^idle_reserve_s:/idle_hold_s:/' {install.KEPT} >{CONFIG}")
    Path(TOKEN).write_text(install.make_token("operator", "head"), encoding="utf-8")
    service.start()
    granted = service.request(2)
    upgrade = block("balancer/runbook.md", "balancer ledger backup")
    run("install -d -o balancer /backup && rm -f /backup/*")
    run(upgrade[0], user="balancer")
    run(upgrade[1])
    install.install("new.deb")
    service.check()
    service.start()
    is_so(service.nodes_in("OD_ALLOC"), granted)
    is_so([node for node in granted if "DRAIN" in cluster.state(node)], granted)


def the_way_back_says_that_the_ledger_is_newer_and_the_backup_is_put_back() -> None:
    since = service.now()
    service.stop()
    install.install("old.deb")
    run("systemctl start balancer", status=1)
    says(service.journal(since), "^balancer: .*newer")
    service.no_traceback(since)
    restore = command("balancer/backup.md", "balancer ledger restore")
    run(restore, user="balancer")
    run("systemctl reset-failed balancer && systemctl start balancer")
    eventually(lambda: service.in_doubt() != [], True)
    ask(f"ledger adopt --to on-demand {' '.join(service.in_doubt())} --yes")
    service.is_ready()
    service.stop()
    install.install("new.deb")
    service.start()
    ask(f"release {' '.join(service.nodes_in('OD_ALLOC'))}")
    all_home()


STEPS = (
    the_unit_is_hardened_and_its_figure_is_low,
    an_upgrade_restarts_the_service_and_keeps_what_is_lent,
    removal_leaves_ledger_tokens_and_configuration_and_purge_leaves_no_configuration,
    the_release_before_serves_and_the_upgrade_keeps_what_it_lent,
    the_way_back_says_that_the_ledger_is_newer_and_the_backup_is_put_back,
)
