"""What the front end allows a caller to take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Wall times and sizes. `threads`: of the lane of ordinary calls; `streams`: event streams at a time."""

    threads: int = 32
    hook_threads: int = 8
    health_threads: int = 2
    streams: int = 32
    header_s: float = 30.0
    body_s: float = 30.0
    max_header_bytes: int = 64 * 1024
    max_body_bytes: int = 4 * 1024 * 1024
    max_connections: int = 8192
