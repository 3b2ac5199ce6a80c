"""`emulator-job`: does a known amount of work at the rate its nodes allow, and writes down what it does.

It does not burn the processor: work is cluster time on nodes. Each line of its output is a JSON object; `--prove`
reads them back. How it hears of the time, of other nodes and of its end: `keepers.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from balancer.clock import US, SharedClock, SystemClock
from emulator.live.job.checkpoints import Checkpoints
from emulator.live.job.keepers import PlainKeeper, What, agent_keeper
from emulator.live.job.proof import ProofError, prove
from emulator.live.job.work import Work, as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from emulator.live.job.keepers import Keeper, Word

WORK_LEFT = 75
"""Exit status of a job that left before its end: start it again and it goes on (EX_TEMPFAIL)."""


@dataclass(slots=True)
class Job:
    """One run of a job, from its keeper's first word to its last line. Amounts in node-microseconds.

    `step`: how much work a line of output stands for. `every_us`: a checkpoint after so much time (0: none),
    which takes `write_us`; `setup_us`: time before the first work of each run.
    """

    total: int
    step: int
    keeper: Keeper
    checkpoints: Checkpoints | None
    write_line: Callable[[str], None]
    every_us: int = 0
    write_us: int = 0
    setup_us: int = 0
    _work: Work = field(init=False, repr=False)
    _told: Fraction = field(init=False, repr=False, default=Fraction(0))
    """Work up to here is in the output."""
    _next_checkpoint_us: int | None = field(init=False, repr=False, default=None)

    def run(self) -> int:
        """Work until all is done or the job has to leave. The exit status."""
        self._begin(self.keeper.begin(self.total))
        while self._work.done < self.total:
            word = self.keeper.wait(self._due_us(), self._work.done)
            self._take(word)
            if word.what == What.LEAVE:
                self._say("leaves", word.at_us, why=word.why, done=as_text(self._work.done))
                self.keeper.over(self._work.done)
                return WORK_LEFT
        self._say("finished", self._work.since_us, done=as_text(self._work.done))
        self.keeper.over(self._work.done)
        return 0

    def _begin(self, word: Word) -> None:
        found = None if self.checkpoints is None else self.checkpoints.newest(at_most=word.saved)
        if found is not None and found.total != self.total:
            raise ValueError(f"the checkpoint is of a job with other work ({found.total}, not {self.total})")
        done = Fraction(0) if found is None else found.done
        stall_us = max(word.stall_us, self.setup_us)
        self._work = Work(self.total, done, word.at_us, word.nodes, word.rate, word.at_us + stall_us)
        self._told = done
        self._plan_checkpoint(word.at_us + stall_us)
        begun: dict[str, Any] = {
            "run": word.run,
            "nodes": word.nodes,
            "of": self.total,
            "done": as_text(done),
        }
        if found is not None:
            begun["checkpoint"] = found.number
        self._say("begins", word.at_us, **begun)

    def _due_us(self) -> int:
        next_line = (self._told // self.step + 1) * self.step
        due_us = self._work.when_us(min(next_line, Fraction(self.total)))
        return due_us if self._next_checkpoint_us is None else min(due_us, self._next_checkpoint_us)

    def _take(self, word: Word) -> None:
        self._work.advance(word.at_us)
        self._tell(word.at_us, whole_steps=word.what == What.TICK and not self._is_checkpoint_due(word))
        if word.what == What.CHANGE:
            self._work.nodes, self._work.rate = word.nodes, word.rate
            self._say("changed", word.at_us, nodes=word.nodes, rate=as_text(word.rate))
        if word.save or self._is_checkpoint_due(word):
            self._save(word)
        if word.stall_us:
            self._work.stalled_until_us = word.at_us + word.stall_us

    def _is_checkpoint_due(self, word: Word) -> bool:
        due_us = self._next_checkpoint_us
        is_due = word.what == What.TICK and due_us is not None and word.at_us >= due_us
        return is_due and self._work.done < self.total

    def _save(self, word: Word) -> None:
        if self.checkpoints is None:
            return
        made = self.checkpoints.save(self._work.done, self.total)
        self._say("checkpoint", word.at_us, number=made.number, done=as_text(made.done))
        stall_us = self.write_us if word.what == What.TICK else word.stall_us
        self._work.stalled_until_us = word.at_us + stall_us
        self._plan_checkpoint(word.at_us + stall_us)

    def _plan_checkpoint(self, from_us: int) -> None:
        if self.every_us and self.checkpoints is not None:
            self._next_checkpoint_us = from_us + self.every_us

    def _tell(self, now_us: int, *, whole_steps: bool) -> None:
        """Lines for the work up to now: one a whole step, and, if wanted, one for the rest."""
        while self._told < self._work.done:
            next_line = Fraction((self._told // self.step + 1) * self.step)
            to = min(next_line, self._work.done)
            if whole_steps and to % self.step and to < self.total:
                return
            amounts = {"from": as_text(self._told), "to": as_text(to)}
            self._say("work", now_us, **amounts, nodes=self._work.nodes)
            self._told = to

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
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--work", type=_amount, metavar="NODE_SECONDS", help="how much work there is")
    asked.add_argument("--prove", type=Path, metavar="OUTPUT", help="check the output of a job, and exit")
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
    plain.add_argument("--speed", type=float, default=1.0, help="seconds of work in a second (default 1)")
    return parser


def _job(options: argparse.Namespace) -> Job:
    if options.nodes < 1 or options.speed <= 0 or options.work <= 0 or options.step == 0:
        raise ValueError("--work, --step, --nodes and --speed must be more than 0")
    keeper: Keeper | None = agent_keeper()
    if keeper is None:
        clock = SharedClock(options.clock) if options.clock else SystemClock()
        keeper = PlainKeeper(clock, options.nodes_file, options.nodes, options.speed)
    return Job(
        total=options.work,
        step=options.step or max(1, options.work // 20),
        keeper=keeper,
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
    text = f"{float(proof.done) / US:g} node-seconds done in {proof.runs} runs, "
    text += f"{float(proof.lost) / US:g} of them lost and done again, "
    text += f"{float(proof.done - proof.lost) / US:g} of {proof.total / US:g} count"
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
