"""qsub: options and `#PBS` directives to a job request. No I/O."""

from __future__ import annotations

import getopt
import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from balancer.clock import US
from emulator.live.torque import errors
from emulator.live.torque.jobs import JobRequest, clock_text, node_request, walltime_us

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_OPTIONS = "A:d:e:hj:k:l:m:M:N:o:p:q:r:S:v:Vw:z"
_NAME_LIMIT = 15
_INERT_RESOURCES = frozenset(
    "arch cput file mem ncpus nice opsys other pcput pmem pvmem software vmem".split()  # noqa: SIM905
)
"""Known to Torque and listed with the job; they decide nothing here."""

USAGE = """usage: qsub [-A account_string] [-d path] [-e path] [-h] [-j oe|eo|n] [-k keep] [-l resource_list]
	[-m mail_options] [-M user_list] [-N jobname] [-o path] [-p priority] [-q destination] [-r y|n]
	[-S path] [-v variable_list] [-V] [-w path] [-z] [script_file]
"""


class UsageError(Exception):
    """A command line that cannot be understood."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was said in one place: the command line, or a script's directives."""

    values: dict[str, str] = field(default_factory=dict)
    resources: tuple[tuple[str, str], ...] = ()
    variables: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()

    def over(self, other: Options) -> Options:
        """Both, where this one wins."""
        names = dict(self.resources)
        return replace(
            self,
            values={**other.values, **self.values},
            resources=(*self.resources, *(pair for pair in other.resources if pair[0] not in names)),
            variables=(*other.variables, *self.variables),
        )


def read_options(argv: Sequence[str]) -> Options:
    try:
        pairs, operands = getopt.gnu_getopt(list(argv), _OPTIONS)
    except getopt.GetoptError as error:
        raise UsageError(f"qsub: {error.msg}") from error
    values: dict[str, str] = {}
    resources: list[tuple[str, str]] = []
    variables: list[str] = []
    for option, value in pairs:
        match option:
            case "-l":
                resources += _resource_pairs(value)
            case "-v":
                variables += value.split(",")
            case _:
                values[option[1]] = value
    return Options(values, tuple(resources), tuple(variables), tuple(operands))


def _resource_pairs(text: str) -> Iterable[tuple[str, str]]:
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError("qsub: illegal -l value")
        yield name.strip(), value.strip()


def directives(script: str) -> Options:
    """The `#PBS` lines before the first command of a script."""
    argv: list[str] = []
    for line in script.splitlines():
        text = line.strip()
        if text.startswith("#PBS"):
            argv += shlex.split(text[len("#PBS") :], comments=True)
        elif text and not text.startswith("#"):
            break
    return read_options(argv)


def job_request(
    options: Options,
    script: str,
    *,
    submit_args: str,
    user: str,
    workdir: str,
    environ: Mapping[str, str],
    server: str,
    default_queue: str,
    default_walltime_us: int,
) -> JobRequest:
    """The job that the options (of command line and directives together) ask for."""
    values = options.values
    resources, neednodes, limit_us = _resource_list(options.resources, default_walltime_us)
    nodes, ppn = node_request(neednodes)
    queue = values.get("q", "").partition("@")[0] or default_queue
    script_name = options.operands[0].rpartition("/")[2] if options.operands else "STDIN"
    workdir = values.get("d", values.get("w", workdir))
    return JobRequest(
        name=values.get("N", script_name[:_NAME_LIMIT]),
        user=user,
        group=environ.get("PBS_GROUP", user),
        queue=queue,
        script=script,
        nodes=nodes,
        ppn=ppn,
        walltime_us=limit_us,
        resources=resources,
        neednodes=neednodes,
        workdir=workdir,
        account=values.get("A", ""),
        hold="h" in values,
        rerunnable=_choice(values, "r", ("y", "n")) != "n",
        join=_choice(values, "j", ("n", "oe", "eo")),
        keep=_choice(values, "k", ("n", "o", "e", "oe", "eo")),
        mail_points=values.get("m", "a"),
        priority=_priority(values.get("p", "0")),
        output_path=_local(values.get("o", "")),
        error_path=_local(values.get("e", "")),
        variables=_variables(options, queue, workdir, environ, server),
        submit_args=submit_args,
    )


def _resource_list(
    pairs: Sequence[tuple[str, str]], default_walltime_us: int
) -> tuple[tuple[tuple[str, str], ...], str, int]:
    """The list as the server keeps it (the user's order, nodect, defaults), `nodes`, and the walltime."""
    found: dict[str, str] = {}
    limit_us = default_walltime_us
    for name, value in pairs:
        if name == "walltime":
            limit_us = walltime_us(value)
            found[name] = clock_text(limit_us)
        elif name == "nodes" or name in _INERT_RESOURCES:
            found[name] = value
        else:
            raise errors.unknown_resource(name)
    if limit_us < US // 1000:
        raise errors.bad_value("Resource_List.walltime")
    neednodes = found.get("nodes", "1")
    if "nodes" in found:
        found["nodect"] = str(node_request(neednodes)[0])
    found.setdefault("walltime", clock_text(default_walltime_us))
    found.setdefault("nodes", neednodes)
    found.setdefault("nodect", str(node_request(neednodes)[0]))
    return tuple(found.items()), neednodes, limit_us


def _choice(values: Mapping[str, str], option: str, allowed: Sequence[str]) -> str:
    value = values.get(option, allowed[0])
    if value not in allowed:
        raise UsageError(f"qsub: illegal -{option} value")
    return value


def _priority(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise UsageError("qsub: illegal -p value") from error


def _local(path: str) -> str:
    """A path without the `host:` before it."""
    return path.rpartition(":")[2]


def _variables(
    options: Options, queue: str, workdir: str, environ: Mapping[str, str], server: str
) -> tuple[tuple[str, str], ...]:
    found = {"PBS_O_QUEUE": queue}
    for name in ("HOME", "LOGNAME", "PATH", "SHELL", "LANG"):
        if name in environ:
            found[f"PBS_O_{name}"] = environ[name]
    found |= {"PBS_O_WORKDIR": workdir, "PBS_O_HOST": server, "PBS_O_SERVER": server}
    if "V" in options.values:
        found |= environ
    for variable in options.variables:
        name, equals, value = variable.partition("=")
        found[name] = value if equals else environ.get(name, "")
    return tuple(found.items())
