"""The steps, one after the other: what each asserts is its name. Run by the booted machine of `scripts/first-month`."""

from __future__ import annotations

import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from first_month import bad_days, days, ending, install, service, two_services
from first_month.machine import StepError, run

if TYPE_CHECKING:
    from collections.abc import Callable

SETUP = (
    install.the_cluster_runs_jobs_without_a_balancer,
    install.the_package_installs_and_brings_user_man_page_and_unit,
    install.check_says_what_is_missing_and_each_line_says_what_to_do,
    install.hooks_and_tokens_are_made_by_the_pages,
    install.check_is_content,
    install.the_unit_serves_and_says_so,
)
MONTH = (*days.STEPS, *bad_days.STEPS, *two_services.STEPS, *ending.STEPS)


def main() -> int:
    words = [word for word in Path("/first-month/only").read_text(encoding="utf-8").split() if word]
    chosen = [step for step in MONTH if not words or any(word in step.__name__ for word in words)]
    for step in SETUP:
        if _failed(step):
            return 1  # nothing could be said of the rest
    failed = [name for step in chosen if (name := _failed(step))]
    print(f"first-month: {len(SETUP) + len(chosen)} steps, {len(failed)} failed", *failed, sep="\n  failed: ")
    return 1 if failed else 0


def _failed(step: Callable[[], None]) -> str:
    """Its name as a sentence; "": it holds."""
    name = step.__name__.replace("_", " ")
    begin_s = time.monotonic()
    try:
        step()
    except (StepError, subprocess.TimeoutExpired, OSError, ValueError, KeyError) as error:
        traceback.print_exc(file=sys.stdout)
        print(run("journalctl --unit balancer --no-pager --output cat --lines 12", status=None))
        service.tidy()
        print(f"FAILED {time.monotonic() - begin_s:5.1f} s  {name}: {error}"[:300])
        return name
    print(f"ok     {time.monotonic() - begin_s:5.1f} s  {name}")
    return ""


sys.exit(main())
