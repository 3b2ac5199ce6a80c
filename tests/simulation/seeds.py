"""One world, from its seed to what came of it."""

from __future__ import annotations

import gc
import traceback
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from balancer.clock import wall_us
from simulation.parts import Size, Stuck, Violation
from simulation.world import World, describe, scratch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FINE, CRASHED, STUCK, WRONG = 0, 3, 4, 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a seed ended. `status` is the exit status it leads to."""

    seed: int
    status: int
    digest: str
    steps: int
    took_us: int
    what: str = ""
    story: str = ""


def run_seed(seed: int, size: Size, parent: Path | None = None) -> Outcome:
    """`parent`: where this process may keep the files of its worlds."""
    # The world must be out of reach when what it leaves behind is collected.
    with scratch(parent) as folder, _without_gc():
        return _lived(seed, size, folder)


def _lived(seed: int, size: Size, folder: Path) -> Outcome:
    start_us = wall_us()
    world = World(seed, folder, size)
    status, what, node = FINE, "", ""
    try:
        world.run()
    except Stuck as error:
        status, what, node = STUCK, str(error), error.node
    except Violation as error:
        status, what, node = WRONG, str(error), error.node
    except Exception:  # noqa: BLE001 - whatever the product raised is the finding
        status, what = CRASHED, traceback.format_exc()
    story = ""
    if status != FINE:
        lines = world.story(node) if node else world.lines[-60:]
        story = "\n".join([f"faults: {describe(world.rates)}", *lines])
    return Outcome(seed, status, world.digest, world.checks.done, wall_us() - start_us, what, story)


@contextmanager
def _without_gc() -> Iterator[None]:
    """A world lives for less than a second: what it leaves behind is collected after it, at once."""
    gc.disable()
    gc.freeze()  # what was there before is not looked through
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()
        gc.enable()
