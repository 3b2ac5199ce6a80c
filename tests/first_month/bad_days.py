"""Bad days: a kill, a hang, wrong settings, no batch system, a full disk, a clock that jumps, an old ledger."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from first_month import cluster, service
from first_month.days import all_home, give_back
from first_month.machine import block, command, edit, eventually, is_so, run, says, write
from first_month.service import CONFIG, FILLER, LEDGER, TOKEN, ask

if TYPE_CHECKING:
    from collections.abc import Iterator

_STATE = str(Path(LEDGER).parent)
_DROP_IN = "/run/systemd/system/balancer.service.d/month.conf"
_FAKE_TIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
_OFFSET = "/run/balancer-offset"


def the_runbooks_first_commands_work() -> None:
    for line in block("balancer/runbook.md", "systemctl status balancer"):
        run(line, user="balancer" if line.startswith("balancer check") else "root", BALANCER_TOKEN_FILE=TOKEN)


def a_kill_loses_nothing_and_systemd_starts_it_again() -> None:
    granted = service.request(2)
    ask("request 8 --wait-s 60 --async")
    run("systemctl kill --signal SIGKILL balancer")
    eventually(lambda: service.unit("NRestarts"), "1")
    service.is_ready()
    is_so(service.nodes_in("OD_ALLOC"), granted)
    (waiting,) = json.loads(ask("requests --state waiting --json"))
    ask(f"withdraw {waiting['id']}")
    says(run(f"runuser -u balancer -- balancer ledger verify --db {LEDGER}"), "")
    give_back(granted)


def a_service_that_hangs_is_ended_by_the_watchdog_and_started_again() -> None:
    Path(_DROP_IN).parent.mkdir(parents=True, exist_ok=True)
    write(_DROP_IN, "[Service]\nWatchdogSec=10\n")
    run("systemctl daemon-reload")
    service.restart()
    granted = service.request(1)
    first = service.unit("MainPID")
    run(f"kill -STOP {first}")
    eventually(lambda: service.unit("MainPID") not in {first, "0"}, True)
    service.is_ready()
    is_so(service.nodes_in("OD_ALLOC"), granted)
    Path(_DROP_IN).unlink()
    run("systemctl daemon-reload")
    service.restart()
    give_back(granted)


def a_bad_configuration_stays_down_and_its_last_line_says_why() -> None:
    edit(CONFIG, "^reserve: ", "reserv: ")
    since = service.now()
    run("systemctl restart balancer", status=1)
    is_so(service.unit("ActiveState"), "failed")
    is_so(service.unit("ExecMainStatus"), "2")
    says(service.journal(since), r"^balancer: .*balancer\.yaml.*reserv")
    says(service.check(status=2), r"balancer\.yaml.*reserv")
    service.no_traceback(since)
    edit(CONFIG, "^reserv: ", "reserve: ")
    service.restart()
    all_home()


def a_batch_system_that_is_away_is_told_and_nothing_is_lost() -> None:
    granted = service.request(2)
    run("systemctl stop slurmctld")
    eventually(lambda: "unreachable" in ask("status"), True)
    run("systemctl restart balancer")
    says(ask("status"), "^ready +no: ")
    run("systemctl start slurmctld")
    service.is_ready()
    is_so(service.nodes_in("OD_ALLOC"), granted)
    give_back(granted)


def a_full_disk_makes_it_read_only_with_one_clear_line_and_it_goes_on_when_there_is_room() -> None:
    with _small_disk():
        _full_and_with_room_again()


def _full_and_with_room_again() -> None:
    granted = service.request(2)
    since = service.now()
    _fill()
    eventually(lambda: (ask("request 1 --patience-s 1", status=None), service.problem())[1] is None, False)
    says(ask("status"), "^ready +no: read-only: .*(full|space)")
    service.no_traceback(since)
    service.stop()
    _fill()  # with what the stop gave back
    run("systemctl start balancer", status=1)
    is_so(service.unit("ExecMainStatus"), "2")
    says(service.journal(since), f"^balancer: the ledger {LEDGER} cannot be (opened|written): .*disk is full")
    service.no_traceback(since)
    Path(FILLER).unlink()
    service.restart()
    is_so(service.nodes_in("OD_ALLOC"), granted)
    _fill()
    eventually(lambda: (ask("request 1 --patience-s 1", status=None), service.problem())[1] is None, False)
    Path(FILLER).unlink()
    service.is_ready()
    is_so(service.nodes_in("OD_ALLOC"), granted)
    give_back(granted)


@contextmanager
def _small_disk() -> Iterator[None]:
    """The ledger is on a disk of 6 MB; afterwards it is where it was, with what has happened."""
    service.stop()
    run(
        f"cp -a {_STATE} {_STATE}.kept && mount -t tmpfs -o size=6m,mode=0700,uid=balancer,gid=balancer tmpfs {_STATE}"
    )
    run(f"cp -a {_STATE}.kept/. {_STATE}")
    service.start()
    try:
        yield
    finally:
        Path(FILLER).unlink(missing_ok=True)
        service.stop()
        run(
            f"rm -rf {_STATE}.kept && cp -a {_STATE} {_STATE}.kept && umount {_STATE} && cp -a {_STATE}.kept/. {_STATE}"
        )
        run(f"rm -rf {_STATE}.kept")
        service.start()


def _fill() -> None:
    """All that is left of the disk."""
    run(f"dd if=/dev/zero of={FILLER} bs=4096", status=1)


def a_clock_two_hours_ahead_that_is_set_back_does_not_step_and_falls_back_slowly() -> None:
    with _clock_of_its_own():
        service.restart()
        is_so(round(_lead_s(), -2), 7200)
        since = service.now()
        write(_OFFSET, "+0h")
        is_so(round(_lead_s(), -2), 7200)
        says(service.journal(since), '"ahead_s": 7200, .*waits 6 s a minute while it is ahead')
    service.restart()
    first = _lead_s()
    eventually(lambda: _lead_s() < first - 1, True)
    all_home()


@contextmanager
def _clock_of_its_own() -> Iterator[None]:
    """The service's next start has a clock that is two hours ahead, and follows the file of offsets."""
    write(_OFFSET, "+2h")
    Path(_DROP_IN).parent.mkdir(parents=True, exist_ok=True)
    fake = f"LD_PRELOAD={_FAKE_TIME} FAKETIME_TIMESTAMP_FILE={_OFFSET}"
    write(_DROP_IN, f"[Service]\nEnvironment={fake} FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1\n")
    run("systemctl daemon-reload")
    try:
        yield
    finally:
        Path(_DROP_IN).unlink()
        run("systemctl daemon-reload")


def _lead_s() -> float:
    """By how much the time of a node that is granted now is in the future."""
    (granted,) = service.request(1)
    (found,) = (each for each in json.loads(ask("nodes --json")) if each["name"] == granted)
    lead_s = float(found["since_s"]) - time.time()
    give_back([granted])
    return lead_s


def a_backup_that_is_put_back_quarantines_what_was_lent_since() -> None:
    early = service.request(1)
    backup, restore = (
        command("balancer/backup.md", f"balancer ledger {verb}") for verb in ("backup", "restore")
    )
    run("install -d -o balancer -m 0700 /backup")
    run(backup, user="balancer")
    late = service.request(2)
    # The reserve is filled anew behind the answer; a mark that comes after the service has ended is a doubt of its own.
    eventually(lambda: cluster.drained() == sorted(service.lent()), True)
    for line in block("balancer/backup.md", "systemctl stop balancer"):
        run(line, user="balancer" if line == restore else "root")
    eventually(lambda: service.in_doubt() != [], True)
    eventually(lambda: service.told()["batch"]["age_s"] is None, False)  # marks and ledger were compared
    held = service.in_doubt()
    is_so(set(late) <= set(held), True)
    says(ask("ledger adopt"), *(f"^{node} " for node in held))
    is_so(set(held) <= set(cluster.drained()), True)  # and the reserve, which is filled anew
    mine = [node for node in held if node in early]
    if mine:
        ask(f"ledger adopt --to on-demand {' '.join(mine)} --yes")
        ask(f"release {' '.join(mine)}")
    rest = " ".join(node for node in held if node not in early)
    ask(f"ledger adopt --to batch {rest} --yes")
    eventually(service.problem, None)
    if still := service.nodes_in("OD_ALLOC"):
        ask(f"release {' '.join(still)}")
    all_home()


STEPS = (
    the_runbooks_first_commands_work,
    a_kill_loses_nothing_and_systemd_starts_it_again,
    a_service_that_hangs_is_ended_by_the_watchdog_and_started_again,
    a_bad_configuration_stays_down_and_its_last_line_says_why,
    a_batch_system_that_is_away_is_told_and_nothing_is_lost,
    a_full_disk_makes_it_read_only_with_one_clear_line_and_it_goes_on_when_there_is_room,
    a_clock_two_hours_ahead_that_is_set_back_does_not_step_and_falls_back_slowly,
    a_backup_that_is_put_back_quarantines_what_was_lent_since,
)
