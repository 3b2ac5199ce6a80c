"""What the life cycle says no to. After each of these nothing has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from balancer.lifecycle.states import Cause, NodeState
    from balancer.lifecycle.story import StoryEntry


class Refused(Exception):
    """The event contradicts what is known; nothing changed. `code` is for programs, `detail` for people."""

    UNKNOWN_NODE = "unknown_node"
    NODE_NOT_IN_BATCH = "node_not_in_batch"
    """Busy was reported of a node that the batch system may not use: OD_RESERVE, OD_ALLOC or RECLAIMING."""
    NODE_NOT_ALLOCATED = "node_not_allocated"
    """A node was released that is not OD_ALLOC."""
    NODE_NOT_QUARANTINED = "node_not_quarantined"
    """A node was adopted about which there is no doubt."""
    DUPLICATE_NODE = "duplicate_node"
    BAD_COUNT = "bad_count"
    BAD_TIME = "bad_time"
    BAD_STATE = "bad_state"
    ID_IN_USE = "id_in_use"
    """A waiting request or an active reserve has this id."""
    NOT_OWNER = "not_owner"
    """Somebody else's grant or request: its owner or an operator may end it."""
    NOT_GRANTED = "not_granted"
    """There is no grant (any more) to confirm or to renew."""
    BAD_CANDIDATES = "bad_candidates"

    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        self.detail = detail
        super().__init__(f"{code}: {detail}")


class BadPlan(Exception):
    """An algorithm raised or planned nonsense; nothing was changed for it. Names the algorithm."""

    def __init__(self, algorithm: str, detail: str) -> None:
        self.algorithm = algorithm
        self.detail = detail
        super().__init__(f"algorithm {algorithm}: {detail}")


class IllegalTransition(Exception):
    """A change that has no row in `TRANSITIONS`: a bug of ours. Carries and prints the node's story."""

    def __init__(
        self, node: str, start: NodeState, to: NodeState, cause: Cause, story: tuple[StoryEntry, ...]
    ) -> None:
        self.node = node
        self.start = start
        self.to = to
        self.cause = cause
        self.story = story
        lines = "".join(f"\n  {entry}" for entry in story) or "\n  (nothing happened to it yet)"
        super().__init__(
            f"node {node} cannot go from {start} to {to} because of '{cause}'; its story:{lines}"
        )
