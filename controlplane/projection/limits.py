"""Limits of a follower: memory, poll intervals and retries."""

from typing import Annotated

import msgspec
from msgspec import Meta


class FollowerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a follower (`follower.`)."""

    profiles_kept: int = 8
    """Maximum releases followed at once, besides pinned ones (`Follower.pinned`): each costs a
    state, and time for every entry."""
    gather_ms: Annotated[int, Meta(ge=0)] = 20
    """Window in which entries are gathered, to be folded together and in order (`core.order`)."""
    batches_pending: int = 256
    """Maximum batches that wait to be folded; reading pauses at this number."""
    topics_poll_ms: int = 1_000
    """Poll interval for new offsets topics of connectors."""
    interruption_poll_ms: int = 500
    """Poll interval that detects interruptions of a remote log's tail."""
    retry_first_ms: int = 200
    """Delay before the first retry after a failure of the log; it doubles with each retry."""
    retry_last_ms: int = 5_000
    """Maximum retry delay: following resumes at most this long after a broker is back."""
