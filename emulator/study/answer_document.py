"""A study's answer as JSON has it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from emulator.study.longer_limits import as_dict
from emulator.study.plausible import trust
from emulator.study.wording import sentences

if TYPE_CHECKING:
    from emulator.study.answer import Answer
    from emulator.study.judge import Figures


def answer_document(answer: Answer) -> dict[str, Any]:
    """The whole answer."""
    return {
        "verdict": answer.verdicts[0].value,
        "reason": answer.verdicts[0].reason,
        "batch_nodes": answer.logs.batch_nodes,
        "ondemand_nodes": answer.ondemand_nodes,
        "wishes": asdict(answer.wishes),
        "weeks": [answer.logs.weeks[week].as_dict() for week in answer.weeks],
        "notes": list(answer.logs.notes),
        "settings": [figures_document(answer, each) for each in answer.found],
        "advice": [
            {
                **asdict(each),
                "figures": figures_document(answer, each.figures),
                "with_notice": bool(prefix),
                "verdict": answer.verdict_of(each).value,
                "reason": answer.verdict_of(each).reason,
                "text": " ".join(sentences(answer, each)),
            }
            for prefix, each in answer.advice
        ],
        "if_requests_wait": None if answer.waiting is None else as_dict(answer.waiting),
        "held_out": None
        if answer.held_out is None
        else {
            **asdict(answer.held_out),
            "setting": answer.held_out.setting.label,
            "best": answer.held_out.best.label,
        },
        "who": None if answer.wait_changes is None else asdict(answer.wait_changes),
        "today": [asdict(each) for each in answer.today],
        "trust": trust(answer.today),
        **({"growth": [asdict(each) for each in answer.growth]} if answer.growth else {}),
    }


def figures_document(answer: Answer, each: Figures) -> dict[str, Any]:
    low, high = answer.ratios.get(each.setting.label, (None, None))
    return {
        **asdict(each),
        "setting": each.setting.label,
        "algorithm": each.setting.algorithm,
        "reserve": each.setting.reserve,
        "wait_limit_min": each.setting.wait_min,
        "notice_min": each.setting.notice_min,
        "reject_rate": each.reject_rate,
        "wait_ratio_low": low,
        "wait_ratio_high": high,
    }
