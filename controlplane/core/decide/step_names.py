"""Names of the steps of plans, which are the crash points."""

import re

STEPS = (
    "config",
    "state",
    "tasks",
    "task-N",
    "commit",
    "create",
    "fence",
    "count",
    "wipe",
    "wipe-copy",
    "write",
    "write-copy",
    "undo-write",
    "undo-write-copy",
    "restart",
    "topics",
    "topic-N",
    "level",
)
"""All names; `N` is a number from 0. An undo puts the word of its command in front."""

PARTS = ("stop", "pause", "resume", "create", "put", "delete", "offsets")
"""Words of the commands in an undo: `put-config`, `offsets-write`."""

_STEP = re.compile(
    rf"(?:(?:{'|'.join(PARTS)})-)?(?:{'|'.join(STEPS)})".replace("-N", r"-(?:0|[1-9][0-9]*)"),
    re.ASCII,
)


def is_step(name: str) -> bool:
    """True if some plan may have a step of this name."""
    return _STEP.fullmatch(name) is not None
