"""What `balancer status` shows, line by line."""

from __future__ import annotations

from typing import Any

from balancer.lifecycle.states import STATE_WORDS
from balancer.nodelist import some


def rows_of(found: dict[str, Any]) -> list[list[str]]:
    """WHAT and HOW, of the answer of /v1/status; older services do not tell all of it."""
    rows = [
        [state, f"{count}, {_in_words(state)}"] for state, count in sorted(found["nodes"].items()) if count
    ]
    rows += _headroom(found)
    rows += [[f"quarantined {name}", why] for name, why in _quarantined(found)]
    failed = sorted(found.get("failed", {}).items())
    rows += [[f"failed {name}", f"granted, and down since {since}"] for name, since in failed]
    waiting = found["waiting"]
    rows.append(["waiting requests", _since(waiting["requests"], waiting["oldest_s"], "the oldest for")])
    systems = [(system, found[system]) for system in ("batch", "cloud") if found[system] is not None]
    rows += [[f"{system} ({each['name']})", _answers(each)] for system, each in systems]
    rows.append(["hooks", _hooks(found)])
    if found["frozen"] is not None:
        rows.append(["frozen", _frozen(**found["frozen"])])
    if found.get("claimed"):  # not told by older services
        rows.append(["claimed", "by another Balancer: nothing is moved, see `balancer adopt`"])
    rows.append(["ready", "yes" if found["problem"] is None else f"no: {found['problem']}"])
    return rows


def _hooks(status: dict[str, Any]) -> str:
    last_s, unannounced = status.get("last_hook_s"), status.get("unannounced")  # not told by older services
    text = "not seen since the start" if last_s is None else f"seen {last_s:.0f} s ago"
    return f"{text}, and none told of the jobs on {some(unannounced)}" if unannounced else text


def _in_words(state: str) -> str:
    return {each.value: words for each, words in STATE_WORDS.items()}.get(state, "")


def _frozen(by: str, at: str, reason: str) -> str:
    return f"by {by}{at and f' at {at}'}: {reason}"


def _headroom(status: dict[str, Any]) -> list[list[str]]:
    """Not told by older services."""
    if "headroom" not in status:
        return []
    room = status["headroom"]
    parts = f"{room['reserve']} in reserve, {room['idle']} idle, {room['ending']} whose jobs must end"
    waiting = f", less {room['wanted']} that requests wait for" if room["wanted"] else ""
    within = f"could be granted within {room['within_s'] / 60:.0f} min"
    asleep = [["asleep", str(status["asleep"])]] if status["asleep"] else []
    return [[within, f"{room['nodes']}: {parts}{waiting}"], *asleep]


def _quarantined(status: dict[str, Any]) -> list[tuple[str, str]]:
    """Services up to 0.3 tell it as `held`."""
    return sorted((status.get("quarantined") or status.get("held", {})).items())


def _since(count: int, age_s: float | None, text: str) -> str:
    return f"{count}, {text} {age_s:.0f} s" if age_s is not None else str(count)


def _answers(system: dict[str, Any]) -> str:
    last = "never answered" if system["age_s"] is None else f"answered {system['age_s']:.0f} s ago"
    return last if system["error"] is None else f"unreachable, {last}: {system['error']}"
