"""The site before the Balancer comes: munge, Slurm's accounting, a controller and eight nodes, all on one host."""

from __future__ import annotations

from pathlib import Path

from first_month.machine import eventually, is_so, run, write

NODES = [f"n00{number}" for number in range(1, 9)]
_SLURM = """\
ClusterName=site
SlurmctldHost=head
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/%n
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
ReturnToService=2
SlurmdTimeout=30
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
NodeName=n00[1-8] NodeHostname=head NodeAddr=head Port=[17001-17008] CPUs=1 RealMemory=100 State=UNKNOWN
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=EXCLUSIVE
"""
_ACCOUNTING = """\
DbdHost=localhost
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageLoc=slurm
StorageUser=slurm
StoragePass=secret
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd/slurmdbd.pid
"""
_NODE = """\
[Service]
ExecStart=/usr/sbin/slurmd -D -s -N %i
KillMode=process
"""


def start() -> None:
    """All nodes are idle and a job ends well."""
    run("ip address add 192.0.2.1/32 dev lo")  # a host without an address beyond loopback resolves no names
    write("/etc/slurm/slurm.conf", _SLURM)
    write("/etc/slurm/cgroup.conf", "CgroupPlugin=disabled\n")
    write("/etc/slurm/slurmdbd.conf", _ACCOUNTING)
    write("/etc/systemd/system/slurmd@.service", _NODE)
    run("chmod 600 /etc/slurm/slurmdbd.conf && chown slurm: /etc/slurm/slurmdbd.conf")
    run("install -d -o slurm -g slurm /var/lib/slurm/slurmctld /var/log/slurm")
    for node in NODES:
        Path("/var/lib/slurm", node).mkdir()
    run("systemctl daemon-reload && systemctl start munge mariadb")
    grant = "CREATE DATABASE slurm; GRANT ALL ON slurm.* TO slurm@localhost IDENTIFIED BY 'secret'"
    run(f'mariadb --execute "{grant}"')
    run("systemctl start slurmdbd")
    eventually(lambda: "ok" if "Cluster" in run("sacctmgr show cluster", status=None) else "no", "ok")
    run("sacctmgr --immediate add cluster site", status=None)
    run("systemctl start slurmctld " + " ".join(f"slurmd@{node}" for node in NODES))
    eventually(states, dict.fromkeys(NODES, "IDLE"))
    number = submit(NODES[0], "true")
    eventually(lambda: job_state(number), "COMPLETED")


def states() -> dict[str, str]:
    """Node -> its state in Slurm's words."""
    lines = run("scontrol --all --oneliner show node").splitlines()
    words = [dict(word.partition("=")[::2] for word in line.split()) for line in lines]
    return {each["NodeName"]: each["State"] for each in words}


def state(node: str) -> str:
    return states()[node]


def reason(node: str) -> str:
    """Why it is drained; "": no reason stands there."""
    said = run(f"sinfo --noheader --nodes {node} --format %E").strip()
    return "" if said == "none" else said


def drained() -> list[str]:
    return [node for node, found in states().items() if "DRAIN" in found]


def submit(node: str, script: str) -> str:
    """The number of a job that runs on that node."""
    return run(f"cd /tmp && sbatch --parsable -w {node} -t 60 -o /dev/null --wrap '{script}'").strip()


def job_state(number: str) -> str:
    words = run(f"scontrol --oneliner show job {number}").split()
    return dict(word.partition("=")[::2] for word in words)["JobState"]


def all_is_batchs() -> None:
    """No node is marked, none is down. Raises StepError."""
    is_so(states(), dict.fromkeys(NODES, "IDLE"))
