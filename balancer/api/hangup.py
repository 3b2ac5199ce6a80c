"""Has the caller of a call that waits hung up? Asked of the socket, which servers name in the WSGI environment."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Half-closed counts: HTTP clients close their side when they are done, not before.
_GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR | select.POLLNVAL


def is_gone_of(environ: Mapping[str, Any]) -> Callable[[], bool]:
    """Tells whether the caller of this call has gone. Where the server does not say, nobody ever has."""
    disconnected: Callable[[], bool] | None = environ.get("waitress.client_disconnected")
    if disconnected is not None:
        return disconnected
    caller = environ.get("gunicorn.socket")
    if caller is None:
        return lambda: False

    def is_gone() -> bool:
        # The kernel is asked, not the connection read: that works below TLS, too.
        if caller.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(caller.fileno(), select.POLLRDHUP)
        return any(what & _GONE for _, what in poll.poll(0))

    return is_gone
