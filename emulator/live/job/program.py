"""`emulator-job`: does a known amount of work at the rate its nodes allow, and writes down what it does.

It does not burn the processor: work is cluster time on nodes. Each line of its output is a JSON object; `--prove`
reads them back. How it hears of the time, of other nodes and of its end: `control.py`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from balancer.clock import NEVER_US, US, SystemClock
from balancer.whole_file import write_text
from emulator.clock.shared_clock import ClockReader, SharedClock
from emulator.live.job.control import OVER, MessageKind, OrderControl, SignalControl, agent_control
from emulator.live.job.proof import ProofError, prove

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from emulator.live.job.control import JobControl, Message


@dataclass(frozen=True, slots=True)
class Phase:
    """What a job has done and still owes, exactly, as `emulator/machine/work.py` counts it: a test compares them.

    Work is counted in whole node-microseconds, in plain Python because a job must start quickly.

    A time in which nothing changes: from `since_us` on (NEVER_US: not at all) the job computes on top of `done`.

    `nodes` nodes at the rate `num / den` do `nodes * num / den` in a microsecond. After every `interval_us` of
    computing (0: never) the job writes a checkpoint for `cost_us`, unless it would be over before.
    """

    total: int
    done: int
    since_us: int
    nodes: int
    num: int = 1
    den: int = 1
    interval_us: int = 0
    cost_us: int = 0

    def at(self, now_us: int) -> int:
        """What is done by now, at most `total`."""
        computing_us = max(0, now_us - self.since_us)
        if self.interval_us:
            whole, rest = divmod(computing_us, self.interval_us + self.cost_us)
            computing_us = whole * self.interval_us + min(rest, self.interval_us)
        return min(self._after(computing_us), self.total)

    def when_us(self, done: int) -> int:
        """The first whole microsecond at which so much is done; NEVER_US if that does not come like this."""
        if done <= self.done:
            return self.since_us
        if self.since_us == NEVER_US:
            return NEVER_US
        speed = self.nodes * self.num
        computing_us = -(-(done - self.done) * self.den // speed)
        written = (computing_us - 1) // self.interval_us if self.interval_us else 0
        return self.since_us + computing_us + written * self.cost_us

    def checkpoint(self, number: int) -> tuple[int, int] | None:
        """(when it is whole, what it keeps) of the phase's own checkpoint `number`, from 1; None: there is none."""
        if not self.interval_us or self.since_us == NEVER_US:
            return None
        whole_us = self.since_us + number * (self.interval_us + self.cost_us)
        is_over_before = self.when_us(self.total) <= whole_us
        return None if is_over_before else (whole_us, self._after(number * self.interval_us))

    def _after(self, computing_us: int) -> int:
        return self.done + computing_us * self.nodes * self.num // self.den


_KEPT = 3


# Checkpoints: small files in a shared folder, each one whole or not there at all.


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`done` node-microseconds of `total`; `number` counts the checkpoints of the job from 1."""

    number: int
    done: int
    total: int


class Checkpoints:
    """The checkpoints of the job `name` in `folder`, which need not exist yet.

    A file is written beside its place, flushed to the disk and renamed, so that neither the end of the process nor
    that of its node leaves half a checkpoint under a good name; a hash tells a file that was damaged later.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name

    def save(self, done: int, total: int) -> Checkpoint:
        """Write the next one and drop the oldest."""
        self._folder.mkdir(parents=True, exist_ok=True)
        numbers = self._numbers()
        made = Checkpoint(max(numbers, default=0) + 1, done, total)
        content = {"number": made.number, "done": done, "total": total}
        text = json.dumps(content | {"sha256": _digest(content)})
        write_text(self._path(made.number), text, durable=True)
        for number in sorted(numbers)[: -_KEPT + 1]:
            self._path(number).unlink(missing_ok=True)
        return made

    def newest(self, most: int | None = None) -> Checkpoint | None:
        """The newest whole checkpoint of not more than `most` work; None if there is none."""
        found = (self._read(number) for number in sorted(self._numbers(), reverse=True))
        return next(
            (each for each in found if each is not None and (most is None or each.done <= most)), None
        )

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._name}.checkpoint-{number:06d}"

    def _numbers(self) -> list[int]:
        texts = [path.name.rpartition("-")[2] for path in self._folder.glob(f"{self._name}.checkpoint-*")]
        return [int(text) for text in texts if text.isdecimal()]

    def _read(self, number: int) -> Checkpoint | None:
        try:
            content = json.loads(self._path(number).read_text(encoding="utf-8"))
            digest = content.pop("sha256")
            found = Checkpoint(int(content["number"]), int(content["done"]), int(content["total"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None  # damaged, or dropped meanwhile: an older one will do
        return found if digest == _digest(content) else None


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


WORK_LEFT = 75
"""Exit status of a job that left before its end: start it again and it goes on (EX_TEMPFAIL)."""


@dataclass(slots=True)
class Job:
    """One run of a job, from its control's first message to its last line. Amounts in node-microseconds.

    `step`: how much work a line of output stands for. `every_us`: a checkpoint after so much computing (0: none),
    which takes `write_us`; `setup_us`: time before the first work of each run. A batch system that keeps account
    of the job says these three itself.
    """

    total: int
    step: int
    control: JobControl
    checkpoints: Checkpoints | None
    write_line: Callable[[str], None]
    every_us: int = 0
    write_us: int = 0
    setup_us: int = 0
    _phase: Phase = field(init=False, repr=False)
    _reported: int = field(init=False, repr=False, default=0)
    """Work up to here is in the output."""
    _own_checkpoints: int = field(init=False, repr=False, default=0)
    """Those of this phase that are written."""
    _requested_save: tuple[int, int] | None = field(init=False, repr=False, default=None)
    """(when it is whole, what it keeps) of a checkpoint that somebody asked for."""
    _saved: int = field(init=False, repr=False, default=0)
    """What the newest checkpoint keeps."""
    _told_end: bool = field(init=False, repr=False, default=False)

    def run(self) -> int:
        """Work until all is done or the job has to leave. The exit status."""
        now_us = self._begin(self.control.begin(self.total))
        while (
            (done := self._phase.at(now_us)) < self.total
            or self._requested_save is not None
            or self._told_end
        ):
            message = self.control.wait(self._due_us(), done)
            now_us = message.at_us
            self._catch_up(now_us)
            if message.what == MessageKind.CHANGE:
                self._change(message)
            elif message.what == MessageKind.LEAVE:
                return self._leave(message)
        return self._finish(now_us)

    def _finish(self, now_us: int) -> int:
        self._say("finished", now_us, done=self.total)
        self.control.over(self.total)
        return 0

    def _begin(self, message: Message) -> int:
        self._told_end = message.told_end
        if message.total is not None and message.total != self.total:
            self.step = max(1, self.step * message.total // self.total)
            self.total = message.total
        found = None if self.checkpoints is None else self.checkpoints.newest(message.begun)
        if found is not None and found.total != self.total:
            raise ValueError(f"the checkpoint is of a job with other work ({found.total}, not {self.total})")
        if message.interval_us is not None:
            self.every_us, self.write_us = message.interval_us, message.cost_us
        done = 0 if found is None else found.done
        self._new_phase(
            message, done, message.at_us + self.setup_us if message.since_us is None else message.since_us
        )
        self._reported = self._saved = done
        begun: dict[str, Any] = {"run": message.run, "nodes": message.nodes, "of": self.total, "done": done}
        if found is not None:
            begun["checkpoint"] = found.number
        self._say("begins", message.at_us, **begun)
        return message.at_us

    def _new_phase(self, message: Message, done: int, since_us: int) -> None:
        interval_us = 0 if self.checkpoints is None else self.every_us
        rate = (message.nodes, message.num, message.den)
        self._phase = Phase(self.total, done, since_us, *rate, interval_us, self.write_us)
        self._own_checkpoints = 0

    def _due_us(self) -> int:
        """When there is something to write down: a step of work, the end, or a checkpoint that is whole."""
        next_line = min((self._reported // self.step + 1) * self.step, self.total)
        line_us = self._phase.when_us(next_line) if next_line > self._reported else NEVER_US
        saves = (self._requested_save, self._phase.checkpoint(self._own_checkpoints + 1))
        return min(line_us, *(save[0] for save in saves if save is not None), NEVER_US)

    def _catch_up(self, now_us: int) -> None:
        """Write down what was done and saved until now."""
        while (save := self._phase.checkpoint(self._own_checkpoints + 1)) is not None and save[0] <= now_us:
            self._own_checkpoints += 1
            self._save(save[1], save[0])
        if self._requested_save is not None and self._requested_save[0] <= now_us:
            self._save(self._requested_save[1], self._requested_save[0])
            self._requested_save = None
        done = self._phase.at(now_us)
        self._tell(done if done == self.total else done // self.step * self.step, now_us)

    def _change(self, message: Message) -> None:
        done = self._phase.at(message.at_us)
        self._tell(done, message.at_us)
        since_us = max(self._phase.since_us, message.at_us) if message.since_us is None else message.since_us
        self._new_phase(message, done, since_us)
        self._requested_save = None if message.save_us == NEVER_US else (message.save_us, done)
        changed: dict[str, Any] = {"nodes": message.nodes, "rate": f"{message.num}/{message.den}"}
        if since_us > message.at_us:
            changed["stands_until_us"] = None if since_us == NEVER_US else since_us
        self._say("changed", message.at_us, **changed)
        self._catch_up(message.at_us)

    def _leave(self, message: Message) -> int:
        done = self._phase.at(message.at_us)
        self._tell(done, message.at_us)
        if message.why == OVER and done == self.total:
            return self._finish(message.at_us)
        if message.save:
            self._save(done, message.at_us)
        self._say("leaves", message.at_us, why=message.why, done=done)
        self.control.over(done)
        return WORK_LEFT

    def _save(self, done: int, now_us: int) -> None:
        if self.checkpoints is not None and done != self._saved:
            self._tell(done, now_us)
            made = self.checkpoints.save(done, self.total)
            self._saved = done
            self._say("checkpoint", now_us, number=made.number, done=made.done)

    def _tell(self, done: int, now_us: int) -> None:
        """One line for each whole step of work up to `done`, and one for the rest."""
        while self._reported < done:
            to = min((self._reported // self.step + 1) * self.step, done)
            self._say("work", now_us, **{"from": self._reported, "to": to}, nodes=self._phase.nodes)
            self._reported = to

    def _say(self, event: str, at_us: int, **more: Any) -> None:
        self.write_line(json.dumps({"event": event, "at_us": at_us} | more) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.prove is not None:
            return _prove(options.prove)
        return _job(options).run()
    except (OSError, ValueError) as error:
        sys.stderr.write(f"emulator-job: {error}\n")
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="emulator-job",
        description="Do a known amount of work at the rate the nodes allow, with checkpoints, and write down what "
        "was done. Started by a node's agent it follows the cluster's clock and what the batch system does to it; "
        "otherwise it is a plain program: SIGUSR1 writes a checkpoint, SIGUSR2 reads --nodes-file again, "
        f"SIGTERM saves and leaves with status {WORK_LEFT}.",
    )
    purpose = parser.add_mutually_exclusive_group(required=True)
    purpose.add_argument("--work", type=_amount, metavar="NODE_SECONDS", help="how much work there is")
    purpose.add_argument("--prove", type=Path, metavar="OUTPUT", help="check the output of a job, and exit")
    parser.add_argument(
        "--step", type=_amount, metavar="NODE_SECONDS", help="work a line (default: a twentieth)"
    )
    parser.add_argument("--name", default=_job_name(), help="of its checkpoints (default: the job's number)")
    parser.add_argument(
        "--checkpoints", type=Path, metavar="FOLDER", help="where they are written and looked for"
    )
    parser.add_argument("--every", type=_time, default=0, metavar="S", help="a checkpoint after so long")
    parser.add_argument("--write", type=_time, default=0, metavar="S", help="how long writing one takes")
    parser.add_argument(
        "--setup", type=_time, default=0, metavar="S", help="time before the first work of a run"
    )
    plain = parser.add_argument_group("without an agent")
    plain.add_argument("--nodes", type=int, default=1, help="how many nodes it has (default 1)")
    plain.add_argument("--nodes-file", type=Path, help="a number, or names of nodes, such as $PBS_NODEFILE")
    plain.add_argument("--clock", type=Path, help="clock file of a run (default: the machine's time)")
    plain.add_argument(
        "--free-clock", type=Path, metavar="FILE", help="clock file of a run whose clock does not wait"
    )
    plain.add_argument(
        "--orders", type=Path, metavar="FILE", help="with --free-clock: what to do, read again at SIGUSR2"
    )
    plain.add_argument("--speed", type=float, default=1.0, help="seconds of work in a second (default 1)")
    return parser


def _job(options: argparse.Namespace) -> Job:
    if options.nodes < 1 or options.speed <= 0 or options.work <= 0 or options.step == 0:
        raise ValueError("--work, --step, --nodes and --speed must be more than 0")
    control: JobControl | None = agent_control()
    if control is None and options.free_clock is not None:
        control = OrderControl(ClockReader(options.free_clock), options.orders, options.nodes)
    elif control is None:
        clock = SharedClock(options.clock) if options.clock else SystemClock()
        control = SignalControl(clock, options.nodes_file, options.nodes, options.speed)
    return Job(
        total=options.work,
        step=options.step or max(1, options.work // 20),
        control=control,
        checkpoints=Checkpoints(options.checkpoints, options.name) if options.checkpoints else None,
        write_line=_write_line,
        every_us=options.every,
        write_us=options.write,
        setup_us=options.setup,
    )


def _write_line(line: str) -> None:
    """At once and as a whole: nothing that was done before a kill may be missing."""
    os.write(sys.stdout.fileno(), line.encode())


def _prove(path: Path) -> int:
    try:
        with path.open(encoding="utf-8") as file:
            proof = prove(file)
    except ProofError as error:
        sys.stderr.write(f"{path}: {error}\n")
        return 1
    text = f"{proof.done / US:g} node-seconds done in {proof.runs} runs, "
    text += f"{proof.lost / US:g} of them lost and done again, "
    text += f"{(proof.done - proof.lost) / US:g} of {proof.total / US:g} count"
    sys.stdout.write(text + ("\n" if proof.finished else "; it is not over\n"))
    return 0 if proof.finished else 1


def _job_name() -> str:
    return os.environ.get("PBS_JOBID", "job").partition(".")[0]


def _time(text: str) -> int:
    return _amount(text)


def _amount(text: str) -> int:
    """Seconds (also node-seconds), with up to six decimals, in microseconds."""
    exact = Fraction(text) * US
    if exact.denominator != 1 or exact < 0:
        raise ValueError(text)
    return exact.numerator


if __name__ == "__main__":
    sys.exit(main())
