"""Topics of a cluster that a log does not have: refused, or what cannot be known without them."""

from collections.abc import Collection, Iterable

import msgspec

from controlplane.core.state import Topics
from controlplane.logs.log import LogNotUsable

TOPICS_SHOWN = 5
"""How many topics a message lists, so that it stays one sentence."""

_TOLD_BY = {"offsets": "source offsets", "status": "statuses"}
"""What stays unknown without a topic. (Commands are ours: most logs have none.)"""


def missing_topics(
    topics: Topics, there: Iterable[str], *, named: Collection[str] = (), naming: str = ""
) -> tuple[str, ...]:
    """What cannot be known because a topic is not `there`: a sentence each.

    `named` are those (`config`, `status`, …) whose names were given on purpose; `naming` says how
    whoever asks gives names.

    Raises:
        LogNotUsable: the config topic is missing, or one that was named on purpose.
    """
    there = sorted(there)
    called = msgspec.structs.asdict(topics)
    missing = {what: topic for what, topic in called.items() if topic not in there}
    for what, topic in missing.items():
        if what == "config" or what in named:
            raise _no_topic(what, topic, there, naming)
    return tuple(
        f"this log has no {missing[what]}: {unknown} are unknown"
        for what, unknown in _TOLD_BY.items()
        if what in missing
    )


def _no_topic(what: str, topic: str, there: list[str], naming: str) -> LogNotUsable:
    found = ", ".join(there[:TOPICS_SHOWN]) or "none"
    more = f" and {len(there) - TOPICS_SHOWN} more" if len(there) > TOPICS_SHOWN else ""
    hint = f" ({naming})" if naming else ""
    without = "" if what == "config" else ", or leave it unnamed if there is none"
    return LogNotUsable(
        f"there is no topic {topic} (found: {found}{more}): "
        f"name the {what} topic as it is called here{without}{hint}"
    )
