"""A study's answer in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.study import longer_limits
from emulator.study.growth import LOADS
from emulator.study.settings import SPLIT
from emulator.study.verdict import KEEP, MERGE
from emulator.text.number_text import duration, grouped, number_of, percent

if TYPE_CHECKING:
    from emulator.study.answer import Answer
    from emulator.study.judge import Advice

HOURS_A_YEAR = 8_766


def recommendations(answer: Answer) -> list[list[str]]:
    """Paragraphs: what to do without a notice from users, what a wait would change, what to do with a notice."""
    waits = [] if answer.waiting is None else [longer_limits.sentence(answer.waiting)]
    without = [sentences(answer, each) for prefix, each in answer.advice if not prefix]
    announced = [
        [prefix + answer.verdict_of(each).sentence, *sentences(answer, each)]
        for prefix, each in answer.advice
        if prefix
    ]
    return [each for each in [*without, waits, *announced] if each]


def sentences(answer: Answer, advice: Advice) -> list[str]:
    """A recommendation in words."""
    each, notice = advice.figures, advice.notice
    words = f"{each.setting.words} ({each.setting.label} in the tables)"
    if not advice.meets:
        nearest = (
            f"No merger {notice} that was tried keeps to your limits ({answer.wishes.limits}). Of those with such a"
            f" wait the one with {words} comes nearest:"
            f" {grouped(each.rejected)} of {grouped(each.requests)} requests rejected."
        )
        # A row of the table that does keep to them with a longer wait is told by itself.
        return [nearest, *([] if answer.waiting else ["Try larger reserves, longer waits or a notice."])]
    given_up = answer.given_up(advice)
    is_taken = answer.verdict_of(advice).value == MERGE
    begin = "Merge" if is_taken else f"The best merger {notice} within your limits is the one"
    first = (
        f"{begin} with {words}: of {grouped(each.requests)} on-demand requests"
        f" {grouped(each.rejected)} are rejected, and"
        f" {given_up} of the {answer.ondemand_nodes} on-demand nodes ({percent(given_up / answer.ondemand_nodes, 0)})"
        f" need not be set aside ({grouped(each.idle_node_h)} node-hours a week stand idle in reserve)."
    )
    waits = f"Batch jobs wait {duration(60 * each.wait_min)} on average."
    if each.wait_ratio is not None and advice.wait_ratio is not None:
        low, high = advice.wait_ratio
        waits = (
            f"Batch jobs wait {duration(60 * each.wait_min)} on average, {percent(each.wait_ratio, 0)} of today's"
            f" simulated wait (95 %: {100 * low:.0f} to {percent(high, 0)})."
        )
    if each.shared_wait_min is not None:
        what = "nodes that jobs share or that are down" if len(answer.logs.down) else "nodes that jobs share"
        today = next(
            (figures.shared_wait_min for figures in answer.found if figures.setting.algorithm == SPLIT), None
        )
        waits += f" Jobs wait {duration(60 * each.shared_wait_min)} for {what}"
        waits += "." if today is None else f", {duration(60 * today)} today."
    sure = (
        f"Confidence: with weeks drawn anew from these {advice.weeks}, it meets your limits and batch jobs wait no"
        f" longer than today in {percent(advice.confidence, 0)} of the draws, and it is the best choice in"
        f" {percent(advice.same_choice, 0)}. With {number_of(advice.weeks, 'week')} simulated, up to"
        f" {percent(advice.unseen_weeks, 0)} of future weeks could still see a refusal (95 % bound)."
    )
    is_out = answer.verdict_of(advice).value == KEEP
    return [first, waits, *([] if is_out else _worth(answer, given_up)), sure]


def _worth(answer: Answer, given_up: int) -> list[str]:
    if answer.price is None:
        return []
    hours = given_up * HOURS_A_YEAR
    worth = answer.price * hours
    return [
        (
            f"Those {given_up} nodes are {grouped(hours)} node-hours a year, at {answer.price:g}"
            f" each worth {grouped(worth)}."
        )
    ]


def proofs(answer: Answer) -> list[str]:
    """What the first recommendation costs whom, and how it did on weeks that it was not made from."""
    lines = []
    found = answer.wait_changes
    if found is not None:
        losers = [each for each in (*found.by_size, *found.by_run_time) if each.then_min > each.today_min]
        lines.append(
            "No kind of job waits longer than today, by size or by run time."
            if not losers
            else "Longer than today wait: "
            + "; ".join(
                f"{each.name} ({grouped(each.jobs)} jobs, {grouped(each.today_min)} to {grouped(each.then_min)} min)"
                for each in losers
            )
            + "."
        )
        if found.users:
            lines[-1] += (
                f" Of {found.users} users with ten jobs and more {found.users_that_lose} wait longer."
            )
    trial = answer.held_out
    if trial is not None:
        ratio = (
            ""
            if trial.wait_ratio is None
            else f", and batch jobs wait {percent(trial.wait_ratio, 0)} of today's"
        )
        other = (
            ""
            if trial.best == trial.setting
            else f" Those weeks alone would have recommended {trial.best.words}."
        )
        lines.append(
            f"On trial: the first {trial.first_weeks} weeks alone recommend {trial.setting.words}; in the"
            f" {trial.then_weeks} weeks after them it rejects {grouped(trial.rejected)} of"
            f" {grouped(trial.requests)} requests"
            f"{'' if trial.keeps else ' (more than you accept)'}{ratio}.{other}"
        )
    return lines


def growth(answer: Answer) -> str:
    """How the recommendation changes when either load grows; empty if it was not asked for."""
    parts = []
    for load in LOADS:
        steps = [each for each in answer.growth if each.load == load]
        if not steps:
            continue
        nodes = _listed(["none" if each.best is None else str(each.best.given_up) for each in steps])
        waits = _listed([grouped((each.best or each.kept).wait_min) for each in steps])
        rejected = _listed(
            [f"{grouped(each.kept.rejected)} of {grouped(each.kept.requests)}" for each in steps]
        )
        parts.append(
            f"With {_listed([f'{each.percent:g}' for each in steps])} % more {load} load {nodes} of the"
            f" {answer.ondemand_nodes} on-demand nodes could be given up, batch jobs would wait {waits} min, and"
            f" {steps[0].kept.setting}, kept as it is, would reject {rejected} requests."
        )
    return " ".join(parts)


def _listed(parts: list[str]) -> str:
    """`a, b or c`; `a` if all are alike."""
    different = list(dict.fromkeys(parts))
    return parts[0] if len(different) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"


def assumed(answer: Answer) -> str:
    """What the answer rests on."""
    batch_nodes = answer.logs.batch_nodes
    return (
        f"Assumed: {batch_nodes} batch and {answer.ondemand_nodes} on-demand nodes that are alike, scheduler"
        f" {answer.scheduler}, walltimes as users gave them, demand as in these {len(answer.weeks)} weeks."
    )
