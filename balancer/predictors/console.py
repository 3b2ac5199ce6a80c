"""What `balancer predict` and `balancer predictor backtest` do."""

from __future__ import annotations

import csv
import json
import signal
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
import yaml

from balancer.client import BalancerError, of_environment
from balancer.clock import Clock, SystemClock, micros, micros_or_none, seconds
from balancer.plugins import CLOCKS, PREDICTORS, PluginError, make_plugin, name_and_values, plugin_names
from balancer.predictors.backtest import backtest
from balancer.predictors.interface import DAY_S, History, Slots
from balancer.predictors.planner import Keep
from balancer.predictors.runner import PredictorRunner, Step, read_history
from balancer.timestamps import iso_s, parse_iso
from balancer.whole_file import write_text
from balancer.wrong_values import not_yaml
from balancer.yaml_text import read_yaml

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


_LONGEST_DAYS = 400


def run_predictor(
    *,
    url: str,
    predictor: object,
    changes: Sequence[str],
    slots_per_day: int,
    keep: str,
    once: bool,
    dry_run: bool,
    clock: object,
    as_json: bool,
    before: Path | None = None,
    until_s: float | None = None,
    ready_file: Path | None = None,
) -> None:
    """Run the predictor until SIGTERM or Ctrl-C, or for one step. Raises ValueError if that or a parameter fails."""
    time: Clock = make_plugin(CLOCKS, clock)
    made = make_plugin(PREDICTORS, with_parameters(predictor, changes))
    slots = Slots(slots_per_day)
    with of_environment(url, patience_s=1.0) as balancer:
        runner = PredictorRunner(
            balancer=balancer,
            predictor=made,
            slots=slots,
            keep=Keep(keep),
            before=read_file(before, slots).nodes if before is not None else (),
            until_us=micros_or_none(until_s),
        )

        def print_step(step: Step | BalancerError) -> None:
            if isinstance(step, BalancerError):
                click.echo(f"balancer: {step}; trying again in a minute", err=True)
            else:
                click.echo(json.dumps(asdict(step)) if as_json else _in_words(step))
                if ready_file is not None:
                    write_text(ready_file, json.dumps(asdict(step)) + "\n")

        if once:
            try:
                print_step(runner.step(time.now_us(), dry_run=dry_run))
            except BalancerError as error:
                raise ValueError(str(error)) from error
            return
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        runner.run(time, stop, print_step)


def with_parameters(item: object, changes: Sequence[str]) -> dict[str, object]:
    """The predictor with `NAME=VALUE`s (values in YAML) over what it was written with. Raises ValueError."""
    predictor, values = name_and_values(PREDICTORS, item)
    if values is not None and not isinstance(values, dict) and changes:
        raise PluginError(f"predictor {predictor}: --set goes with parameters by name, not {values!r}")
    found: dict[str, object] = {} if values is None else dict(values)
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals or not name:
            raise ValueError(f"--set {change}: expected NAME=VALUE, for example quantile=0.95")
        try:
            found[name] = read_yaml(text)
        except yaml.YAMLError as error:
            raise ValueError(f"--set {change}{not_yaml(error, with_line=False)}") from error
    return {predictor: found}


def backtest_table(
    names: Sequence[str],
    url: str | None,
    path: Path | None,
    *,
    quantile: float,
    warmup_days: int,
    slots_per_day: int,
) -> tuple[list[dict[str, Any]], list[str], list[list[str]]]:
    """Scores, best first, as JSON, header and rows. Raises ValueError."""
    if (url is None) == (path is None):
        raise ValueError("give either --url or --history: where is the history to be taken from?")
    slots = Slots(slots_per_day)
    history = read_file(path, slots) if path is not None else _from_service(str(url), slots)
    scores = {
        name: backtest(make_plugin(PREDICTORS, name), history, quantile=quantile, warmup_days=warmup_days)
        for name in names or plugin_names(PREDICTORS)
    }
    best_first = sorted(scores.items(), key=lambda item: (item[1].pinball_loss, item[0]))
    shown = [{"predictor": name, **asdict(score), "covered": score.covered} for name, score in best_first]
    header = ["PREDICTOR", "PINBALL LOSS", "COVERED", "SLOTS SHORT", "NODES SHORT", "WASTED NODE-H"]
    rows = [
        [
            name,
            f"{score.pinball_loss:.2f}",
            f"{100 * score.covered:.1f} %",
            f"{score.slots_short} of {score.slots}",
            f"{score.nodes_short} of {score.nodes_requested}",
            f"{score.wasted_node_h:.0f}",
        ]
        for name, score in best_first
    ]
    return shown, header, rows


def read_file(path: Path, slots: Slots) -> History:
    """A history from JSON (`{"slots": [...]}`) or CSV with `nodes_requested` and, if known, `start`.

    Raises ValueError naming the file and line.
    """
    try:
        text = path.read_text(encoding="utf-8")
        is_json = text.lstrip().startswith("{")
        rows = json.loads(text)["slots"] if is_json else list(csv.DictReader(text.splitlines()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a history: {error}") from error
    nodes: list[int] = []
    first = 0
    for line, row in enumerate(rows, 1 if is_json else 2):
        where = f"{path}, {'slot' if is_json else 'line'} {line}"
        try:
            count = int(row["nodes_requested"])
            slot = slots.at(parse_iso(row["start"])) if row.get("start") else first + len(nodes)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"{where}: needs nodes_requested (a whole number) and start: {error}") from error
        if count < 0:
            raise ValueError(f"{where}: nodes_requested is {count}")
        if not nodes:
            first = slot
        if slot != first + len(nodes):
            raise ValueError(
                f"{where}: starts at {row['start']}, expected {iso_s(slots.begin_us(first + len(nodes)))}"
                f" for {slots.a_day} slots a day (see --slots-per-day)"
            )
        nodes.append(count)
    return History(first, nodes, slots.a_day)


def _from_service(url: str, slots: Slots) -> History:
    """All complete slots since the first request."""
    now_us = SystemClock().now_us()
    end_s = seconds(slots.begin_us(slots.at(now_us)))
    try:
        with of_environment(url, patience_s=1.0) as balancer:
            history = read_history(balancer, slots, max(0.0, end_s - _LONGEST_DAYS * DAY_S), end_s)
    except BalancerError as error:
        raise ValueError(str(error)) from error
    complete = history.until(slots.at(micros(end_s)))
    begin = next((at for at, nodes in enumerate(complete.nodes) if nodes), len(complete.nodes))
    return History(complete.first + begin, complete.nodes[begin:], slots.a_day)


def _in_words(step: Step) -> str:
    done = f"reserve {step.reserve_id}" if step.reserve_id else "nothing reserved"
    return f"{iso_s(micros(step.at_s))} slot {iso_s(micros(step.slot_s))}: {step.nodes} nodes, {done}"
