"""What a call can ask of the connection it came on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

CLIENT_IS_GONE = "balancer.client_is_gone"
"""The front end puts a function without arguments here: whether the caller has hung up."""


def client_is_gone(environ: Mapping[str, Any]) -> bool:
    """Whether whoever made this call has closed the connection; never blocks, from any thread.

    False where the front end cannot tell (a test client), and for a caller that vanished without a word.
    """
    ask = environ.get(CLIENT_IS_GONE)
    return ask is not None and bool(ask())
