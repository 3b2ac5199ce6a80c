"""What each role of a live run is told when it starts: said here, and nowhere else.

Two launchers carry it: `emulator/live/fleet.py` to processes of one machine, `emulator/live/containers/startup.py` to
containers. They say where things are (`Places`) and add where a server listens. Everything else, from the reserve to
the seed, follows from the scenario. Batch systems and clouds of others (Slurm, Nova) put their own part in its place.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from balancer.auth.identity import Role
from balancer.auth.tokens import TokenFile
from balancer.clock import micros, seconds, utc_us
from balancer.plugin_files import files_of
from balancer.plugins import ALGORITHMS, IN_USE, PREDICTORS
from emulator.clock.clock_master import SharedClockMaster
from emulator.live.qsub import SUBMITTERS
from emulator.mechanisms.balancer.windows import zero_us

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from balancer.plugin_files import PluginFile
    from emulator.config.run_parts import LivePart
    from emulator.live.run_files import RunFiles
    from emulator.live.run_requirements import RunRequirements
    from emulator.mechanisms.balancer import BalancerMechanism
    from emulator.mechanisms.balancer.forecast import PredictorSettings
    from emulator.runs.scenario import Scenario
    from emulator.workload.table import JobTable

EPOCH_S = 1_767_225_600
"""The unix time of cluster time 0, where the batch system is ours."""
BEFORE = "before.json"
"""The predictor's file of the slots before time 0."""
_RECONCILE_S = 6 * 3600.0
_DAY_S = 86_400
_CONFIRM_LIMIT_S = 2.0
"""Wall time in which our own batch server obeys for sure, where its nodes fail: the clock stands meanwhile."""
_RELEASE_LINGER_S = 10.0
"""Wall time that the manager waits for the other servers of a lease: on a busy machine each deletion takes a while."""
_HOOK_INSIDE = "emulator.live.hooks:balancer_hook"

Part = tuple[dict[str, Any], dict[str, str]]
"""What a batch system adds to a role's settings, and to the environment of its process."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are in a run, as the role sees them that is told of them.

    `nodes`: their names; `ledger`: file or URL; `commands`: folder of the batch system's; `role_folder`: folder in
    which the role finds files of its own; `job_folder`: what jobs print, and their checkpoints; `token`: with which
    services call the Balancer.
    """

    nodes: Sequence[str]
    files: RunFiles
    ledger: Path | str
    commands: Path
    role_folder: Path
    job_folder: Path
    token: str
    balancer_url: str = ""
    ondemand_url: str = ""

    def command(self, name: str) -> str:
        return str(self.commands / name)


@dataclass(frozen=True, slots=True)
class RoleConfig:
    """What a role is told, the same whoever starts it.

    `config`: the settings of its program; `environ`: of its process; `arguments`: on its command line, if it has no
    settings; `files`: name -> text, in a folder of its own; `plugins`: files of the user's that it loads.
    """

    config: dict[str, Any] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    plugins: tuple[PluginFile, ...] = ()

    def config_with(self, plugins: Sequence[PluginFile]) -> dict[str, Any]:
        """The settings with the user's files, which lie where these say."""
        if self.arguments or not plugins:
            return self.config
        return self.config | {"plugins": [each.model_dump(mode="json") for each in plugins]}

    def arguments_with(self, plugins: Sequence[PluginFile]) -> list[str]:
        """The same on the command line of a role that has no settings."""
        return [*self.arguments, *(f"--plugin={each.source}" for each in plugins if self.arguments)]


@dataclass(frozen=True, slots=True)
class RunSettings:
    """A run, as far as its roles are told of it.

    `comes_back`: its processes must be able to go on where others of their kind have ended.
    """

    scenario: Scenario
    requirements: RunRequirements
    jobs: JobTable
    comes_back: bool

    def batch(self, places: Places) -> RoleConfig:
        """Our batch server, but for its nodes (names, or how many will register) and where it listens."""
        config: dict[str, Any] = {
            "home": str(places.files.batch_home),
            "np": self.requirements.slots_per_node,
            "scheduler": self._scheduler(),
            "epoch_s": EPOCH_S,
            "cycle_after_offline": True,
        }
        if self.comes_back:
            # A replayer that was killed asks what became of the job that it was about to submit.
            config |= {"keep_jobs": True, "keep_completed_s": _DAY_S}
        if self.requirements.batch_decides:
            config |= {
                "mechanism": self.scenario.mechanism,
                "workload": str(places.files.workload),
                "queues": ["batch", "ondemand"],
                "seed": self.scenario.seed,
            }
        if self.scenario.failures is not None:
            failures = self.scenario.failures.model_dump(mode="json")
            config |= {"failures": failures, "seed": self.scenario.seed}
        return RoleConfig(config, plugins=tuple(self.scenario.plugins))

    def _scheduler(self) -> dict[str, Any]:
        config = asdict(self.scenario.scheduler_config)
        return {("pass" if key == "pass_" else key): value for key, value in config.items()}

    def node(
        self, nodes: Sequence[str], *, is_the_node: bool, hook_scripts: Mapping[str, str] | None
    ) -> RoleConfig:
        """The agent that plays `nodes`, but for where its home and its server are.

        `is_the_node`: whoever kills it kills the node with all that runs there. `hook_scripts`: prologue and epilogue;
        None: they are in the agent itself.
        """
        config: dict[str, Any] = {
            "nodes": list(nodes),
            "np": self.requirements.slots_per_node,
            "walltime_check_s": 0,
            "ends_at_walltime": self.scenario.workload.overrun != "run_on",
        }
        if is_the_node:
            config["restart"] = "requeue"
        if self.requirements.balancer is not None:
            inside = {"kind": "python", "prologue": _HOOK_INSIDE, "epilogue": _HOOK_INSIDE}
            config["hooks"] = inside if hook_scripts is None else {"kind": "script", **hook_scripts}
        return RoleConfig(config)

    def balancer(self, places: Places, batch: Part, cloud: Mapping[str, Any] | None = None) -> RoleConfig:
        """The Balancer, but for where it listens. `batch` and `cloud`: what those two make of it."""
        mechanism, (driver, environ) = self.needed_balancer, batch
        config = {
            "nodes": list(places.nodes),
            "algorithm": mechanism.algorithm,
            "reserve": mechanism.static_reserve,
            "reserve_rule": mechanism.reserve_rule,
            "wait_s": mechanism.wait_s,
            "idle_reserve_s": mechanism.idle_reserve_s,
            "pick": mechanism.pick,
            "db": str(places.ledger),
            "auth": True,
            "token_file": str(places.files.tokens),
            "hook_key_file": str(places.files.hook_keys),
            "hook_skew_s": 3600,
            "rate_per_s": 0,  # cluster time runs fast: nobody here calls too often
            "clock": {"shared": {"path": str(places.files.clock), "name": "balancer"}},
            "reconcile_period_s": _RECONCILE_S,
            "refresh_age_s": 0,
            "at_once_s": 3600,  # time may run far faster than the programs
            "confirm_s": 3600,
            "mark_wait_s": 60,
        }
        if self.scenario.failures is not None:
            config |= {
                "reconcile_period_s": mechanism.reconcile_period_s,
                "failed_after_s": mechanism.failed_after_s,
                "confirm_limit_s": _CONFIRM_LIMIT_S,
            }
        if mechanism.every:
            config["calendar_origin_s"] = seconds(zero_us(mechanism.time_zero))
        return RoleConfig(config | dict(cloud or {}) | driver, environ, plugins=self._plugins(ALGORITHMS))

    def ondemand(self, places: Places) -> RoleConfig:
        """Our on-demand manager, but for where it listens."""
        mechanism = self.needed_balancer
        config = {
            "clock": str(places.files.clock),
            "balancer_url": places.balancer_url,
            "balancer_token": places.token,
            "wait_s": mechanism.wait_s,
            "hosts": list(places.nodes),
            "quota": {"instances": -1},
            "release_linger_s": self._release_linger_s,
            **mechanism.cloud_settings,
        }
        if self.scenario.failures is not None:
            config |= {
                "on_failure": mechanism.on_failure,
                "reconcile_period_s": mechanism.reconcile_period_s,
            }
        if self.comes_back:
            config["memory"] = str(places.files.ondemand_memory)
        return RoleConfig(config)

    @property
    def _release_linger_s(self) -> float:
        """The clock stands meanwhile, and is not kept by anybody for longer than its patience (0: without end)."""
        patience_s = self.scenario.live.patience_s
        return min(_RELEASE_LINGER_S, patience_s / 2) if patience_s else _RELEASE_LINGER_S

    def predictor(self, places: Places) -> RoleConfig:
        """The service's own `balancer predict`, which knows nothing but the API and the slots before time 0."""
        predictor = self.needed_predictor
        last_submit_us = int(self.jobs.submit_us.max(initial=0))
        clock = {"shared": {"path": str(places.files.clock), "rank": "forecast", "name": "predictor"}}
        arguments = (
            "--url", places.balancer_url,
            "--predictor", json.dumps(predictor.predictor),
            "--slots-per-day", str(predictor.slots.a_day), "--keep", predictor.keep,
            "--before", str(places.role_folder / BEFORE), "--until-s", repr(seconds(last_submit_us)),
            "--clock", json.dumps(clock),
            "--ready-file", str(places.files.ready("predictor")),
        )  # fmt: skip
        before = json.dumps({"slots": [{"nodes_requested": nodes} for nodes in predictor.history]})
        environ = {"BALANCER_TOKEN": places.token}
        return RoleConfig({}, environ, arguments, {BEFORE: before}, self._plugins(PREDICTORS))

    def replayer(self, places: Places, batch: Part, leases: Mapping[str, Any] | None = None) -> RoleConfig:
        """`batch`: how jobs are submitted; `leases`: how leases are asked for, where there is a cloud."""
        submitting, environ = batch
        config: dict[str, Any] = {
            "workload": str(places.files.workload),
            "result": str(places.files.replay_log),
            "clock": str(places.files.clock),
            "ready_file": str(places.files.ready("replayer")),
            "resume": self.comes_back,
        }
        if self.scenario.live.jobs != "sleep":
            config |= {"job_folder": str(places.job_folder), "program": self.scenario.live.jobs}
        return RoleConfig(
            config | submitting | dict(leases or {}), environ, plugins=self._plugins(SUBMITTERS)
        )

    def leases(self, places: Places) -> dict[str, Any]:
        """Of the replayer, where the cloud is one like ours: how leases are asked for.

        Where a lease does not begin when it is granted, or may end before its time, it is known by its hosts, which
        administrators see.
        """
        mechanism = self.needed_balancer
        knows_hosts = bool(mechanism.cloud_settings) or self.scenario.failures is not None
        account = {"username": "admin", "project": "admin"} if knows_hosts else {}
        return {
            "cloud": {"auth_url": f"{places.ondemand_url}/identity/v3"} | account,
            "wait_s": mechanism.wait_s,
            "balancer_url": places.balancer_url,
            "balancer_token": places.token,
            "notice_s": mechanism.notice_s or None,
            "reserves": [each.body for each in mechanism.standing()],
        }

    def torque_driver(self, places: Places) -> Part:
        """How the Balancer drives our batch server, and as whom."""
        programs: dict[str, Any] = {name: places.command(name) for name in ("pbsnodes", "qmgr")}
        # The server is ours alone: nobody else could claim its nodes.
        return {"driver": {"torque": programs | {"claim": False}}, "confirm_poll_s": 0.005}, {
            "TORQUE_USER": "root"
        }

    def torque_submitting(self, places: Places) -> Part:
        """How the replayer submits jobs to our batch server, and as whom."""
        config: dict[str, Any] = {"qsub": [places.command("qsub")]}
        if self.requirements.batch_decides:
            notice = self.requirements.notice
            notice_s = None if notice is None else seconds(notice.notice_us) or None
            config |= {"qnotice": [places.command("qnotice")], "notice_s": notice_s}
        return config, {"TORQUE_USER": "alice"}

    @property
    def needed_balancer(self) -> BalancerMechanism:
        """For roles that there are only beside a Balancer."""
        assert self.requirements.balancer is not None  # noqa: S101 - else nobody starts the role
        return self.requirements.balancer

    @property
    def needed_predictor(self) -> PredictorSettings:
        """For the role that there is only where the Balancer has forecasts."""
        assert self.needed_balancer.forecasts is not None  # noqa: S101 - else nobody starts the role
        return self.needed_balancer.forecasts

    def _plugins(self, group: str) -> tuple[PluginFile, ...]:
        """The plug-ins of this kind that files bring."""
        with self.scenario.plugged_in():
            return files_of(IN_USE.get(), (group,))


def new_clock(live: LivePart, path: Path, slots: int) -> SharedClockMaster:
    """The clock of a run that begins, with so many places for those who are at work."""
    return SharedClockMaster(
        path, speed=live.speed, held=live.pace == "held", slots=slots, patience_us=micros(live.patience_s)
    )


def resumed_clock(live: LivePart, path: Path) -> SharedClockMaster:
    """The clock of a run that goes on, at the time at which it stood still."""
    return SharedClockMaster.resume(path, patience_us=micros(live.patience_s))


def issue_token(files: RunFiles) -> str:
    """With which manager and replayer call the Balancer."""
    return TokenFile(files.tokens).create(Role.ON_DEMAND, "fleet", now_us=utc_us())[1]
