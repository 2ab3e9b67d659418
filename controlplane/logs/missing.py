"""Topics of a cluster that a log lacks, or has otherwise than a worker needs them.

Refused where nothing can be known without them, else a sentence on what that means.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from controlplane.core.profiles import since
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


def split_config(topics: Topics, there: Mapping[str, int]) -> tuple[str, ...]:
    """What a config topic with several partitions means: one sentence, if it has them.

    Old workers start all the same (`KafkaConfigBackingStore#start`), so a log of theirs is read.
    """
    partitions = there.get(topics.config, 1)
    if partitions == 1:
        return ()
    told = (
        f"the config topic {topics.config} has {partitions} partitions and must have one: workers "
        f"from {since('config_partition_required')} on refuse to start with it, older ones take "
        "the partitions in any order, here they are taken by time"
    )
    return (told,)


def _no_topic(what: str, topic: str, there: list[str], naming: str) -> LogNotUsable:
    found = ", ".join(there[:TOPICS_SHOWN]) or "none"
    more = f" and {len(there) - TOPICS_SHOWN} more" if len(there) > TOPICS_SHOWN else ""
    hint = f" ({naming})" if naming else ""
    without = "" if what == "config" else ", or leave it unnamed if there is none"
    return LogNotUsable(
        f"there is no topic {topic} (found: {found}{more}): "
        f"name the {what} topic as it is called here{without}{hint}"
    )
