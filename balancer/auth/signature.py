"""How a hook signs its call. Only the standard library: this is imported before every job.

The key of a node is derived from the site's master key, so that the service keeps one secret, and a node
that is broken into can sign for itself only. Signed are the node, the sequence and the call with its body
(which names the job, its nodes and the event). The sequence is the time in microseconds: it goes up also over
reboots of the node, with nothing to keep there, and tells the age of the call.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

SCHEME = "Balancer-Hook"
_HEADER = re.compile(
    SCHEME + r" node=([A-Za-z0-9][A-Za-z0-9._-]{0,254}),sequence=([0-9]{1,18}),signature=([0-9a-f]{64})"
)


@dataclass(frozen=True, slots=True)
class Signature:
    node: str
    sequence_us: int
    digest: str

    def header(self) -> str:
        """The value of the Authorization header."""
        return f"{SCHEME} node={self.node},sequence={self.sequence_us},signature={self.digest}"

    @classmethod
    def parse(cls, header: str) -> Signature | None:
        match = _HEADER.fullmatch(header)
        return None if match is None else cls(match[1], int(match[2]), match[3])

    def is_of(self, key: bytes, path: str, body: bytes) -> bool:
        return hmac.compare_digest(self.digest, sign(key, self.node, self.sequence_us, path, body).digest)


def node_key(master: bytes, node: str) -> bytes:
    """The key of one node."""
    return hmac.digest(master, b"balancer hook key\n" + node.encode(), "sha256")


def sign(key: bytes, node: str, sequence_us: int, path: str, body: bytes) -> Signature:
    """A call (POST) of a node's hook, made at `sequence_us`."""
    text = f"balancer hook 1\n{node}\n{sequence_us}\n{path}\n{hashlib.sha256(body).hexdigest()}"
    return Signature(node, sequence_us, hmac.digest(key, text.encode(), "sha256").hex())
