"""A real Slurm of the test's own."""

import os
import pwd
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager
from uuid import uuid4

from emulator.live.process import OrphanReaper
from emulator.live.slurm.programs import ReservedPorts
from emulator.schedulers.slurm.conf_fragment import Fragment, slurm_conf


@contextmanager
def cluster(home, nodes):
    """A Slurm as a site has it, at the pace of life: the environment in which its commands find it."""
    names = [f"node{number}" for number in range(1, nodes + 1)]
    for folder in ("state", "run", *(f"spool/{name}" for name in names)):
        (home / folder).mkdir(parents=True)
    tag = f"EMULATOR_TEST={uuid4()}"  # jobs and their keepers are in sessions of their own
    environ = {
        **os.environ,
        **dict([tag.split("=")]),
        "SLURM_CONF": str(home / "slurm.conf"),
        "PATH": f"{os.environ['PATH']}:/usr/sbin",
    }
    with ExitStack() as stack:
        ports = ReservedPorts(nodes + 1)
        stack.callback(ports.close)
        guard = OrphanReaper()
        stack.callback(guard.close)
        guard.watch_tag(tag)
        first, *others = ports.ports
        text = slurm_conf(
            Fragment(), names, home=home, spool=home / "spool", log=home / "slurmctld.log", jobcomp=home / "jobcomp",
            host=socket.gethostname().partition(".")[0], user=pwd.getpwuid(os.geteuid()).pw_name, port=first,
            node_ports=others, speed=1, hooks={},
        )  # fmt: skip
        (home / "slurm.conf").write_text(text)
        (home / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        for command in (["slurmctld", "-D"], *(["slurmd", "-D", "-N", name] for name in names)):
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
            process = stack.enter_context(subprocess.Popen(command, env=environ, **quiet))
            stack.callback(process.terminate)
        while _states(environ) != {"idle"}:
            assert process.poll() is None
            time.sleep(0.1)
        yield environ


def _states(environ):
    asked = subprocess.run(["sinfo", "-hNo", "%t"], env=environ, capture_output=True, text=True, check=False)
    return set(asked.stdout.split())
