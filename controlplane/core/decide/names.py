"""What the steps of plans are called: the crash points."""

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
"""All of them; `N` is a number from 0. In an undo the command that is part of it stands before."""

PARTS = ("stop", "pause", "resume", "create", "put", "delete", "offsets")
"""Commands that an undo is made of: `put-config`, `offsets-write`."""

_STEP = re.compile(
    rf"(?:(?:{'|'.join(PARTS)})-)?(?:{'|'.join(STEPS)})".replace("-N", r"-(?:0|[1-9][0-9]*)"),
    re.ASCII,
)


def is_step(name: str) -> bool:
    """Whether some plan may have a step of this name."""
    return _STEP.fullmatch(name) is not None
