"""`python -m emulator.live.replayer --config FILE`: submit a workload at its times to a live fleet.

One thread and one list of what is due, in the order of events of the design (time, `EventPriority`, order of entry);
one alarm stands at the head of the list. On a paced clock everything here happens at exactly its time.

Why a lease ends at exactly `granted + run time`: its state is looked at after the request, at the same time
but at `EventPriority.WATCH`, when all that the request caused is done. A lease that is not granted at time t ends
after `t + run time` at the earliest, so that is when it is looked at again (and when its wait runs out).
"""

from __future__ import annotations

import heapq
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import click
import structlog

from balancer.clock import Clock, SystemClock, micros, seconds
from emulator.clock.event_priority import EventPriority
from emulator.clock.shared_clock import SharedClock, alarm_of
from emulator.live.config_option import config_option
from emulator.live.leases import Cloud, CloudError, CloudUnreachableError, add_reserve
from emulator.live.process import write_ready
from emulator.live.qsub import QsubError, QsubUnreachableError
from emulator.live.replay_log import ReplayLog
from emulator.live.replayer_config import ReplayerConfig
from emulator.live.settings import SettingsError, load_settings
from emulator.live.submissions import Job, Submissions
from emulator.workload.store import load
from emulator.workload.table import JobTable, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from emulator.live.replay_log import ReplayResult

_log = structlog.get_logger(__name__)
_WATCH_STOP_S = 1.0
_TIDY_TRIES = 10
"""How often a cloud that is away is asked to take back what a lease that was given up may have got."""
_REFUSALS = 3
"""How often a job is offered that the batch system refuses."""


@dataclass(frozen=True, slots=True)
class Outage:
    """A cloud that has not answered since `since_us`, asked `tries` times."""

    since_us: int
    tries: int = 1


class Replayer:
    """Replays one workload that passed `check`. `run` blocks until all is done or `stop` is called."""

    def __init__(self, config: ReplayerConfig, table: JobTable, clock: Clock, log: ReplayLog) -> None:
        self._config = config
        self._clock = clock
        self._log = log
        on_shared_clock = isinstance(clock, SharedClock)
        self._origin_us = (
            (0 if on_shared_clock else clock.now_us()) if config.origin_s is None else micros(config.origin_s)
        )
        self._past = log.past
        self._is_paced = isinstance(clock, SharedClock) and clock.is_held
        self._submissions = Submissions(config, config.submitter())
        self._cloud = None if config.cloud is None else Cloud(config.cloud, clock)
        self._due: list[tuple[int, EventPriority, int, Callable[[int], None]]] = []
        self._entry = count()
        self._stopping = False
        self._alarm = alarm_of(clock, EventPriority.TIMER)
        self.job_count = len(table)
        self.last_us = int(table.submit_us.max(initial=0))
        """The last submit, since the trace started."""
        for place, body in enumerate(config.reserves):
            self._add(self._origin_us, EventPriority.NOTICE, partial(self._stand, place, body))
        self._fill(table)
        self._set_alarm()

    def _fill(self, table: JobTable) -> None:
        for row in range(len(table)):
            job = Job(
                int(table.number[row]),
                int(table.submit_us[row]) + self._origin_us,
                int(table.run_us[row]),
                int(table.estimate_us[row]),
                int(table.nodes[row]),
                Kind(int(table.kind[row])),
                f"{table.queue[row]}/{table.user[row]}/{table.group[row]}",
            )
            if self._past is not None and self._take_up(job, self._past):
                continue
            if self._config.qnotice:
                self._fill_for_mechanism(job, table, row)
            elif table.kind[row] == Kind.ON_DEMAND and self._cloud is not None:
                self._add(job.submit_us, EventPriority.ARRIVAL, partial(self._arrive, job, self._cloud, None))
                if self._config.notice_s is not None:
                    notice_us = max(self._origin_us, job.submit_us - micros(self._config.notice_s))
                    self._add(notice_us, EventPriority.NOTICE, partial(self._notice, job))
            else:
                self._add_submission(job, EventPriority.SUBMIT)

    def _add_submission(self, job: Job, rank: EventPriority) -> None:
        self._submissions.expect(job)
        self._add(job.submit_us, rank, partial(self._submit, job, 1))

    def _take_up(self, job: Job, past: ReplayResult) -> bool:
        """Go on with what an earlier replayer began; False if it did not come to this job."""
        lease = past.leases.get(job.number)
        if lease is not None:
            if lease.granted and lease.ended_us is None and self._cloud is not None:
                end_us = lease.decided_us + self._origin_us + job.run_us
                self._add(end_us, EventPriority.COMPLETION, partial(self._end, job, self._cloud))
            return True
        if job.number in past.job_ids or job.number in past.failed:
            return True
        if job.submit_us > self._clock.now_us():
            return False
        # Due by now: the earlier one may have asked, and been killed before it wrote that down.
        if job.kind == Kind.ON_DEMAND and self._cloud is not None:
            self._add(job.submit_us, EventPriority.ARRIVAL, partial(self._ask_once, job, self._cloud, None))
        elif (job_id := self._submissions.find(job)) is not None:
            self._write("submitted", job.submit_us, job, job_id=job_id, tries=1)
        else:
            return False
        return True

    def _ask_once(self, job: Job, cloud: Cloud, outage: Outage | None, now_us: int) -> None:
        """An arrival that may have happened already."""
        try:
            is_known = bool(cloud.state(job.lease_name, job.nodes).server_ids)
        except CloudError as error:
            self._ask_again(job, cloud, now_us, outage, error)
            return
        (self._look if is_known else self._arrive)(job, cloud, outage, now_us)

    def _end(self, job: Job, cloud: Cloud, now_us: int) -> None:
        """The end of a lease whose servers an earlier replayer knew."""
        try:
            server_ids = cloud.state(job.lease_name, job.nodes).server_ids
        except CloudError as error:
            _log.warning("look_failed", lease=job.number, error=str(error))
            self._add(now_us + self._pause_us(1), EventPriority.COMPLETION, partial(self._end, job, cloud))
            return
        self._complete(job, cloud, server_ids, now_us)

    def _fill_for_mechanism(self, job: Job, table: JobTable, row: int) -> None:
        """All jobs go to the batch server; those that are known in advance are announced."""
        if job.kind == Kind.BATCH:
            self._add_submission(job, EventPriority.SUBMIT)
            return
        self._add_submission(job, EventPriority.ARRIVAL)
        notice_us = int(table.column("notice_us")[row])
        if self._config.notice_s is not None:
            notice_us = max(0, int(table.submit_us[row]) - micros(self._config.notice_s))
        if notice_us >= 0:
            self._add(notice_us + self._origin_us, EventPriority.NOTICE, partial(self._announce, job))

    # To be looked at meanwhile, from any thread.

    def now_us(self) -> int:
        """Since the trace started."""
        return self._clock.now_us() - self._origin_us

    @property
    def counted(self) -> Mapping[str, int]:
        """Events so far, by their names in the log."""
        return self._log.counted

    # The loop

    def connect(self) -> None:
        """What takes time, while time stands: prepare the first jobs; log in to the cloud, if time would not wait.

        A failure is told later.
        """
        self._submissions.prepare()
        if self._cloud is not None and not self._is_paced:
            with suppress(CloudError):
                self._cloud.connect()

    def run(self) -> None:
        """Do what is due, when it is due, until nothing is left."""
        self._submissions.prepare()
        while self._due and not self._stopping:
            self._set_alarm()
            if self._alarm.wait(_WATCH_STOP_S):
                due_us, _, _, act = heapq.heappop(self._due)
                act(max(due_us, self._clock.now_us()))
            elif isinstance(self._clock, SharedClock) and self._clock.stopped:
                break
        left = f"{len(self._due)} events were still to come" if self._due else ""
        self._log.finish(self._clock.now_us() - self._origin_us, left)
        self._alarm.close()
        self._submissions.close()
        if self._cloud is not None:
            self._cloud.close()

    def stop(self) -> None:
        """End `run` after what it is doing now; may be called from a signal handler or another thread."""
        self._stopping = True
        self._alarm.wake()

    def _set_alarm(self) -> None:
        if self._due:
            self._alarm.set(self._due[0][0], self._due[0][1])

    def _add(self, due_us: int, rank: EventPriority, act: Callable[[int], None]) -> None:
        heapq.heappush(self._due, (due_us, rank, next(self._entry), act))

    def _write(self, event: str, at_us: int, job: Job, **details: object) -> None:
        self._log.write(event, at_us - self._origin_us, job.number, **details)

    def _pause_us(self, tries: int) -> int:
        return micros(min(self._config.retry_s * 2 ** (tries - 1), self._config.retry_limit_s))

    # Batch jobs

    def _submit(self, job: Job, tries: int, now_us: int) -> None:
        try:
            job_id = self._submissions.submit(job)
        except QsubError as error:
            self._log.count("qsub_errors")
            if isinstance(error, QsubUnreachableError) or tries < _REFUSALS:
                rank = EventPriority.SUBMIT if job.kind == Kind.BATCH else EventPriority.ARRIVAL
                self._add(now_us + self._pause_us(tries), rank, partial(self._submit, job, tries + 1))
            else:
                self._write("submit_failed", now_us, job, reason=str(error), tries=tries)
        else:
            self._write("submitted", now_us, job, job_id=job_id, tries=tries)

    def _announce(self, job: Job, now_us: int) -> None:
        """Tell the batch server's mechanism of an on-demand job that is to come."""
        command = [*self._config.qnotice, str(job.number)]
        environ = self._config.qsub_environment
        done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
        if done.returncode == 0:
            self._write("noticed", now_us, job)
        else:
            self._write("notice_failed", now_us, job, reason=done.stderr.strip())

    # Leases

    def _notice(self, job: Job, now_us: int) -> None:
        """Announce a lease: add_reserve(H, N) of the paper."""
        failure = self._add_reserve({"nodes": job.nodes, "notice_s": seconds(job.submit_us - now_us)})
        if failure:
            self._write("notice_failed", now_us, job, reason=failure)
        else:
            self._write("noticed", now_us, job)

    def _stand(self, place: int, body: dict[str, Any], _: int) -> None:
        """Make a reserve that comes again; once, also where the replay goes on."""
        failure = self._add_reserve(body, key=f"standing-{place}")
        if failure:
            raise RuntimeError(f"the Balancer makes no reserve of {body}: {failure}")

    def _add_reserve(self, body: dict[str, Any], key: str = "") -> str:
        return add_reserve(self._config.balancer_url, self._config.balancer_token, body, key)

    def _arrive(self, job: Job, cloud: Cloud, outage: Outage | None, now_us: int) -> None:
        try:
            cloud.create(job.lease_name, job.nodes)
        except CloudUnreachableError as error:
            self._ask_again(job, cloud, now_us, outage, error)
        except CloudError as error:
            self._write("lease_rejected", now_us, job, reason=str(error))
        else:
            self._add(now_us, EventPriority.WATCH, partial(self._look, job, cloud, None))

    def _ask_again(
        self, job: Job, cloud: Cloud, now_us: int, outage: Outage | None, error: CloudError
    ) -> None:
        """The cloud is away: what a patient user does. It may have heard the request, so that is looked at first."""
        outage = Outage(now_us) if outage is None else Outage(outage.since_us, outage.tries + 1)
        self._log.count("cloud_errors")
        _log.warning("cloud_failed", lease=job.number, error=str(error))
        again_us = now_us + self._pause_us(outage.tries)
        if again_us - outage.since_us > micros(self._config.give_up_s):
            self._give_up(job, cloud, now_us, str(error))
        else:
            self._add(again_us, EventPriority.ARRIVAL, partial(self._ask_once, job, cloud, outage))

    def _give_up(self, job: Job, cloud: Cloud, now_us: int, reason: str) -> None:
        """Reject a lease that may have been heard of; what it may have got is given back."""
        self._write("lease_rejected", now_us, job, reason=reason)
        self._add(now_us + self._pause_us(1), EventPriority.COMPLETION, partial(self._tidy, job, cloud, 1))

    def _tidy(self, job: Job, cloud: Cloud, tries: int, now_us: int) -> None:
        try:
            cloud.delete(cloud.state(job.lease_name, job.nodes).server_ids)
        except CloudError:
            if tries < _TIDY_TRIES:
                self._add(
                    now_us + self._pause_us(tries),
                    EventPriority.COMPLETION,
                    partial(self._tidy, job, cloud, tries + 1),
                )

    def _look(self, job: Job, cloud: Cloud, outage: Outage | None, now_us: int) -> None:
        """See what became of a lease that was asked for."""
        try:
            state = cloud.state(job.lease_name, job.nodes)
        except CloudError as error:
            self._ask_again(job, cloud, now_us, outage, error)
            return
        if state.fault is not None:
            self._write("lease_rejected", now_us, job, reason=state.fault)
            self._delete(cloud, state.server_ids, now_us, 1, lambda _: None)
        elif state.granted_us is not None:
            granted_us = max(state.granted_us, job.submit_us)
            hosts = {"hosts": state.hosts} if state.hosts else {}
            self._write("lease_granted", granted_us, job, nodes=job.nodes, **hosts)
            complete = partial(self._complete, job, cloud, state.server_ids)
            self._add(granted_us + job.run_us, EventPriority.COMPLETION, complete)
        else:
            look = partial(self._look, job, cloud, None)
            self._add(self._next_look_us(job, now_us), EventPriority.COMPLETION, look)

    def _next_look_us(self, job: Job, now_us: int) -> int:
        poll_us = micros(self._config.poll_s)
        next_us = now_us + (max(job.run_us, poll_us) if self._is_paced else poll_us)
        deadline_us = job.submit_us + micros(self._config.wait_s)
        return min(next_us, deadline_us) if deadline_us > now_us else next_us

    def _complete(self, job: Job, cloud: Cloud, server_ids: tuple[str, ...], now_us: int) -> None:
        self._delete(cloud, server_ids, now_us, 1, lambda at_us: self._write("lease_ended", at_us, job))

    def _delete(
        self, cloud: Cloud, server_ids: tuple[str, ...], now_us: int, tries: int, done: Callable[[int], None]
    ) -> None:
        """Delete servers, again and again until the cloud has heard it."""
        try:
            cloud.delete(server_ids)
        except CloudError as error:
            self._log.count("delete_errors")
            _log.warning("delete_failed", servers=server_ids, error=str(error))
            self._add(
                now_us + self._pause_us(tries),
                EventPriority.COMPLETION,
                lambda at_us: self._delete(cloud, server_ids, at_us, tries + 1, done),
            )
        else:
            done(now_us)


def check(config: ReplayerConfig, table: JobTable) -> None:
    """Raise SettingsError if this workload cannot be replayed with these settings."""
    if config.qnotice or config.takes_all:
        return
    if config.notice_s is not None and config.balancer_url is None:
        raise SettingsError("notice_s is set, so balancer_url is needed: notices go to the Balancer")
    if config.cloud is None and (table.kind == Kind.ON_DEMAND).any():
        raise SettingsError(
            f"{config.workload} has on-demand leases, so cloud is needed: where to ask for nodes"
        )


@click.command()
@config_option
def main(config_file: Path) -> None:
    """Submit a workload to a live fleet: batch jobs with qsub, leases with openstacksdk."""
    try:
        config = load_settings(config_file, ReplayerConfig)
        table = load(config.workload)
        check(config, table)
        clock: Clock = SystemClock() if config.clock is None else SharedClock(config.clock, name="replayer")
        replayer = Replayer(config, table, clock, ReplayLog(config.result, resume=config.resume))
    except (OSError, ValueError) as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(2) from error
    signal.signal(signal.SIGTERM, lambda *_: replayer.stop())
    signal.signal(signal.SIGINT, lambda *_: replayer.stop())
    replayer.connect()
    write_ready(config.ready_file)
    replayer.run()


if __name__ == "__main__":
    main()
