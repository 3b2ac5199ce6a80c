"""EASY promises one thing: backfilling never delays the head. Checked on finished schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oracle.reference import Job


def assert_easy_protects_head(jobs: list[Job], nodes: int, schedule: dict[int, tuple[int, int]]) -> int:
    """First come first served, estimates that are not exceeded: no head starts after the shadow it saw first.

    A job becomes the head at the time the last job ahead of it has started (or at its own submit, if nobody
    waits). Its shadow is the first time at which the jobs that run then, backfilled ones of that very
    time left out, would leave it room if they ran for all of their estimates. Returns how many heads waited.
    """
    in_order = sorted(jobs, key=lambda job: (job.submit_us, job.number))
    became_head_us = 0
    blocked = 0
    for place, head in enumerate(in_order):
        assert head.run_us <= head.estimate_us, f"job {head.number} runs past its estimate"
        became_head_us = max(became_head_us, head.submit_us)
        start_us, _ = schedule[head.number]
        if start_us > became_head_us:
            blocked += 1
            ahead = {job.number for job in in_order[:place]}
            running = [
                job
                for job in jobs
                if schedule[job.number][0] < became_head_us < schedule[job.number][1]
                or (schedule[job.number][0] == became_head_us and job.number in ahead)
            ]
            free = nodes
            for job in running:
                free -= job.nodes
            shadow_us = became_head_us
            for job in sorted(running, key=lambda job: schedule[job.number][0] + job.estimate_us):
                if free >= head.nodes:
                    break
                free += job.nodes
                shadow_us = schedule[job.number][0] + job.estimate_us
            assert start_us <= shadow_us, (
                f"job {head.number} was the head from {became_head_us} us, reserved for {shadow_us} us, "
                f"and started at {start_us} us"
            )
        became_head_us = max(became_head_us, start_us)
    return blocked
