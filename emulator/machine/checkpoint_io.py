"""How long checkpoints take: bandwidth of a node, and a cap of the file system shared by those who are at it.

The model of realtime-wang-2017, section 7.5. Every node that reads or writes gets the same rate, the less of what a
node can do and its share of the cap; the rate changes whenever a transfer begins or ends. All is in integers: a
rate is whole bytes a second, what is left of a transfer is counted in millionths of a byte, and a transfer is over
at the first whole microsecond at which nothing is left. Reads and writes do not slow each other down.

`rate_of` and `owed` are compiled; a mechanism without a kernel of its own uses `Channel`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from emulator.kernel.compiled import compiled
from emulator.plugins import check_number

GB = 1_000_000_000
MICRO = 1_000_000
_MOST_GB = 1_000_000
NEVER = (1 << 63) - 1


@compiled
def rate_of(per_node: int, cap: int, nodes: int) -> int:
    """Bytes a second for each of `nodes` nodes that transfer at once (at least 1, so that all transfers end)."""
    return max(1, min(per_node, cap // nodes)) if nodes > 0 else per_node


@compiled
def time_for(owed: int, rate: int) -> int:
    """Microseconds, rounded up, in which `owed` millionths of a byte pass at `rate` bytes a second."""
    return -(-owed // rate)


@dataclass(frozen=True, slots=True)
class CheckpointIO:
    """The parameters; the paper's figures by default: 2 GB/s a node, 90 % of 240 GB/s for all.

    `data_gb`: bytes of a checkpoint a node, in GB (10^9). `shared`: those who transfer at once share the cap;
    otherwise each job has it to itself, as the equations of the paper can be read.
    """

    data_gb: float = 4.0
    node_gb_s: float = 2.0
    write_cap_gb_s: float = 216.0
    read_cap_gb_s: float = 216.0
    shared: bool = True

    def __post_init__(self) -> None:
        check_number("checkpoint io", "data_gb", self.data_gb, at_least=0, at_most=_MOST_GB)
        for name in ("node_gb_s", "write_cap_gb_s", "read_cap_gb_s"):
            check_number("checkpoint io", name, getattr(self, name), at_least=1 / GB, at_most=_MOST_GB)

    @property
    def owed(self) -> int:
        """A node's part of a checkpoint, in millionths of a byte."""
        return round(self.data_gb * GB) * MICRO

    @property
    def node_rate(self) -> int:
        """Bytes a second."""
        return round(self.node_gb_s * GB)

    @property
    def write_cap(self) -> int:
        """Bytes a second."""
        return round(self.write_cap_gb_s * GB)

    @property
    def read_cap(self) -> int:
        """Bytes a second."""
        return round(self.read_cap_gb_s * GB)

    def write_us(self, nodes: int) -> int:
        """A checkpoint of so many nodes when nobody else writes."""
        return time_for(self.owed, rate_of(self.node_rate, self.write_cap, nodes))

    def read_us(self, nodes: int) -> int:
        """Reading one back when nobody else reads."""
        return time_for(self.owed, rate_of(self.node_rate, self.read_cap, nodes))


@dataclass(slots=True)
class Channel:
    """Transfers in one direction that share a cap. Pure: times come in, ends are asked for.

    A mechanism begins a transfer, wakes at `next_end_us`, and asks `ended` who is through.
    """

    node_rate: int
    cap: int
    _now_us: int = field(default=0, init=False)
    _nodes: int = field(default=0, init=False)
    _left: dict[int, list[int]] = field(default_factory=dict, init=False)
    """Job: [nodes, millionths of a byte left on each node]."""

    def begin(self, job: int, nodes: int, owed: int, now_us: int) -> None:
        """A job begins to transfer `owed` millionths of a byte on each of its nodes."""
        if job in self._left:
            raise ValueError(f"job {job} is transferring already")
        self._pass_time(now_us)
        self._left[job] = [nodes, owed]
        self._nodes += nodes

    def cancel(self, job: int, now_us: int) -> None:
        """The job's transfer is given up."""
        self._pass_time(now_us)
        self._nodes -= self._left.pop(job)[0]

    def ended(self, now_us: int) -> list[int]:
        """Jobs whose transfer is over by now, in the order in which they began; they are forgotten."""
        self._pass_time(now_us)
        over = [job for job, (_, owed) in self._left.items() if owed <= 0]
        for job in over:
            self._nodes -= self._left.pop(job)[0]
        return over

    @property
    def next_end_us(self) -> int:
        """When the next transfer ends if none begins before; NEVER if there is none."""
        if not self._left:
            return NEVER
        least = min(owed for _, owed in self._left.values())
        return self._now_us + max(0, time_for(least, self._rate))

    @property
    def _rate(self) -> int:
        return rate_of(self.node_rate, self.cap, self._nodes)

    def _pass_time(self, now_us: int) -> None:
        if self._left:
            passed = self._rate * (now_us - self._now_us)
            for transfer in self._left.values():
                transfer[1] -= passed
        self._now_us = now_us
