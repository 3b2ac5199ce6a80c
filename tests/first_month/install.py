"""The first Monday: install, configure, check and serve, by the pages alone."""

from __future__ import annotations

import re
from pathlib import Path

from first_month import cluster, service
from first_month.machine import StepError, block, command, edit, eventually, is_so, run, says, write
from first_month.service import CONFIG, TOKEN, ask, check

KEPT = "/first-month/balancer.yaml"
"""The operator's own copy of the configuration."""


def the_cluster_runs_jobs_without_a_balancer() -> None:
    cluster.start()


def the_package_installs_and_brings_user_man_page_and_unit() -> None:
    install("new.deb")
    says(run("balancer --version"), r"\d+\.\d+")
    is_so(run("stat -c '%U %G %a' /etc/balancer/balancer.yaml").strip(), "root balancer 640")
    says(run("gzip -dc /usr/share/man/man1/balancer.1.gz | head -n 3"), "balancer")
    is_so(run("systemctl is-enabled balancer", status=None).strip(), "disabled")
    is_so(service.unit("ActiveState"), "inactive")
    is_so(run("systemd-analyze verify --man=no balancer.service").strip(), "")


def install(package: str) -> None:
    """The page's own line, with where the package lies here."""
    line = command("balancer/service.md", "dpkg -i")
    run(re.sub(r"dist/\S+", f"/first-month/{package}", line))


def check_says_what_is_missing_and_each_line_says_what_to_do() -> None:
    edit(CONFIG, r"^nodes: .*", "nodes: n[001-008]")
    edit(CONFIG, r"^reserve: .*", "reserve: 1")
    edit(CONFIG, r"^wait_s: .*", "wait_s: 20\nidle_reserve_s: 0\nreconcile_period_s: 5\nfailed_after_s: 5")
    run(f"cp {CONFIG} {KEPT}")
    said = check(status=1)
    says(
        said,
        "^not so .*may drain nodes.*sacctmgr",
        "^not so .*token.*balancer token create --config",
        "^not so .*hooks",
    )
    says(said, "^ok .*ledger can be opened")
    remedy = re.search(r"sacctmgr .*", said)
    if remedy is None:
        raise StepError(said)
    for each in remedy[0].split(" && "):
        run(each.replace("sacctmgr", "sacctmgr --immediate"))


def hooks_and_tokens_are_made_by_the_pages() -> None:
    for line in block("balancer/drivers.md", "install -m 0755 slurm-prolog"):
        run(f"cd /usr/share/balancer && {line}")
    for line in block("balancer/drivers.md", "balancer hook-key"):
        run(f"runuser -u balancer -- {line}" if line.startswith("balancer") else line)
    lines = "\n".join(block("balancer/drivers.md", "PrologSlurmctld="))
    edit("/etc/slurm/slurm.conf", r"\Z", f"{lines}\n")
    run("scontrol reconfigure")
    write(TOKEN, make_token("operator", "head"))
    Path(TOKEN).chmod(0o600)


def make_token(role: str, name: str) -> str:
    """By the page's line, as the service's user."""
    line = command("balancer/security.md", "balancer token create")
    line = line.replace("--role on-demand", f"--role {role}").replace("--name nova", f"--name {name}")
    (token,) = re.findall("^bal_.*", run(line, user="balancer"), re.MULTILINE)
    return f"{token}\n"


def check_is_content() -> None:
    said = check()
    says(said, "^ok .*may drain nodes", "^ok .*token file", "^ok .*hooks")
    is_so(re.findall("^not so.*", said, re.MULTILINE), [])


def the_unit_serves_and_says_so() -> None:
    run(command("balancer/service.md", "systemctl enable --now balancer"))
    service.is_ready()
    is_so(service.unit("Type"), "notify")
    says(service.unit("StatusText"), "listens on http://127.0.0.1:8090")
    says(ask("status"), "^ready +yes")
    eventually(lambda: Path(service.LEDGER).exists(), True)
