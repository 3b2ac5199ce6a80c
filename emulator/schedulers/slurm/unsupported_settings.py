"""What a slurm.conf says that Slurm's twin does not do, and what that would have done, each as a sentence.

Every key is in one of three tables: followed (`conf.py`), not followed, or of no meaning for who starts when. One that
is in none is told, too. The names are those of slurm.conf's manual page (25.11 and older ones), in lower case.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from balancer.nodelist import some
from emulator.config.node_names import default_node_names
from emulator.schedulers.slurm.conf import (
    FOLLOWED,
    FOLLOWED_OF_PARTITIONS,
    NO_FAIR_TREE,
    PARAMETERS,
    VERSION,
    priority_flags,
)
from emulator.schedulers.slurm.conf_lines import NODE, NODE_SET, PARTITION, own_names, read_lines, site_nodes
from emulator.schedulers.slurm.generic_resources import gpus_not_followed
from emulator.schedulers.slurm.node_sizes import threads_not_followed, weight_of
from emulator.schedulers.slurm.preemption_settings import is_known_type
from emulator.schedulers.slurm.preemption_settings import not_followed as mode_not_followed
from emulator.schedulers.slurm.releases import followed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from emulator.schedulers.slurm.conf_lines import Line
    from emulator.schedulers.slurm.select import SharedNodes

_MOST = 60
"""Characters of a value that are shown."""
_MEMORY = "memory is no reason to wait, unless `select` is set"
_NO_PREEMPTION = "the twin preempts by tiers and QOS in the default order"
_ASLEEP = "nodes never sleep in the twin, so no job waits for one to boot"
_SCRIPTS = "scripts take no time in the twin"
WHOLE_NODES = "jobs have whole nodes in the twin unless `select` is set"
_BY_SELECT = "in the twin jobs share nodes as `select` says"
_IF_SHARED = {
    WHOLE_NODES: _BY_SELECT,
    _MEMORY: "in the twin a job has the memory that it says, else all of its nodes",
}
"""What stands in place of these where jobs share nodes."""
_NO_FACTOR = "the twin knows no factor of a site's own"
_IN_A_ROW = "the twin chooses whole nodes by their place in a row"
_ANY_NUMBER = "the twin takes any number of jobs"
_WHO = "Slurm would refuse others; in the twin everybody may use it"
_NOT_FOLLOWED = {
    "selecttype": WHOLE_NODES,
    "selecttypeparameters": WHOLE_NODES,
    "preemptparameters": _NO_PREEMPTION,
    "schedulertimeslice": "jobs do not take turns on a node in the twin",
    "licenses": "the twin has no licences",
    "priorityweightassoc": "the twin has no associations",
    "priorityweighttres": "the twin has no weights of TRES",
    "priorityusageresetperiod": "Slurm would set all usage to 0 then; in the twin it only decays",
    "prioritysitefactorplugin": _NO_FACTOR,
    "prioritysitefactorparameters": _NO_FACTOR,
    "fairsharedampeningfactor": "the twin takes 1",
    "topologyplugin": "Slurm would keep a job on few switches; the twin chooses whole nodes by their place in a row",
    "topologyparam": _IN_A_ROW,
    "completewait": "Slurm would start no job for so long while nodes are cleaned up; the twin's are free at once",
    "grestypes": "no job waits for them in the twin, but for GPUs if `select` has some",
    "defmempercpu": _MEMORY, "defmempernode": _MEMORY, "maxmempercpu": _MEMORY, "maxmempernode": _MEMORY,
    "jobsubmitplugins": "what they change of a job at its submit is what the log says of it",
    "maxjobcount": _ANY_NUMBER,
    "maxarraysize": _ANY_NUMBER,
    "resvoverrun": "the twin ends jobs at their limit",
    "burstbuffertype": "data is moved in no time in the twin",
    "suspendprogram": _ASLEEP, "resumeprogram": _ASLEEP,
    "prolog": _SCRIPTS, "epilog": _SCRIPTS, "prologslurmctld": _SCRIPTS, "epilogslurmctld": _SCRIPTS,
    "federationparameters": "the twin is one cluster",
    "dependencyparameters": "the twin knows no dependencies between clusters",
    "downnodes": "the twin has these nodes up",
}  # fmt: skip
_NOTHING = {
    "selecttype": {"select/linear"},
    "topologyplugin": {"topology/none", "topology/default", "topology/flat"}, "priorityusageresetperiod": {"none"},
    "fairsharedampeningfactor": {"1"}, "burstbuffertype": {"none"},
}  # fmt: skip
"""Values, besides 0 and none at all, that are what the twin does."""
_OF_PARTITIONS = {
    "allowgroups": _WHO, "allowaccounts": _WHO, "denyaccounts": _WHO, "allowqos": _WHO, "denyqos": _WHO,
    "allowallocnodes": _WHO, "rootonly": _WHO, "reqresv": _WHO,
    "alternate": "no job moves to another partition in the twin",
    "maxcpuspernode": "Slurm would use no more of a node; jobs have whole nodes in the twin unless `select` is set",
    "maxcpuspersocket": WHOLE_NODES,
    "oversubscribe": WHOLE_NODES,
    "shared": WHOLE_NODES,
    "selecttypeparameters": WHOLE_NODES,
    "cr_socket": WHOLE_NODES,
    "lln": _IN_A_ROW,
    "exclusiveuser": WHOLE_NODES,
    "exclusivetopo": "the twin has no switches",
    "topology": "the twin has no switches",
    "overtimelimit": "OverTimeLimit is that of the whole file in the twin",
    "defaulttime": "a job whose limit is unknown has its run time as limit",
    "defmempercpu": _MEMORY, "defmempernode": _MEMORY, "maxmempercpu": _MEMORY, "maxmempernode": _MEMORY,
    "defcpupergpu": _MEMORY, "defmempergpu": _MEMORY, "jobdefaults": _MEMORY,
    "tresbillingweights": "usage is counted in nodes in the twin",
    "suspendtime": _ASLEEP, "suspendtimeout": _ASLEEP, "resumetimeout": _ASLEEP, "powerdownonidle": _ASLEEP,
}  # fmt: skip
_NOTHING_OF_PARTITIONS = {
    "oversubscribe": {"exclusive"}, "shared": {"exclusive"}, "allowgroups": {"all"},
    "allowaccounts": {"all"}, "allowqos": {"all"}, "allowallocnodes": {"all"}, "denyaccounts": {"none"},
    "denyqos": {"none"}, "defaulttime": {"none"}, "alternate": {"none"},
}  # fmt: skip
_NO_MEANING_OF_PARTITIONS = {"disablerootjobs", "hidden", "cpubind", "resumefailprogram", "reason"}
_WORDS = {
    "assoc_limit_stop": "a job at a limit holds nobody up in the twin",
    "max_job_bf": "Slurm calls it bf_max_job_test since 14.03",
    "batch_sched_delay": "a submit starts a pass at once in the twin",
    "delay_boot": "no node boots for a feature in the twin",
    "max_switch_wait": "the twin has no switches",
    "pack_serial_at_end": _IN_A_ROW,
    "reduce_completing_frag": "a job that ends leaves its nodes at once in the twin",
    "requeue_delay": "a job waits 121 s after it lost a node",
    "defer_batch": "the main loop looks at jobs of all kinds at their submit in the twin",
    "max_sched_time": "a pass takes no time in the twin",
    "allow_zero_lic": "the twin has no licences",
    "time_min_as_soft_limit": "a job has one limit in the twin",
    "preempt_strict_order": _NO_PREEMPTION, "preempt_youngest_first": _NO_PREEMPTION,
    "preempt_reorder_count": _NO_PREEMPTION, "preempt_send_user_signal": _NO_PREEMPTION,
    "extra_constraints": "the twin knows features alone",
    "spec_cores_first": WHOLE_NODES,
}  # fmt: skip
_WORDS_OF_NO_MEANING = re.compile(
    r"bf_(yield_\w+|max_time|window_linear|busy_nodes|running_job_reserve|licenses)|max_rpc_cnt|build_queue_timeout"
    r"|correspond_after_task_cnt|default_gbytes|disable_\w+|enable_\w+|ignore_\w+|inventory_interval"
    r"|kill_invalid_depend|max_(array_tasks|depend_depth|script_size|submit_line_size)|no_(backup_scheduling|env_cache)"
    r"|nohold_on_prolog_fail|requeue_(setup_env_fail|on_resume_failure)|salloc_wait_nodes|sbatch_wait_nodes"
    r"|permit_job_expansion|step_retry_\w+|whole_hetjob|whole_pack|bb_array_stage_cnt|unavail_gres_\w+"
)
"""Words of SchedulerParameters; a cycle takes no time, and `bf_window_linear` was recorded to change nothing."""
_NO_MEANING = re.compile(
    r"accounting.*|acct.*|auth.*|backup.*|batchstarttimeout|bcast.*|cachegroups|certgen.*|certmgr.*|checkpoint.*|cli.*"
    r"|cloud.*|clustername|communicationparameters|control(addr|machine)|core.*|cpufreq.*|cred.*|crypto.*|data.*|defaultstorage.*"
    r"|debugflags|disablerootjobs|enforcepartlimits|epilogmsgtime|epilogtimeout|ext.*|fastschedule|firstjobid"
    r"|frontend.*|getenvtimeout|gpufreqdef|group.*|hash.*|healthcheck.*|http.*|inactivelimit|interactive.*|job(acct|comp"
    r"|container|credential|checkpoint).*|jobfileappend|keepalivetime|killonbadexit|launch.*|logtimeformat|mail.*"
    r"|max(batchrequeue|dbdmsgs|jobid|nodecount|stepcount|taskspernode)|mcs.*|metrics.*|minjobage|mpi.*"
    r"|namespace.*|node(featuresplugins|name)|nodeset|overmemorykill|plug.*|power.*|prep.*|privatedata|proctrack.*"
    r"|prolog(epilog.*|flags|timeout)|propagate.*|reboot.*|reconfig.*|requeueexit.*|resume(fail.*|rate|timeout)"
    r"|resv(epilog|prolog)|returntoservice|route.*|sallocdefaultcommand|sbcast.*|scheduler(auth|port|rootfilter)|scron.*"
    r"|slurm.*|srun.*|statesavelocation|suspend(exc.*|rate|time|timeout)|switch.*|task.*|tcptimeout|tls.*|tmpfs"
    r"|track.*|tree.*|unkillable.*|url.*|usepam|usespeculative.*|vsizefactor|waittime|x11.*|max.*tres.*|job.*checkpoint.*"
    r"|boot_time|eiotimeout|hash_val|multiple_slurmd|next_job_id|disable.*|allowspec.*|usempi.*|salloc.*|sched.*debug|sched.*log.*|gres.*plugin.*|license(params|parameters)",
    re.IGNORECASE,
)
_FLAGS = {
    NO_FAIR_TREE: "Slurm would take the usage of accounts as it was a PriorityCalcPeriod before; the twin takes all as"
    " it is then",
}
"""What of a word of PriorityFlags that is followed is not."""
_SCHEDULERS = ("sched/backfill", "sched/builtin")
_OF_NODES = {
    NODE, "nodehostname", "nodeaddr", "bcastaddr", "boards", "corespeccount", "corespersocket", "cpubind", "cpus",
    "cpuspeclist", "feature", "features", "gres", "memspeclimit", "parameters", "port", "procs", "realmemory", "reason",
    "sockets", "socketsperboard", "state", "threadspercore", "tmpdisk", "topology", "weight",
}  # fmt: skip
"""Keys of NodeName lines that are followed, or have no meaning for who starts when."""
_UP = ("unknown", "idle", "cloud", "")


def not_followed(path: Path, shared: SharedNodes | None = None) -> tuple[str, ...]:
    """What this slurm.conf says of who starts when that the twin does not do. Raises ConfError.

    `shared`: what its nodes have in the twin, if jobs share them.
    """
    by_select = {} if shared is None else _said_by(shared)
    lines = read_lines(path)
    found: list[str] = []
    for line in lines:
        if line.name == PARTITION:
            found += _of_partition(line, shared)
        elif line.name == "schedulerparameters":
            found += _of_parameters(line.value)
        elif line.name == VERSION and not line.value.startswith(f"{followed(line.value)}."):
            found.append(f"{line.key}={line.value}: the twin goes by the rules of {followed(line.value)}")
        elif line.name == "schedulertype" and line.value.lower() not in _SCHEDULERS:
            found.append(f"{line.key}={line.value}: the twin knows it not, and takes {_SCHEDULERS[0]}")
        elif line.name == "priorityflags":
            found += (
                f"{line.key}={word}: {_FLAGS.get(word, 'Slurm would work priorities out by it; the twin does not')}"
                for word in priority_flags(line.value)
                if word != "FAIR_TREE"
            )
        elif line.name == "preempttype" and not is_known_type(line.value):
            found.append(f"{line.key}={line.value}: {_NO_PREEMPTION}")
        elif line.name == "preemptmode" and (why := mode_not_followed(line.value)):
            found.append(f"{line.key}={line.value}: {why}")
        elif line.name not in {NODE, NODE_SET, *FOLLOWED}:
            found += _of_setting(line, by_select)
    found += _of_nodes(lines)
    gpus: dict[str, int] = {}
    if shared is not None:
        names = own_names(lines, default_node_names(len(shared.sizes)))
        gpus = {name: size.gpus for name, size in zip(names, shared.sizes, strict=True)}
        found += _of_weights(lines, dict(zip(names, shared.weights, strict=True)))
        found += threads_not_followed(lines)
        for whole, parts in _IF_SHARED.items():
            found = [each.replace(whole, parts) for each in found]
    found += gpus_not_followed(lines, path, gpus)
    return tuple(f"{path.name}: {each}" for each in dict.fromkeys(found))


def _said_by(shared: SharedNodes) -> dict[str, str]:
    """The value of each key that says what `select` says."""
    gpus = {"grestypes": "gpu"} if shared.has_gpus else {}
    return {"selecttype": "select/cons_tres", "selecttypeparameters": shared.parameters, **gpus}


def _of_setting(line: Line, by_select: Mapping[str, str]) -> Iterator[str]:
    why = _NOT_FOLLOWED.get(line.name)
    if line.name in by_select:
        if line.value.lower() != by_select[line.name].lower():
            yield f"{line.key}={_short(line.value)}: the twin takes {by_select[line.name]}"
    elif why is not None:
        if not _says_nothing(line.value, _NOTHING.get(line.name, set())):
            yield f"{line.key}={_short(line.value)}: {why}"
    elif not _NO_MEANING.fullmatch(line.key):
        yield f"{line.key}={_short(line.value)}: no key that is known here, so what it would have done is not"


def _of_parameters(value: str) -> Iterator[str]:
    for word in (each.strip().partition("=")[0] for each in value.strip('"').split(",")):
        name = word.lower()
        if not word or name in PARAMETERS or _WORDS_OF_NO_MEANING.fullmatch(name):
            continue
        if name in _WORDS:
            yield f"{word}: {_WORDS[name]}"
        elif name.startswith("bf_"):
            yield f"{word}: the twin does not do that"
        else:
            yield f"{word}: no word of SchedulerParameters that is known here, so what it would have done is not"


def _of_partition(line: Line, shared: SharedNodes | None) -> Iterator[str]:
    who = f"partition {line.words[PARTITION]}"
    for key, value in line.words.items():
        said = f"{who}: {line.spelt.get(key, key)}={_short(value)}"
        if key == "preemptmode" and (why := mode_not_followed(value)):
            yield f"{said}: {why}"
        elif key in _OF_PARTITIONS:
            if shared is not None and value.lower() == "exclusive":
                yield f"{said}: in the twin a job has the cores that it says"
            elif not _says_nothing(value, _NOTHING_OF_PARTITIONS.get(key, set())):
                yield f"{said}: {_OF_PARTITIONS[key]}"
        elif key not in FOLLOWED_OF_PARTITIONS and key not in _NO_MEANING_OF_PARTITIONS:
            yield f"{said}: no key that is known here, so what it would have done is not"


def _of_nodes(lines: Sequence[Line]) -> Iterator[str]:
    """Nodes that are down by the file, or to come."""
    nodes = site_nodes(lines)
    down = [name for name, line in nodes.items() if _state(line) not in _UP]
    if down:
        states = "/".join(sorted({_state(nodes[name]).upper() for name in down}))
        yield f"State={states} of {some(down, 5)}: the twin has these nodes up"
    if to_come := list(site_nodes(lines, to_come=True)):
        yield f"State=FUTURE of {some(to_come, 5)}: the twin has no nodes that are still to come"
    for line in {line.place: line for line in nodes.values()}.values():
        yield from _of_node_line(line)


def _of_node_line(line: Line) -> Iterator[str]:
    for key, value in line.words.items():
        said = f"NodeName={_short(line.words[NODE])}: {line.spelt.get(key, key)}={_short(value)}"
        if key == "restrictedcorespergpu":
            yield f"{said}: Slurm would keep these cores for jobs with GPUs; in the twin any job may have them"
        elif key not in _OF_NODES:
            yield f"{said}: no key that is known here, so what it would have done is not"


def _of_weights(lines: Sequence[Line], followed: Mapping[str, int]) -> Iterator[str]:
    """Weights that are not those of the twin, by node."""
    said = {name: weight_of(line) for name, line in site_nodes(lines).items()}
    if any(followed[name] != weight for name, weight in said.items()):
        weights = ",".join(map(str, sorted({*said.values()})))
        yield f"Weight={weights}: in the twin nodes have the weights of `select`"


def _state(line: Line) -> str:
    return line.words.get("state", "").lower().rstrip("*$~#%")


def _says_nothing(value: str, values: set[str]) -> bool:
    said = value.strip('"').lower()
    return said in {"", "0", "no", "(null)", "unlimited", "infinite", *values}


def _short(value: str) -> str:
    return value if len(value) <= _MOST else f"{value[: _MOST - 1]}…"
