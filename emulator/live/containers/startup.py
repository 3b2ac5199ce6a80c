"""Who of a fleet may start, with which settings, and for whom everybody waits.

What a container is told is what any launcher tells its role (`emulator/live/roles.py`), and what only containers have:
names of hosts, ports, folders, and files of the user's, which come as texts.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests

from balancer.auth.hook_keys import HookKeyFile
from balancer.clock import micros, wall_us
from emulator.config.run_parts import OUR_BATCH_SYSTEM, OUR_MANAGER
from emulator.live.containers.control import NotYet
from emulator.live.launchers import Launcher
from emulator.live.names import (
    BALANCER,
    BALANCER_PORT,
    BATCH,
    BATCH_PORT,
    CONTROLLER,
    NODE,
    ONDEMAND,
    ONDEMAND_PORT,
    PREDICTOR,
    ROLES,
    SCRATCH,
    node_name,
    nodes_of,
    some_of,
)
from emulator.live.process import party_name
from emulator.live.roles import Places, RoleConfig
from emulator.live.torque.protocol import request
from emulator.live.torque.system import BatchServer
from emulator.runs.scenario import ScenarioError, load

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from balancer.plugin_files import PluginFile
    from emulator.live.roles import RunSettings
    from emulator.live.run_files import RunFiles, State
    from emulator.live.torque.protocol import Message
    from emulator.runs.scenario import Scenario

_LAUNCHER = Launcher(
    "a fleet in containers", "use `emulator run --clock live`",
    batch=OUR_BATCH_SYSTEM, ondemand=OUR_MANAGER, hooks="script", has_cpu_bound_jobs=False,
)  # fmt: skip

_PROFILES = {
    "slurm": "docker compose --profile slurm up --exit-code-from slurm slurm",
    "nova": "docker compose --profile nova up --exit-code-from nova nova",
}
"""Parts of a scenario that are real, and what runs them in containers."""


class ControllerError(Exception):
    """The run cannot begin; the text says why and what to do."""


def expected_nodes() -> int:
    """$FLEET_NODES, else how many containers the node service has: its name has an address for each."""
    text = os.environ.get("FLEET_NODES")
    if text:
        return int(text)
    service = os.environ.get("FLEET_NODE_SERVICE", NODE)
    try:
        found = {address[4][0] for address in socket.getaddrinfo(service, None, family=socket.AF_INET)}
    except OSError as error:
        raise ControllerError(f"there is no {service} to be found ({error}); set FLEET_NODES") from error
    return len(found)


def read_scenario() -> Scenario:
    """The scenario of $FLEET_SCENARIO with the changes of $FLEET_SET (KEY=VALUE, one a line or separated by spaces)."""
    path = Path(os.environ.get("FLEET_SCENARIO") or "/scenarios/fleet.yaml")
    return load(path, tuple(os.environ.get("FLEET_SET", "").split()))


def check_containers(scenario: Scenario, *, has_rest: bool = False) -> None:
    """Raise ScenarioError for what has no containers. Nothing has begun yet.

    `has_rest`: one container plays many nodes, whose hooks are in its agent.
    """
    real = [name for name in (scenario.live.batch_name, scenario.live.ondemand_name) if name in _PROFILES]
    why = f"{real[0]} has containers of its own: {_PROFILES[real[0]]}" if real else _LAUNCHER.why
    replace(_LAUNCHER, why=why).check(scenario)
    if has_rest and "hooks" in scenario.live.model_fields_set:
        raise ScenarioError(
            "live.hooks: nodes with a container of their own have scripts, those that one container plays have"
            " them in_process; leave it out, or give every node a container"
        )


# What a container is told.

PRIVATE = "/run/fleet"
COMMANDS = "/opt/batch/bin"
"""The batch system's commands in the images of those who use them, made when the image is."""
HOOKS = "/opt/batch/hooks"
BALANCER_URL, ONDEMAND_URL = f"http://{BALANCER}:{BALANCER_PORT}", f"http://{ONDEMAND}:{ONDEMAND_PORT}"
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - the container's own network; callers authenticate
_LISTENS: Mapping[str, Mapping[str, Any]] = {
    BATCH: {"host": _EVERYWHERE, "port": BATCH_PORT},
    BALANCER: {"host": _EVERYWHERE, "port": BALANCER_PORT, "log_level": "warning"},
    ONDEMAND: {"listen": _EVERYWHERE, "port": ONDEMAND_PORT},
}
NODE_CALLS: Mapping[str, Any] = {"home": f"{PRIVATE}/mom", "server": f"{BATCH}:{BATCH_PORT}"}
HOOK_SCRIPTS = {"prologue": f"{HOOKS}/prologue", "epilogue": f"{HOOKS}/epilogue"}


def container_places(shared: RunFiles, nodes: Sequence[str], ledger: str, token: str) -> Places:
    return Places(
        nodes,
        shared,
        ledger,
        commands=Path(COMMANDS),
        role_folder=Path(PRIVATE),
        job_folder=Path(SCRATCH),
        token=token,
        balancer_url=BALANCER_URL,
        ondemand_url=ONDEMAND_URL,
    )


def carried(role_config: RoleConfig, **process_settings: Any) -> dict[str, Any]:
    """What a role is told, as its container gets it. `process_settings`: where it listens, or whom it calls.

    Files of the user's are sent as they are now: they lie beside the settings in the container.
    """
    names, files = _private_copies(role_config.plugins)
    there = [
        each.model_copy(update={"file": Path(PRIVATE) / names[each.file]}) for each in role_config.plugins
    ]
    return {
        "config": role_config.config_with(there) | process_settings,
        "arguments": role_config.arguments_with(there),
        "environ": role_config.environ,
        "files": files | role_config.files,
    }


def hook_environment(nodes: Sequence[str]) -> dict[str, str]:
    """What hooks of a node read."""
    values = {
        "BALANCER_URL": BALANCER_URL,
        "BALANCER_HOOK_KEY_FILE": f"{PRIVATE}/hook.key",
        "BALANCER_MARKER": f"{PRIVATE}/handed-over",
    }
    inside = {"BALANCER_READY_FILE": f"{PRIVATE}/balancer.ready", "BALANCER_MARKER": f"{PRIVATE}/no-marker"}
    return values if len(nodes) == 1 else values | inside


def hook_files(keys: Mapping[str, str], nodes: Sequence[str]) -> dict[str, str]:
    """`keys`: of each node. Torque hands hook scripts none of its own environment."""
    exports = (f"export {name}={value}\n" for name, value in hook_environment(nodes).items())
    return {
        "hook.key": "".join(f"{name} {key}\n" for name, key in keys.items()),
        "hook.env": "".join(exports),
        "balancer.ready": json.dumps({"url": BALANCER_URL}),
    }


def _private_copies(plugins: Sequence[PluginFile]) -> tuple[dict[Path, str], dict[str, str]]:
    """Names of the user's files in the folder of a role's settings, and their texts, as they are now."""
    names = {
        file: f"{place}-{file.name}" for place, file in enumerate(dict.fromkeys(p.file for p in plugins))
    }
    return names, {name: file.read_text(encoding="utf-8") for file, name in names.items()}


# Who may start.

_ANSWERS = {
    BALANCER: (f"{BALANCER_URL}/healthz", "the Balancer"),
    ONDEMAND: (f"{ONDEMAND_URL}/identity/v3", "the on-demand manager"),
}
_ANSWER_S, _EXPORT_S = 20.0, 600.0
_START_S = 120.0


class ContainerBatch(BatchServer):
    """The batch server in its container."""

    def __init__(self, shared: RunFiles, state: State, *, batch_decides: bool) -> None:
        super().__init__(shared.batch_home, batch_decides=batch_decides)
        self._state = state
        self.seen_us = wall_us()
        """When (wall time) it was last heard of."""

    @property
    def names(self) -> Sequence[str]:
        return self._state.node_names

    def ask(self, what: str) -> Message:
        found = request((BATCH, BATCH_PORT), {"do": what}, _EXPORT_S if what == "export" else _ANSWER_S)
        self.seen_us = wall_us()
        return found


class StartupCoordinator:
    """Hands out settings to those that may start. Its methods may be called from any thread."""

    def __init__(
        self, shared: RunFiles, state: State, run_settings: RunSettings, batch: ContainerBatch
    ) -> None:
        self._shared = shared
        self._state = state
        self._run_settings = run_settings
        self._batch = batch
        self._has = run_settings.requirements.has
        self._keys = HookKeyFile(shared.hook_keys)
        self._lock = threading.RLock()
        self._waits: dict[str, str] = {}
        self._came: tuple[int, int] = (0, wall_us())
        """How many nodes had registered, and when (wall time) that changed last."""

    @property
    def ledger(self) -> str:
        return os.environ.get("FLEET_LEDGER") or str(self._shared.ledger)

    @property
    def waits_for(self) -> list[str]:
        """What somebody who asked for settings was told to wait for."""
        return sorted(set(self._waits.copy().values()))

    @property
    def parties(self) -> set[str]:
        """Who has a place at the clock when time begins, by the names that they have there."""
        return (set(filter(self._has, ROLES)) - {CONTROLLER, NODE}) | set(self._state.agents)

    def start_settings(self, role: str, name: str | None) -> dict[str, Any]:
        """The settings of a role that may start now. Raises NotYet, with what it waits for."""
        try:
            found = self._settings_of(role, name)
        except NotYet as error:
            self._waits[role] = str(error)
            raise
        self._waits.pop(role, None)
        return found

    def _settings_of(self, role: str, name: str | None) -> dict[str, Any]:
        for each in filter(self._has, ROLES[role].after):
            self._pass(each)
        if role == NODE:
            return self._of_node(name)
        if not self._has(role):
            return {"config": {}, "needed": False}
        expected = {"expect_nodes": self._state.nodes} if role == BATCH else {}
        return carried(self._told(role), **_LISTENS.get(role, {}), **expected)

    def _told(self, role: str) -> RoleConfig:
        """What a service is told by any launcher."""
        run_settings, places = self._run_settings, self._places
        if role == BATCH:
            return run_settings.batch(places)
        if role == BALANCER:
            return run_settings.balancer(places, run_settings.torque_driver(places))
        if role == PREDICTOR:
            return run_settings.predictor(places)
        if role == ONDEMAND:
            return run_settings.ondemand(places)
        leases = run_settings.leases(places) if self._has(ONDEMAND) else {}
        return run_settings.replayer(places, run_settings.torque_submitting(places), leases)

    @property
    def _places(self) -> Places:
        return container_places(self._shared, tuple(self._state.node_names), self.ledger, self._state.token)

    def _of_node(self, name: str | None) -> dict[str, Any]:
        if name is None:
            raise ValueError("a node must say its name")
        nodes, hooked = nodes_of(name), self._has(BALANCER)
        with self._lock:
            if (party := party_name(nodes)) not in self._state.agents:
                self._state.agents.append(party)
            # The first call makes the master key; the others are answered without a look at the file's lock.
            keys = {each: self._key_of(each) for each in nodes} if hooked else {}
        # One that plays many nodes has their hooks in itself: a process for each would be too much for it.
        scripts = HOOK_SCRIPTS if len(nodes) == 1 else None
        # A container that is gone takes its processes with it, as a node does.
        role_config = self._run_settings.node(nodes, is_the_node=True, hook_scripts=scripts)
        found = carried(role_config, **NODE_CALLS)
        if hooked:
            found |= {
                "files": hook_files(keys, nodes),
                "environ": hook_environment(nodes),
            }
        return found

    def _key_of(self, node: str) -> str:
        return (next(iter(self._keys.keys_of(node)), None) or self._keys.issue(node)).hex()

    def _pass(self, role: str) -> None:
        """Everybody starts after those it needs; once only, since later they may come and go."""
        with self._lock:
            if role not in self._state.passed:
                self._must_be_there(role)
                self._state.passed.append(role)
                self._state.save(self._shared.state)

    def _must_be_there(self, role: str) -> None:
        if role == BATCH:
            self._batch_is_whole()
        elif role == PREDICTOR:
            if not self._shared.ready(PREDICTOR).exists():
                raise NotYet("the predictor is not ready yet")
        else:
            _must_answer(*_ANSWERS[role])

    def _batch_is_whole(self) -> None:
        found = self.ask_batch("nodes")
        if not found["open"]:
            self._note_nodes(len(found["nodes"]))
            raise NotYet(_story(found["nodes"], found["expected"]))
        ready = self.ask_batch("state")
        if not ready["all_nodes_up"] and not found["missing"]:
            raise NotYet("not all nodes are up")  # the Balancer takes no node that is down
        self._state.node_names = list(found["nodes"])

    def _note_nodes(self, count: int) -> None:
        if count != self._came[0]:
            self._came = (count, wall_us())

    def lost_at_start(self) -> str:
        """Which nodes do not come, once no node has come for a while; '' as long as somebody does, or all are there."""
        if BATCH in self._state.passed or wall_us() - self._came[1] < micros(_patience_s()):
            return ""
        try:
            found = self.ask_batch("nodes")
        except NotYet as error:
            return f"{error}; no node has come for {_patience_s():g} s"
        self._note_nodes(len(found["nodes"]))
        if found["open"] or wall_us() - self._came[1] < micros(_patience_s()):
            return ""
        return f"{_story(found['nodes'], found['expected'])}, and no more for {_patience_s():g} s"

    def go_on_without_lost(self) -> list[str]:
        """Open the batch system with the nodes that have not come down; their names."""
        found = self.ask_batch("nodes")
        missing = _missing(found["nodes"], found["expected"])
        request((BATCH, BATCH_PORT), {"do": "open", "missing": missing}, _ANSWER_S)
        return missing

    def ask_batch(self, what: str) -> dict[str, Any]:
        """An answer of the batch server. Raises NotYet if there is none."""
        try:
            return self._batch.ask(what)
        except OSError as error:
            raise NotYet(f"the batch server does not answer: {error}") from error

    def unresponsive_services(self) -> set[str]:
        """Services that are asked for something as soon as time goes on, and do not answer (yet)."""
        return {role for role in _ANSWERS if self._has(role) and not self._is_there(role)}

    def _is_there(self, role: str) -> bool:
        try:
            self._must_be_there(role)
        except NotYet:
            return False
        return True


def _patience_s() -> float:
    """$FLEET_START_S (wall time): how long a fleet waits for the next of its nodes."""
    return float(os.environ.get("FLEET_START_S") or _START_S)


def _missing(came: list[str], expected: int) -> list[str]:
    """Who has not come, where nodes are called n001, n002, ...; else nobody can tell."""
    expected_names = [node_name(number) for number in range(1, expected + 1)]
    return sorted(set(expected_names) - set(came)) if set(came) <= set(expected_names) else []


def _story(came: list[str], expected: int) -> str:
    missing = _missing(came, expected)
    some = f"; {some_of(missing)} not yet" if came and missing else ""
    return f"{len(came)} of {expected} nodes have registered{some}"


def _must_answer(url: str, service: str) -> None:
    try:
        if requests.get(url, timeout=5).ok:
            return
    except requests.RequestException:
        pass  # said below
    raise NotYet(f"{service} does not answer yet")
