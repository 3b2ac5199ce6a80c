"""One claim on the nodes: a service that meets another's living claim commands nothing until it is told to go on.

The claim is a note on the batch system (`drivers/claims.py`), so that two services see each other whatever files and
hosts they run on. As with the lease on a ledger nobody compares clocks: a claim that changed within `LIVES_S` by our
own steady clock is alive. For one thread, the commander's, which owns the driver; `why` and `adopt` are for any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from balancer.clock import NEVER_US, micros, wall_us
from balancer.drivers.base import BatchDriver, DriverError, UnclearError, UnreachableError
from balancer.drivers.claims import KeepsClaims
from balancer.ledger.errors import ClaimedError, LedgerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from balancer.ledger.home import Home

_log = structlog.get_logger()

RENEW_S, LIVES_S, WATCH_S = 30.0, 300.0, 75.0
"""Wall times: how often a claim is renewed, how long after its last renewal another one takes it as alive, and how long
a service whose ledger may be a copy watches whether the claim of that ledger is renewed."""


_AGAIN_S, _TRIES = 5.0, 12
"""Wall time until the next try of the first look, and how many answers may be unclear before marks alone tell."""

_UNREAD = "whose the nodes are has not been read from the batch system yet"


class Claims:
    """`check_writer` raises LedgerError when this process may not write to the batch system (any more).

    `home`: whether the ledger's file may be a copy, so that two services claim in one name; None: it cannot be.
    """

    def __init__(
        self,
        driver: BatchDriver,
        *,
        ledger_id: Callable[[], str],
        check_writer: Callable[[], None],
        home: Home | None = None,
    ) -> None:
        self._driver = driver if isinstance(driver, KeepsClaims) and driver.keeps_claims else None
        self._ledger_id = ledger_id
        self._check_writer = check_writer
        self._home = home
        self._seen: dict[str, tuple[str, int]] = {}  # ledger -> its claim, and until when that is alive
        self._noted: str | None = None  # our claim as we left it; None: not known
        self._is_adopting = False
        self._failure = ""
        self._unclear = 0
        self._is_known = self._driver is None
        self.why = "" if self._is_known else _UNREAD
        """Why this service commands nothing; "": no other one claims the nodes."""
        self.due_us = NEVER_US if self._driver is None else 0
        """When `look` has something to do, by `wall_us`."""

    def refuse_if_anothers(self) -> None:
        """Before a command. Raises ClaimedError."""
        if self.why:
            raise ClaimedError(self.why)

    def adopt(self) -> None:
        """An operator says that no other service runs: the next look, which is due now, takes over any claim."""
        if self._driver is not None:
            self._is_adopting, self.due_us = True, 0

    def look(self) -> None:
        """Read the claims; renew ours unless another one is alive. What fails is logged and tried again."""
        if self._driver is None:
            return
        self.due_us = wall_us() + micros(RENEW_S)
        is_adopting, self._is_adopting = self._is_adopting, False
        failure = ""
        try:
            self._read_and_renew(self._driver, is_adopting=is_adopting)
        except (UnreachableError, UnclearError) as error:
            failure = str(error)
            self._unclear += isinstance(error, UnclearError)
            if not self._is_known:
                # An answer that can never be read must not stop the service for ever: marks tell as well.
                is_hopeless = self._unclear >= _TRIES
                self.why = "" if is_hopeless else f"{_UNREAD}: {error}"
                self.due_us = wall_us() + micros(_AGAIN_S)
        except Exception as error:  # noqa: BLE001 - a driver is a plug-in: its bugs must not end this thread
            is_ours = isinstance(error, (DriverError, LedgerError))
            failure = str(error) if is_ours else f"the driver raised {error!r}"
            if not self._is_known:
                self.why = ""  # this batch system keeps no claims: marks alone tell
        self._is_adopting = self._is_adopting or (is_adopting and bool(failure))
        if failure and failure != self._failure:
            _log.warning(
                "the claim on the nodes cannot be kept; another Balancer would not see it", error=failure
            )
        self._failure = failure

    def _read_and_renew(self, driver: KeepsClaims, *, is_adopting: bool) -> None:
        ours = self._ledger_id()
        foreign_claims = {
            key: text for key, text in driver.read_claims().items() if key != ours or self._is_of_a_copy(text)
        }
        self._is_known = True
        self._judge("" if is_adopting else self._alive(foreign_claims))
        if self.why:
            if self._home is not None and ours in foreign_claims:
                self._home.leave()
        else:
            self._check_writer()
            self._noted = None
            driver.renew_claim(ours, instead_of=tuple(key for key in foreign_claims if key != ours))
            if self._home is not None:
                self._home.take()
                self._noted = driver.read_claims().get(ours)

    def _is_of_a_copy(self, text: str) -> bool:
        """Whether a claim in our ledger's name may be that of another service, with a copy of the file."""
        if self._home is None:
            return False
        return not self._home.is_left if self._noted is None else text != self._noted

    def _alive(self, foreign_claims: Mapping[str, str]) -> str:
        """A ledger whose claim was renewed lately, as far as we have seen; "": there is none."""
        now_us, ours = wall_us(), self._ledger_id()
        before, self._seen = self._seen, {}
        for ledger_id, text in foreign_claims.items():
            known = before.get(ledger_id)
            if known is None or known[0] != text:
                lives_s = WATCH_S if known is None and ledger_id == ours else LIVES_S
                known = (text, now_us + micros(lives_s))
            self._seen[ledger_id] = known
        return next((key for key, (_, until_us) in self._seen.items() if now_us < until_us), "")

    def _judge(self, other: str) -> None:
        why = claimed_by_another(other, self._ledger_id()) if other else ""
        if why and (not self.why or self.why.startswith(_UNREAD)):
            _log.error("nothing is commanded any more: another Balancer claims the nodes", why=why)
        if self.why and not why and not self.why.startswith(_UNREAD):
            _log.warning("no other Balancer claims the nodes any more: commands are given again")
        self.why = why


def claimed_by_another(other: str, ledger_id: str) -> str:
    """What a service says that is not the one with a living claim."""
    if other == ledger_id:
        return (
            f"ledger {ledger_id} claims the nodes, and this file of it was copied or put back, or its machine was "
            f"started again: another Balancer may run on a copy. This one is read-only: it moves and marks no node. "
            f"It goes on if no service renews the claim for {WATCH_S:.0f} s ({LIVES_S:.0f} s once somebody has), or at "
            f"once with `balancer adopt`"
        )
    return (
        f"ledger {other} claims the nodes, and this is ledger {ledger_id}: another Balancer runs on them, or ran until "
        f"a moment ago. This one is read-only: it moves and marks no node. Stop one of the two. This one goes on "
        f"{LIVES_S:.0f} s after the other's last renewal, or at once with `balancer adopt`"
    )
