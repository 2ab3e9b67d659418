"""Topics of a cluster that a log lacks, or has otherwise than a worker needs them.

Refused where nothing can be known without them, else a sentence on what that means.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from controlplane.core.profiles import since
from controlplane.core.state import Topics
from controlplane.logs.log import LogNotUsable, ReadableLog

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


def renamed(topics: Topics) -> frozenset[str]:
    """Topics (`config`, `status`, …) that are not called as in Kafka's sample file."""
    names, usual = msgspec.structs.asdict(topics), msgspec.structs.asdict(Topics())
    return frozenset(what for what in names if names[what] != usual[what])


async def missing_for_writer(
    log: ReadableLog,
    topics: Topics,
    *,
    named: Collection[str] = (),
    naming: str = "",
    may_lack_configs: bool = False,
) -> tuple[str, ...]:
    """Sentences about topics that a writer would add to a log; none about an empty log.

    A writer makes missing topics. In a log with records, a misspelt name would hide the records of
    the topic that was meant. An imported log has no commands topic: a new one may have any name.
    A program may put offsets into a log before the first config (`may_lack_configs`).

    Raises:
        LogNotUsable: the config topic is missing, or a topic that was named on purpose.
    """
    there = await log.topics()
    ends = await log.ends(there)
    if not any(end for partitions in ends.values() for end in partitions):
        return ()
    if may_lack_configs and "config" not in named:
        there = {topics.config: 1, **there}
    has_commands = Topics().commands in there
    refused = {what for what in named if what != "commands" or has_commands}
    return missing_topics(topics, there, named=refused, naming=naming)


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
