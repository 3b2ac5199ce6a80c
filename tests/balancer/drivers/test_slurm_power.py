"""Power saving leaves lent nodes alone: they are in a partition that Slurm does not switch off."""

from __future__ import annotations

import pytest

from balancer.drivers.base import RefusedError, UnclearError
from balancer.drivers.slurm import SlurmDriver, SlurmSettings
from balancer.drivers.slurm_text import Partition, parse_partition

LINE = (
    "PartitionName=lent AllowGroups=ALL AllocNodes=ALL Default=NO Hidden=YES MaxNodes=UNLIMITED Nodes={} "
    "PriorityTier=1 State=INACTIVE TotalNodes=1 ResumeTimeout=GLOBAL SuspendTimeout=GLOBAL SuspendTime=INFINITE\n"
)
OURS = "balancer: lent to on-demand"


class Slurm(SlurmDriver):
    """Its commands change a dictionary instead: node -> the reason of its drain, "" for none."""

    def __init__(self, awake):
        super().__init__(SlurmSettings(awake_partition="lent"))
        self.reasons = {"n01": "", "n02": "", "n03": ""}
        self.awake = set(awake)
        self.given = []
        self.refuses = ()

    def _run(self, command):
        if "partition" in command:
            return LINE.format(",".join(sorted(self.awake)) or "(null)")
        if "show" in command:
            return "".join(self._line(name, reason) for name, reason in self.reasons.items())
        what = " ".join(command[2:])
        if any(word in what for word in self.refuses):
            raise RefusedError("scontrol update exited 1: Access denied")
        self.given.append(what)
        names = command[-1].partition("=")[2] if "partitionname" in what else command[2].partition("=")[2]
        if "partitionname" in what:
            self.awake = set(names.split(",")) - {""}
        else:
            reason = command[-1].removeprefix("reason=") if "drain" in what else ""
            self.reasons |= dict.fromkeys(names.split(","), reason)
        return ""

    def _line(self, name, reason):
        because = f" Reason={reason} [root@2026-11-21T04:05:51]" if reason else ""
        state = "IDLE+DRAIN" if reason else "IDLE"
        return (
            f"NodeName={name} CPUAlloc=0 CPUTot=1 State={state} BootTime=None CfgTRES= AllocTRES={because}\n"
        )


def test_a_node_is_put_there_before_it_is_drained_and_leaves_before_it_is_resumed():
    slurm = Slurm(["n02"])
    slurm.reclaim_nodes(["n01"])
    slurm.restore_nodes(["n01"])
    assert slurm.given == [
        "partitionname=lent nodes=n01,n02",
        f"nodename=n01 state=drain reason={OURS}",
        "partitionname=lent nodes=n02",
        "nodename=n01 state=resume reason= ",
    ]


def test_a_node_that_would_be_switched_off_is_not_lent():
    slurm = Slurm([])
    slurm.refuses = ("partitionname",)
    with pytest.raises(RefusedError):
        slurm.reclaim_nodes(["n01"])
    assert slurm.given == []


def test_a_node_goes_home_also_when_it_cannot_leave_the_partition():
    slurm = Slurm(["n01"])
    slurm.reasons["n01"] = OURS
    slurm.refuses = ("partitionname",)
    with pytest.raises(RefusedError):
        slurm.restore_nodes(["n01"])
    assert slurm.given == ["nodename=n01 state=resume reason= "]


def test_after_a_restart_of_the_controller_those_that_are_not_lent_leave_at_the_second_look():
    slurm = Slurm(["n01", "n02", "n03"])
    slurm.reasons |= {"n01": OURS, "n02": "broken disk"}
    slurm.tidy()
    assert slurm.given == []
    slurm.tidy()
    # What somebody else has drained may be lent all the same.
    assert slurm.given == ["partitionname=lent nodes=n01,n02"]


def test_a_lent_node_that_is_missing_there_is_put_there_at_once():
    slurm = Slurm([])
    slurm.reasons["n01"] = OURS
    slurm.tidy()
    assert slurm.awake == {"n01"}


def test_the_last_node_leaves_an_empty_partition():
    slurm = Slurm(["n01"])
    slurm.reasons["n01"] = OURS
    slurm.restore_nodes(["n01"])
    assert (slurm.given[0], slurm.awake) == ("partitionname=lent nodes=", set())


def test_a_partition_is_read_as_slurm_prints_it():
    assert parse_partition(LINE.format("n[01-02]"), "lent") == Partition(
        frozenset({"n01", "n02"}), "INACTIVE", "INFINITE"
    )


@pytest.mark.parametrize(
    "text", ["", "*** Monday ***\n", LINE.format("n01") * 2, LINE.format("n01")[:-1], LINE.format("n[0-")]
)
def test_what_is_no_partition_is_unclear(text):
    with pytest.raises(UnclearError):
        parse_partition(text, "lent")
