"""Settings of a replay: which workload goes where, and what happens when a batch system or cloud does not answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from balancer.plugin_files import Pluggable
from emulator.live.leases import CloudSettings
from emulator.live.qsub import SUBMITTERS, Qsub, Submitter
from emulator.live.settings import Settings
from emulator.plugins import KINDS, make_plugin


class ReplayerConfig(Pluggable, Settings):
    """Settings of one replay. Durations are cluster time.

    `wait_s` is the longest wait W of a lease; `notice_s` is how long before its arrival each lease is
    announced to the Balancer (None: not at all). `resume`: a replayer that was killed left a log; go on from there,
    with what is late by now at once. `origin_s` is the cluster time at which the trace starts
    (None: 0 on a shared clock, now on the system's).
    """

    plugin_kinds = KINDS

    workload: Path
    result: Path
    clock: Path | None = None
    ready_file: Path | None = None
    submit: str | dict[str, Any] | None = None
    """How jobs are submitted, a plug-in; None: with `qsub`."""
    qsub: tuple[str, ...] = ("qsub",)
    qsub_environment: dict[str, str] | None = None
    queue: str = "batch"
    qnotice: tuple[str, ...] = ()
    """The command that announces on-demand jobs to a batch server with a mechanism, which then gets these jobs, too."""
    takes_all: bool = False
    """On-demand jobs are submitted as all others are: who decides about them is with the batch system."""
    follow_clock: bool = False
    """Processes of jobs read the clock file themselves: nobody tells them the time."""
    orders: Path | None = None
    """With `follow_clock`: the folder where each of them finds its orders."""
    job_folder: Path | None = None
    """Submit processes instead of jobs that sleep; they write their output and checkpoints there."""
    program: Literal["emulator-job", "cpu-bound"] = "emulator-job"
    """Which processes."""
    cloud: CloudSettings | None = None
    wait_s: float = Field(default=0.0, ge=0)
    poll_s: float = Field(default=1.0, gt=0)
    """Leases that may still be granted are not looked at more often than this."""
    notice_s: float | None = Field(default=None, gt=0)
    balancer_url: str | None = None
    balancer_token: str | None = None
    reserves: tuple[dict[str, Any], ...] = ()
    """Capacity that comes again: bodies of calls that are made when the trace starts."""
    retry_s: float = Field(default=1.0, gt=0)
    """First pause before a failed call is repeated; doubled each time."""
    retry_limit_s: float = Field(default=60.0, gt=0)
    give_up_s: float = Field(default=3600.0, ge=0)
    """How long a cloud that does not answer is asked again about a lease before the lease counts as rejected."""
    origin_s: float | None = None
    resume: bool = False

    def submitter(self) -> Submitter:
        """Raises PluginError."""
        if self.submit is None:
            return Qsub(self.qsub, self.queue, self.qsub_environment)
        with self.plugged_in():
            made: Submitter = make_plugin(SUBMITTERS, self.submit)
        return made
