"""Reserves that a replay makes at the Balancer: announced leases, and capacity that comes again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import requests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.live.replayer_config import ReplayerConfig

_TIMEOUT_S = 30


def add_reserve(config: ReplayerConfig, body: Mapping[str, Any], key: str = "") -> str:
    """A reserve: N nodes, H ahead (the paper's), or one with `every`. Returns why it failed; "": it did not.

    `key`: one call in however many replays go on from one another.
    """
    headers = {} if config.balancer_token is None else {"Authorization": f"Bearer {config.balancer_token}"}
    try:
        response = requests.post(
            f"{config.balancer_url}/v1/add_reserve",
            json=body,
            headers=headers | ({"Idempotency-Key": key} if key else {}),
            timeout=_TIMEOUT_S,
        )
    except requests.RequestException as error:
        return f"unreachable: {error}"
    return "" if response.ok else response.text.strip()
