"""Torque's commands, run in the server: a command line in, what it prints and its exit status out.

`python -m emulator.live.torque.commands BIN --home HOME` writes a script for each, which sends its command line there.
"""

from __future__ import annotations

import argparse
import getopt
import re
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from balancer.clock import US, wall_us
from emulator.live.process import read_address
from emulator.live.torque import errors, qsub
from emulator.live.torque import format as fmt
from emulator.live.torque.errors import PbsError
from emulator.live.torque.jobs import PbsState
from emulator.live.torque.nodes import LISTS, is_listed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from emulator.live.torque.batch import BatchServer
    from emulator.live.torque.jobs import Job

VERSION = f"Version: {fmt.VERSION}\nCommit: 4decc716daa73044648b5578ef68d89713d2f6a2\n"


@dataclass(frozen=True, slots=True)
class Invocation:
    """Who runs what, where. `text`: the script, once the command has read it; None before."""

    argv: tuple[str, ...]
    user: str
    cwd: str = "/"
    environ: dict[str, str] = field(default_factory=dict)
    text: str | None = None
    read_error: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What a command prints, and its exit status."""

    status: int = 0
    stdout: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """The command must first read this file (None: its standard input) and ask again."""

    path: str | None


def run(server: BatchServer, call: Invocation, now_us: int) -> Reply | Need:
    """Carry out one command."""
    name = call.argv[0]
    command = _COMMANDS.get(name)
    if command is None:
        return Reply(127, stderr=f"{name}: no such command; known: {', '.join(sorted(_COMMANDS))}\n")
    if "--version" in call.argv[1:2]:
        return Reply(stdout=VERSION)
    try:
        return command(server, call, now_us)
    except getopt.GetoptError as error:
        if name == "pbsnodes":
            return Reply(1, stderr=_PBSNODES_USAGE)
        return Reply(2, stderr=f"{name}: {error.msg}\n{_QSTAT_USAGE if name == 'qstat' else ''}")


def _options(call: Invocation, letters: str) -> tuple[dict[str, str], list[str]]:
    """Options by their letters, and operands. Raises GetoptError."""
    pairs, operands = getopt.gnu_getopt(list(call.argv[1:]), letters)
    return {option[1]: value for option, value in pairs}, operands


# pbsnodes

_PBSNODES_USAGE = (
    'usage:\tpbsnodes [-{c|d|l|o|p|r}] [-s server] [-n] [-N "note"] [-A "append note"] [-q] '
    "[-m standby|suspend|sleep|hibernate|shutdown] node ...\n"
    "\tpbsnodes [-{a|x}] [-s server] [-q] [node]\n"
)


def _pbsnodes(server: BatchServer, call: Invocation, now_us: int) -> Reply:
    options, operands = _options(call, "aclnoqrxs:N:A:")
    if options.keys() & set("corNA"):
        return _change_nodes(server, call.user, options, operands, now_us)
    listed: str | None = None
    if "l" in options and operands and operands[0] in LISTS:
        listed = operands.pop(0)
    nodes = [server.node(name) for name in operands] if operands else list(server.nodes)
    found = [node for node in nodes if node is not None]
    if len(found) < len(nodes):
        return Reply(1, stderr=f"pbsnodes: {errors.UNKNOWN_NODE} MSG=cannot locate specified node\n")
    view = server.view(now_us)
    if "l" in options:
        shown = [node for node in found if is_listed(node, listed)]
        return Reply(stdout=fmt.node_lines(shown, notes="n" in options))
    if "x" in options:
        return Reply(stdout=fmt.nodes_xml(found, view))
    return Reply(stdout=fmt.nodes_text(found, view))


def _change_nodes(
    server: BatchServer, user: str, options: dict[str, str], names: Sequence[str], now_us: int
) -> Reply:
    """Real pbsnodes exits 0 whatever happens; only standard error tells."""
    complaints = []
    for name in names:
        node = server.node(name)
        problem = errors.NO_PERMISSION if not server.is_manager(user) else errors.UNKNOWN_NODE
        if node is None or not server.is_manager(user):
            complaints.append(f"Error setting note attribute for {name} - {problem}\n")
            continue
        note: str | None = None
        if "N" in options:
            note = "" if options["N"] == "n" else options["N"]
        if "A" in options:
            note = node.note + options["A"]
        offline = True if "o" in options else False if options.keys() & {"c", "r"} else None
        server.mark(node, now_us, offline=offline, note=note, reset="r" in options)
    return Reply(stderr="".join(complaints))


# qstat

_QSTAT_USAGE = """usage: 
                          qstat [-f [-1]] [-W site_specific] [-x] [ job_identifier... | destination... ]
                          qstat [-a|-i|-r|-e] [-u user] [-n [-1]] [-s] [-t] [-G|-M] [-R] [job_id... | destination...]
                          qstat -Q [-f [-1]] [-W site_specific] [ destination... ]
                          qstat -q [-G|-M] [ destination... ]
                          qstat -B [-f [-1]] [-W site_specific] [ server_name... ]
                          qstat -t
"""  # noqa: W291 - as Torque prints it
_HAS_BEGUN = (PbsState.RUNNING, PbsState.SUSPENDED, PbsState.EXITING)
_IDLE = (PbsState.QUEUED, PbsState.HELD)


def _qstat(server: BatchServer, call: Invocation, now_us: int) -> Reply:
    options, operands = _options(call, "1aBefGiMnqQrRstu:W:x")
    if "1" in options and not options.keys() & {"f", "n"}:
        return Reply(2, stderr=f"qstat: conflicting options.\n{_QSTAT_USAGE}")
    view = server.view(now_us)
    if options.keys() & {"B", "q", "Q"}:
        return Reply(stdout=_server_or_queues(server, options, now_us))
    jobs, complaints = _chosen(server, operands, now_us)
    status = errors.UNKNOWN_JOB if complaints else 0
    one_line = "1" in options
    if "u" in options:
        users = options["u"].split(",")
        jobs = [job for job in jobs if job.request.user in users]
    if "i" in options:
        jobs = [job for job in jobs if job.state in _IDLE]
    if "r" in options:
        jobs = [job for job in jobs if job.state in _HAS_BEGUN]
    if "x" in options:
        text = fmt.jobs_xml(jobs, view) if jobs else ""
    elif "f" in options:
        text = "".join(fmt.job_text(job, view, one_line=one_line) for job in jobs)
    elif options.keys() & set("ainrsu"):
        text = fmt.wide_list(jobs, view, hosts="n" in options, comments="s" in options, one_line=one_line)
    else:
        text = fmt.job_list(jobs, view)
    return Reply(status, text, complaints)


def _chosen(server: BatchServer, operands: Sequence[str], now_us: int) -> tuple[list[Job], str]:
    """The jobs that the operands (job ids, queues) name, all without operands; and complaints."""
    if not operands:
        return server.jobs(now_us), ""
    jobs: list[Job] = []
    complaints = ""
    for operand in operands:
        queue = operand.partition("@")[0]
        if queue in server.config.queues:
            jobs += [job for job in server.jobs(now_us) if job.request.queue == queue]
            continue
        try:
            jobs.append(server.job(operand, now_us))
        except PbsError as error:
            complaints += f"qstat: {error}\n"
    return jobs, complaints


def _server_or_queues(server: BatchServer, options: dict[str, str], now_us: int) -> str:
    jobs, view = server.jobs(now_us), server.view(now_us)
    status = "Active" if server.scheduling else "Idle"
    if "B" in options:
        if "f" in options:
            return fmt.server_text(jobs, view, _server_attributes(server), status)
        return fmt.server_list(jobs, view, status)
    if "q" in options:
        return fmt.queue_limits(jobs, view)
    if "f" in options:
        return fmt.queue_text(jobs, view, server.config.default_walltime_us)
    return fmt.queue_list(jobs, view)


def _server_attributes(server: BatchServer) -> fmt.Attributes:
    config = server.config
    managers = ",".join(f"{user}@{config.server_name}" for user in config.managers)
    return [
        ("scheduling", str(server.scheduling)),
        ("acl_hosts", config.server_name),
        ("managers", managers),
        ("operators", managers),
        ("default_queue", config.queues[0]),
        ("log_events", "2047"),
        ("mail_from", "adm"),
        *([("comment", server.comment)] if server.comment else []),
        ("node_check_rate", "150"),
        ("tcp_timeout", "300"),
        ("job_stat_rate", "300"),
        ("poll_jobs", "True"),
        ("down_on_error", "True"),
        ("mom_job_sync", "True"),
        ("pbs_version", fmt.VERSION),
        ("keep_completed", f"{config.keep_completed_s:g}"),
        ("submit_hosts", config.server_name),
        ("allow_node_submit", "True"),
        ("next_job_number", str(server.next_number)),
        ("net_counter", "0 0 0"),
        ("moab_array_compatible", "True"),
        ("nppcu", "1"),
        ("timeout_for_job_delete", "120"),
        ("timeout_for_job_requeue", "120"),
        ("note_append_on_error", "True"),
    ]


# qsub


def _qsub(server: BatchServer, call: Invocation, now_us: int) -> Reply | Need:
    if call.user == "root" and not server.config.root_may_submit:
        return Reply(1, stderr="qsub can not be run as root\n")
    try:
        options = qsub.read_options(call.argv[1:])
        path = options.operands[0] if options.operands else None
        if call.read_error is not None:
            return Reply(1, stderr=f"qsub: script file '{path}' cannot be loaded - {call.read_error[1]}\n")
        if call.text is None:
            return Need(path)
        config = server.config
        request = qsub.job_request(
            options.over(qsub.directives(call.text)),
            call.text,
            submit_args=" ".join(call.argv[1:]),
            user=call.user,
            workdir=call.cwd,
            environ=call.environ,
            server=config.server_name,
            default_queue=config.queues[0],
            default_walltime_us=config.default_walltime_us,
        )
        job = server.submit(request, now_us)
    except (qsub.UsageError, ValueError) as error:
        return Reply(2, stderr=f"{error}\n{qsub.USAGE}")
    except PbsError as error:
        return Reply(error.status, stderr=f"qsub: submit error ({error})\n")
    return Reply(stdout="" if "z" in options.values else f"{server.id_of(job)}\n")


# Commands on jobs


def _each_job(
    server: BatchServer,
    call: Invocation,
    now_us: int,
    options: str,
    apply: Callable[[Job, dict[str, str]], None],
    *,
    by_owners: bool = False,
) -> Reply:
    """`by_owners`: only the job's owner and managers may do it."""
    name = call.argv[0]
    found, operands = _options(call, options)
    if not operands:
        return Reply(2, stderr=f"usage: {name} [options] job_identifier...\n")
    status, complaints = 0, ""
    for operand in operands:
        try:
            job = server.job(operand, now_us)
            if by_owners and call.user != job.request.user and not server.is_manager(call.user):
                raise errors.unauthorized(f"MSG=operation not permitted {server.id_of(job)}")
            apply(job, found)
        except PbsError as error:
            status = error.status
            complaints += _complaint(name, operand, error)
    return Reply(status, stderr=complaints)


def _complaint(name: str, operand: str, error: PbsError) -> str:
    if error.status == errors.UNKNOWN_JOB:
        if name in ("qhold", "qrls"):
            return ""  # as recorded: these two say nothing
        if name == "qdel":
            return f"qdel: nonexistent job id: {operand}\n"
    return f"{name}: {error}\n"


def _qdel(server: BatchServer, call: Invocation, now_us: int) -> Reply:
    return _each_job(
        server, call, now_us, "pW:m:",
        lambda job, options: server.delete(job, call.user, now_us, purge="p" in options),
    )  # fmt: skip


def _qrerun(server: BatchServer, call: Invocation, now_us: int) -> Reply:
    def apply(job: Job, _: dict[str, str]) -> None:
        if not server.is_manager(call.user):
            needed = "(ATR_DFLAG_MGWR | ATR_DFLAG_OPWR)"
            raise errors.unauthorized(f"MSG=additional permissions required {needed} {server.id_of(job)}")
        server.rerun(job, now_us)

    return _each_job(server, call, now_us, "f", apply)


def _qhold(server: BatchServer, call: Invocation, now_us: int) -> Reply:
    return _each_job(server, call, now_us, "h:", lambda job, _: server.hold(job, now_us), by_owners=True)


def _qrls(server: BatchServer, call: Invocation, now_us: int) -> Reply:
    return _each_job(
        server, call, now_us, "h:", lambda job, _: server.release_hold(job, now_us), by_owners=True
    )


def _releasehold(server: BatchServer, call: Invocation, now_us: int) -> Reply:
    """Maui's command."""
    reply = _each_job(server, call, now_us, "", lambda job, _: server.release_deferred(job, now_us))
    return Reply(reply.status, "job holds adjusted\n" if reply.status == 0 else "", reply.stderr)


def _qselect(server: BatchServer, call: Invocation, now_us: int) -> Reply:
    options, _ = _options(call, "s:u:N:q:")
    filters: list[Callable[[Job], bool]] = [
        lambda job: "s" not in options or job.state.value in options["s"],
        lambda job: "u" not in options or job.request.user in options["u"].split(","),
        lambda job: "N" not in options or job.request.name == options["N"],
        lambda job: "q" not in options or job.request.queue == options["q"],
    ]
    jobs = [job for job in server.jobs(now_us) if all(is_so(job) for is_so in filters)]
    return Reply(stdout="".join(f"{server.id_of(job)}\n" for job in jobs))


# qmgr

_SET_SCHEDULING = re.compile(r"\s*s(?:et)?\s+s(?:erver)?\s+scheduling\s*=\s*(\w+)\s*", re.IGNORECASE)
_SET_COMMENT = re.compile(r"\s*s(?:et)?\s+s(?:erver)?\s+comment\s*=\s*([\"']?)(.*)\1\s*", re.IGNORECASE)


def _qmgr(server: BatchServer, call: Invocation, now_us: int) -> Reply:
    """Only `-c "set server scheduling = True|False"` and the server's comment."""
    directive = _options(call, "c:")[0].get("c", "")
    match, comment = _SET_SCHEDULING.fullmatch(directive), _SET_COMMENT.fullmatch(directive)
    if match is None and comment is None:
        known = '"set server scheduling = True|False" and "set server comment = TEXT"'
        return Reply(1, stderr=f'qmgr: cannot do "{directive}"; this server knows {known}\n')
    if not server.is_manager(call.user):
        return Reply(errors.UNAUTHORIZED, stderr="qmgr obj= svr=default: Unauthorized Request \n")
    if match is None:
        server.comment = comment[2] if comment is not None else ""
        return Reply()
    match match[1].lower():
        case "true" | "t" | "1" | "y":
            server.start_cycle(now_us)
        case "false" | "f" | "0" | "n":
            server.scheduling = False
        case _:
            return Reply(
                errors.BAD_VALUE,
                stderr="qmgr obj= svr=default: Illegal attribute or resource value scheduling\n",
            )
    return Reply()


def _qnotice(server: BatchServer, call: Invocation, now_us: int) -> Reply:
    """Ours: `qnotice NUMBER` announces an on-demand job of the workload, for the server's mechanism."""
    if len(call.argv) != 2 or not call.argv[1].isdecimal():  # noqa: PLR2004 - the command and its operand
        return Reply(2, stderr="usage: qnotice NUMBER_IN_WORKLOAD\n")
    try:
        server.scheduler.notice(int(call.argv[1]), now_us)
    except PbsError as error:
        return Reply(error.status, stderr=f"qnotice: {error}\n")
    return Reply()


_COMMANDS: dict[str, Callable[[Any, Invocation, int], Reply | Need]] = {
    "pbsnodes": _pbsnodes,
    "qdel": _qdel,
    "qhold": _qhold,
    "qmgr": _qmgr,
    "qnotice": _qnotice,
    "qrerun": _qrerun,
    "qrls": _qrls,
    "qselect": _qselect,
    "qstat": _qstat,
    "qsub": _qsub,
    "releasehold": _releasehold,
}
NAMES = tuple(_COMMANDS)


_TEMPLATE = Path(__file__).with_name("command.py.in")
_SHEBANG_LIMIT = 255


def install_commands(bin_dir: Path, address: tuple[str, int]) -> None:
    """`qsub`, `qstat`, ... in `bin_dir` (made if need be), for the server at `address`.

    The user who runs them is `$TORQUE_USER`, or who they are.
    """
    text = _TEMPLATE.read_text(encoding="utf-8")
    shebang = text.partition("\n")[0].replace("@PYTHON@", sys.executable)
    if len(shebang) > _SHEBANG_LIMIT or " " in sys.executable:
        raise ValueError(f"the interpreter's path cannot stand in a script's first line: {sys.executable}")
    for place, value in {
        "@PYTHON@": sys.executable,
        "@HOST@": repr(address[0]),
        "@PORT@": str(address[1]),
    }.items():
        text = text.replace(place, value)
    bin_dir.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        path = bin_dir / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="emulator.live.torque.commands", description="Writes the batch commands into a folder."
    )
    parser.add_argument("bin", type=Path, help="the folder")
    parser.add_argument("--home", type=Path, required=True, help="the server's home")
    parser.add_argument("--wait-s", type=float, default=30.0, help="wait so long for the server (30)")
    options = parser.parse_args(arguments)
    end_us = wall_us() + round(options.wait_s * US)
    pause = threading.Event()
    while (address := read_address(options.home)) is None:
        if wall_us() > end_us:
            sys.stderr.write(f"no batch server listens in {options.home}; start it first\n")
            return 2
        pause.wait(0.05)
    install_commands(options.bin, address)
    return 0


if __name__ == "__main__":
    sys.exit(main())
