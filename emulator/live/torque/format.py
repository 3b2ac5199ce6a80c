"""What qstat and pbsnodes print: pure functions from jobs and nodes to Torque's text and XML, blanks included."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from balancer.clock import US
from emulator.live.torque.jobs import PbsState, clock_text
from emulator.live.torque.nodes import slots_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from emulator.live.torque.jobs import Job
    from emulator.live.torque.nodes import Node

REPORT_INTERVAL_US = 45 * US
"""How often a mom reports to the server (`$status_update_time`); what it knows is up to that old."""

_FOLD_AT = 78
_FOLD_TO = 71


class Moment(int):
    """A point in time, in unix seconds: text output shows it as ctime(), XML as it is."""


Attributes = list[tuple[str, "str | Moment"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the formatting needs to know of the server."""

    server: str
    queues: tuple[str, ...]
    epoch_us: int
    now_us: int
    last_pass_us: int
    nodes: Sequence[Node]

    def moment(self, time_us: int) -> Moment:
        return Moment((self.epoch_us + time_us) // US)

    def job_id(self, job: Job) -> str:
        return f"{job.number}.{self.server}"

    def exec_host(self, job: Job) -> str:
        return "+".join(
            f"{self.nodes[index].name}/{slots_text(job.slots_on(index))}" for index in job.exec_nodes
        )


def ctime(moment: int) -> str:
    """A date as C prints it, in UTC."""
    return f"{datetime.fromtimestamp(moment, UTC):%a %b %e %H:%M:%S %Y}"


def started_comment(moment: int) -> str:
    return f"Job started on {datetime.fromtimestamp(moment, UTC):%a %b %d at %H:%M}"


# One job in full (qstat -f, -x).


def job_attributes(job: Job, view: View) -> Attributes:
    """Every attribute that qstat -f shows, in Torque's order; `a.b` is resource b of attribute a."""
    request, has_begun = job.request, job.start_us >= 0
    remaining_us = request.walltime_us - (view.now_us - job.start_us)
    # None: not shown of this job.
    found: list[tuple[str, str | Moment | None]] = [
        ("Job_Name", request.name),
        ("Job_Owner", f"{request.user}@{view.server}"),
        *((f"resources_used.{name}", value) for name, value in _reported_usage(job, view)),
        ("job_state", job.state.value),
        ("queue", request.queue),
        ("server", view.server),
        ("Account_Name", request.account or None),
        ("Checkpoint", "u"),
        ("ctime", view.moment(job.ctime_us)),
        ("Error_Path", _path(request.error_path, "e", job, view)),
        ("exec_host", view.exec_host(job) or None),
        ("Hold_Types", "u" if job.user_hold else "n"),
        ("Join_Path", request.join),
        ("Keep_Files", request.keep),
        ("Mail_Points", request.mail_points),
        ("mtime", view.moment(job.mtime_us)),
        ("Output_Path", _path(request.output_path, "o", job, view)),
        ("Priority", str(request.priority)),
        ("qtime", view.moment(job.ctime_us)),
        ("Rerunable", str(request.rerunnable)),
        *((f"Resource_List.{name}", value) for name, value in request.resources),
        ("session_id", None if job.session is None else str(job.session)),
        ("Variable_List", ",".join(f"{name}={value}" for name, value in request.variables)),
        ("euser", request.user),
        ("egroup", request.group),
        ("queue_type", "E"),
        ("comment", job_comment(job, view) or None),
        ("etime", view.moment(job.etime_us) if job.etime_us >= 0 else None),
        ("exit_status", None if job.exit_status is None else str(job.exit_status)),
        ("submit_args", request.submit_args),
        ("start_time", view.moment(job.start_us) if has_begun else None),
        ("Walltime.Remaining", str(remaining_us // US) if has_begun and not job.over else None),
        ("start_count", str(job.run) if job.run else None),
        ("fault_tolerant", "False"),
        ("comp_time", view.moment(job.end_us) if job.over else None),
        ("job_radix", "0"),
        ("total_runtime", f"{(job.end_us - job.start_us) / US:.6f}" if has_begun and job.over else None),
        ("submit_host", view.server),
        ("init_work_dir", request.workdir),
        ("request_version", "1"),
    ]
    return [(name, value) for name, value in found if value is not None]


def job_comment(job: Job, view: View) -> str:
    if job.comment or job.state != PbsState.QUEUED or job.etime_us > view.last_pass_us:
        return job.comment
    return "Not Running: Not enough of the right type of nodes are available"


def usage(job: Job) -> list[tuple[str, str]]:
    """Resources used by a job that is over; only the wall time is measured."""
    return [
        ("cput", "0"),
        ("vmem", "0kb"),
        ("walltime", clock_text(max(job.end_us - job.start_us, 0))),
        ("mem", "0kb"),
        ("energy_used", "0"),
    ]


def _reported_usage(job: Job, view: View) -> list[tuple[str, str]]:
    if job.over:
        return (
            [(name, clock_text(0) if name == "cput" else v) for name, v in usage(job)] if job.session else []
        )
    reported_us = view.now_us // REPORT_INTERVAL_US * REPORT_INTERVAL_US - job.start_us
    if job.start_us < 0 or reported_us < 0 or view.now_us - job.start_us < REPORT_INTERVAL_US:
        return []
    return [
        ("cput", "00:00:00"),
        ("energy_used", "0"),
        ("mem", "0kb"),
        ("vmem", "0kb"),
        ("walltime", clock_text(reported_us)),
    ]


def _path(path: str, letter: str, job: Job, view: View) -> str:
    path = path or f"{job.request.name}.{letter}{job.number}"
    if not path.startswith("/"):
        path = f"{job.request.workdir.rstrip('/')}/{path}"
    return f"{view.server}:{path}"


def fold(head: str, value: str, *, one_line: bool) -> str:
    """`    name = value`, folded at commas (or hard, where there are none) with TABs."""
    line = head + value
    if one_line or len(line) <= _FOLD_AT:
        return line
    lines = [head]
    column = len(head)
    room = _FOLD_AT
    for place, piece in enumerate(value.split(",")):
        comma = "," if place else ""
        if column + len(comma + piece) > room - (8 if len(lines) > 1 else 0) and (place or len(lines) > 1):
            lines[-1] += comma
            lines.append(piece)
        else:
            lines[-1] += comma + piece
        width = _FOLD_AT if len(lines) == 1 else _FOLD_TO
        while len(lines[-1]) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
            width = _FOLD_TO
        column = len(lines[-1])
    return "\n\t".join(lines)


def attribute_lines(attributes: Attributes, *, one_line: bool = False) -> str:
    texts = ((name, ctime(value) if isinstance(value, Moment) else value) for name, value in attributes)
    return "".join(fold(f"    {name} = ", value, one_line=one_line) + "\n" for name, value in texts)


def job_text(job: Job, view: View, *, one_line: bool = False) -> str:
    """Output of qstat -f for one job."""
    attributes = attribute_lines(job_attributes(job, view), one_line=one_line)
    return f"Job Id: {view.job_id(job)}\n{attributes}\n"


def xml_element(name: str, value: object) -> str:
    return f"<{name}>{escape(str(value))}</{name}>"


def jobs_xml(jobs: Iterable[Job], view: View) -> str:
    """Output of qstat -x."""
    parts = ['<?xml version="1.0"?>\n<Data>']
    for job in jobs:
        parts += ["<Job>", xml_element("Job_Id", view.job_id(job))]
        for outer, group in groupby(job_attributes(job, view), key=lambda pair: pair[0].partition(".")[0]):
            texts = [(name, int(value) if isinstance(value, Moment) else value) for name, value in group]
            nested = "." in texts[0][0]
            inside = "".join(xml_element(name.rpartition(".")[2], value) for name, value in texts)
            parts.append(f"<{outer}>{inside}</{outer}>" if nested else inside)
        parts.append("</Job>")
    parts.append("</Data>\n")
    return "".join(parts)


# Lists of jobs.

_LIST_HEAD = (
    "Job ID                    Name             User            Time Use S Queue\n"
    "------------------------- ---------------- --------------- -------- - -----\n"
)
_NAME_WIDTH = 16


def job_list(jobs: Iterable[Job], view: View) -> str:
    """Output of qstat."""
    rows = [
        f"{view.job_id(job):<26} {_short_name(job.request.name):<16} {job.request.user[:15]:<15} "
        f"{_time_use(job, view):>8} {job.state:1} {job.request.queue:<15}\n"
        for job in jobs
    ]
    return _LIST_HEAD + "".join(rows) if rows else ""


def _short_name(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else "..." + name[3 - _NAME_WIDTH :]


def _time_use(job: Job, view: View) -> str:
    return "00:00:00" if _reported_usage(job, view) else "0"


_WIDE_HEAD = """
{server}: 
                                                                                  Req'd       Req'd       Elap
Job ID                  Username    Queue    Jobname          SessID  NDS   TSK   Memory      Time    S   Time
----------------------- ----------- -------- ---------------- ------ ----- ------ --------- --------- - ---------
"""  # noqa: W291 - as Torque prints it
_NONE = "-- "


def wide_list(
    jobs: Iterable[Job], view: View, *, hosts: bool = False, comments: bool = False, one_line: bool = False
) -> str:
    """Output of qstat -a, with hosts below (`-n`) or behind (`-n -1`) each job, or comments below (`-s`)."""
    parts = []
    for job in jobs:
        row = _wide_row(job, view)
        if hosts:
            row += "" if one_line else "\n"
            row += _indented(_fold_hosts(view.exec_host(job), one_line=one_line))
        if comments:
            row += "\n" + _indented(job_comment(job, view))
        parts.append(row + "\n")
    return _WIDE_HEAD.format(server=view.server) + "".join(parts) if parts else ""


def _wide_row(job: Job, view: View) -> str:
    request = job.request
    session = _NONE if job.session is None else str(job.session)
    running = job.state in (PbsState.RUNNING, PbsState.EXITING)
    elapsed = clock_text(view.now_us - job.start_us) if running else _NONE
    return (
        f"{view.job_id(job)[:23]:<23} {request.user[:11]:<11} {request.queue[:8]:<8} {request.name[:16]:<16} "
        f"{session:>6} {request.nodes:>5} {request.nodes * request.ppn:>6} {_memory(job):>9} "
        f"{clock_text(request.walltime_us):>9} {job.state:1} {elapsed:>9}"
    )


def _memory(job: Job) -> str:
    return dict(job.request.resources).get("mem", _NONE)


def _indented(text: str) -> str:
    return f"   {text}" if text else f"    {_NONE}"


def _fold_hosts(hosts: str, *, one_line: bool) -> str:
    if one_line:
        return hosts
    lines = [""]
    for host in hosts.split("+"):
        if lines[-1] and len(lines[-1]) + len(host) > _FOLD_AT:
            lines.append("")
        lines[-1] += f"{'+' if lines[-1] else ''}{host}"
    return "\n   ".join(lines)


# The queues and the server.

_STATES = {
    "Transit": "",
    "Queued": PbsState.QUEUED,
    "Held": PbsState.HELD,
    "Waiting": "",
    "Running": PbsState.RUNNING,
    "Exiting": PbsState.EXITING,
    "Complete": PbsState.COMPLETE,
}


def _counts(jobs: Iterable[Job]) -> Counter[str]:
    return Counter(job.state.value for job in jobs)


def _state_count(counts: Counter[str]) -> str:
    return "".join(f"{name}:{counts[letter]} " for name, letter in _STATES.items())


def queue_list(jobs: Sequence[Job], view: View) -> str:
    """Output of qstat -Q."""
    lines = [
        "Queue              Max    Tot   Ena   Str   Que   Run   Hld   Wat   Trn   Ext T   Cpt",
        "----------------   ---   ----    --    --   ---   ---   ---   ---   ---   --- -   ---",
    ]
    for queue in view.queues:
        counts = _counts(job for job in jobs if job.request.queue == queue)
        lines.append(
            f"{queue:<16} {0:>5} {counts.total():>6} {'yes':>5} {'yes':>5} {counts['Q']:>5} {counts['R']:>5} "
            f"{counts['H']:>5} {0:>5} {0:>5} {counts['E']:>5} E {counts['C']:>5}"
        )
    return "\n".join(lines) + "\n"


def queue_limits(jobs: Sequence[Job], view: View) -> str:
    """Output of qstat -q."""
    running = waiting = 0
    text = (
        f"\nserver: {view.server}\n\n"
        "Queue            Memory CPU Time Walltime Node  Run Que Lm  State\n"
        "---------------- ------ -------- -------- ----  --- --- --  -----\n"
    )
    for queue in view.queues:
        counts = _counts(job for job in jobs if job.request.queue == queue)
        run, wait = counts["R"] + counts["E"], counts["Q"] + counts["H"]
        running, waiting = running + run, waiting + wait
        text += f"{queue:<16}   --      --       --      --  {run:>3} {wait:>3} --   E R\n"
    return text + f"{'':47}----- -----\n{'':47}{running:>5} {waiting:>5}\n"


def queue_text(jobs: Sequence[Job], view: View, default_walltime_us: int) -> str:
    """Output of qstat -Q -f."""
    text = ""
    for queue in view.queues:
        queue_jobs = [job for job in jobs if job.request.queue == queue]
        text += f"Queue: {queue}\n" + attribute_lines(
            [
                ("queue_type", "Execution"),
                ("total_jobs", str(len(queue_jobs))),
                ("state_count", _state_count(_counts(queue_jobs))),
                ("resources_default.walltime", clock_text(default_walltime_us)),
                ("resources_default.nodes", "1"),
                ("mtime", str(int(view.moment(0)))),
                ("resources_assigned.nodect", str(_assigned(queue_jobs))),
                ("enabled", "True"),
                ("started", "True"),
            ]
        )
    return text + "\n"


def _assigned(jobs: Iterable[Job]) -> int:
    return sum(job.request.nodes for job in jobs if job.state in (PbsState.RUNNING, PbsState.EXITING))


def server_list(jobs: Sequence[Job], view: View, status: str) -> str:
    """Output of qstat -B."""
    counts = _counts(jobs)
    row = f"{view.server:<16} {0:>5} {counts.total():>5} {counts['Q']:>5} {counts['R']:>5} {counts['H']:>5}"
    return (
        "Server             Max   Tot   Que   Run   Hld   Wat   Trn   Ext   Com Status    \n"
        "----------------   ---   ---   ---   ---   ---   ---   ---   ---   --- ----------\n"
        f"{row} {0:>5} {0:>5} {counts['E']:>5} {counts['C']:>5} {status:<10}\n"
    )


def server_text(jobs: Sequence[Job], view: View, settings: Attributes, status: str) -> str:
    """Output of qstat -B -f; `settings` are the server's own attributes."""
    named = dict(settings)
    attributes: Attributes = [
        ("server_state", status),
        ("scheduling", named.pop("scheduling")),
        ("total_jobs", str(len(jobs))),
        ("state_count", _state_count(_counts(jobs))),
    ]
    before = [(name, named.pop(name)) for name in list(named) if name in _BEFORE_ASSIGNED]
    assigned: Attributes = [("resources_assigned.nodect", str(_assigned(jobs)))]
    return f"Server: {view.server}\n{attribute_lines(attributes + before + assigned + list(named.items()))}\n"


_BEFORE_ASSIGNED = ("acl_hosts", "managers", "operators", "default_queue", "log_events", "mail_from")


# Nodes (pbsnodes).

VERSION = "6.1.3.h5"


def _attributes(node: Node, view: View) -> list[tuple[str, str]]:
    found = [("state", node.state), ("power_state", "Running"), ("np", str(node.np)), ("ntype", "cluster")]
    if node.jobs:
        in_order = sorted(node.jobs.items(), key=lambda item: item[1])
        jobs = ", ".join(f"{slots_text(slots)}/{number}.{view.server}" for number, slots in in_order)
        found.append(("jobs", jobs))
    if node.seen_us >= 0:
        found.append(("status", _status(node, view)))
    if node.note:
        found.append(("note", node.note))
    return [*found, ("mom_service_port", "15002"), ("mom_manager_port", "15003")]


def _status(node: Node, view: View) -> str:
    """The mom's own view: what the node said of itself, else fixed figures, as an agent's machine is not its nodes."""
    cores = node.np if node.facts is None else node.facts.cores
    memory_kib = 24_684_096 if node.facts is None else node.facts.memory_kib
    free_kib = 21_391_020 if node.facts is None else node.facts.memory_kib
    reported_us = max(view.now_us // REPORT_INTERVAL_US * REPORT_INTERVAL_US, node.seen_us)
    number = node.index + 1
    macaddr = ":".join(f"{byte:02x}" for byte in (0x02, 0, *number.to_bytes(4, "big")))
    return (
        f"opsys=linux,uname=Linux {node.name} 6.1.0 #1 SMP x86_64,sessions=601,nsessions=1,nusers=1,"
        f"idletime={reported_us // 1_000_000},totmem={memory_kib}kb,availmem={free_kib}kb,"
        f"physmem={memory_kib}kb,"
        f"ncpus={cores},loadave=0.00,gres=,netload=0,state=free,varattr= ,cpuclock=Fixed,macaddr={macaddr},"
        f"version={VERSION},rectime={view.moment(reported_us)},jobs="
    )


def nodes_text(nodes: Iterable[Node], view: View) -> str:
    """Output of pbsnodes, pbsnodes -a."""
    return "".join(
        f"{node.name}\n"
        + "".join(f"     {name} = {value}\n" for name, value in _attributes(node, view))
        + "\n"
        for node in nodes
    )


def nodes_xml(nodes: Iterable[Node], view: View) -> str:
    """Output of pbsnodes -x."""
    parts = ["<Data>"]
    for node in nodes:
        parts += ["<Node>", xml_element("name", node.name)]
        parts += [xml_element(name, value) for name, value in _attributes(node, view)]
        parts.append("</Node>")
    return "".join([*parts, "</Data>\n"])


def node_lines(nodes: Iterable[Node], *, notes: bool) -> str:
    """Output of pbsnodes -l, pbsnodes -l -n. Names are cut at 20 characters, as in Torque."""
    return "".join(
        f"{node.name[:20]:<20} {node.state[:26]:<26} {node.note}\n"
        if notes and node.note
        else f"{node.name[:20]:<20} {node.state}\n"
        for node in nodes
    )
