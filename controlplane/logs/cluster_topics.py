"""Checks and creation of Connect's topics in a log.

A log without its config topic is refused. Any other deviation gives a sentence about its effect.
"""

from collections.abc import Collection, Iterable, Mapping
from operator import lt

import msgspec

from controlplane.core.releases.profiles import since
from controlplane.core.state import Topics
from controlplane.logs.log import EmbeddedLog, Log, LogNotUsable, ReadableLog

TOPICS_SHOWN = 5
"""Number of topics that a message lists."""

_UNKNOWN_WITHOUT = {"offsets": "source offsets", "status": "statuses"}
"""Facts that are unknown without a topic. Most logs have no command topic, so it has no entry."""


def missing_topics(
    topics: Topics, existing: Iterable[str], *, named: Collection[str] = (), naming: str = ""
) -> tuple[str, ...]:
    """Return one sentence per missing topic, about the facts that are then unknown.

    `existing`: names of the topics in the log. `named`: topics (`config`, `status`, …) whose names
    the user has given. `naming`: hint for the user how to give a name.

    Raises:
        LogNotUsable: the config topic or a topic in `named` is missing.
    """
    present = sorted(existing)
    roles = msgspec.structs.asdict(topics)
    missing = {role: topic for role, topic in roles.items() if topic not in present}
    for role, topic in missing.items():
        if role == "config" or role in named:
            raise _missing_topic_error(role, topic, present, naming)
    return tuple(
        f"this log has no {missing[role]}: {unknown} are unknown"
        for role, unknown in _UNKNOWN_WITHOUT.items()
        if role in missing
    )


def renamed(topics: Topics) -> frozenset[str]:
    """Topics (`config`, `status`, …) whose names differ from those in Kafka's sample file."""
    names, usual = msgspec.structs.asdict(topics), msgspec.structs.asdict(Topics())
    return frozenset(role for role in names if names[role] != usual[role])


async def missing_for_writer(
    log: ReadableLog,
    topics: Topics,
    *,
    named: Collection[str] = (),
    naming: str = "",
    may_lack_configs: bool = False,
) -> tuple[str, ...]:
    """Return sentences about topics that a writer would add to a log; none about an empty log.

    A writer creates missing topics. So a misspelt name would hide the records of the intended
    topic. An imported log has no command topic: a new one may have any name.

    `may_lack_configs`: a missing config topic is no error, unless `named` has it. A program may
    have written offsets before the first config.

    Raises:
        LogNotUsable: the config topic is missing, or a topic whose name the user has given.
    """
    existing = await log.topics()
    ends = await log.ends(existing)
    if not any(end for partitions in ends.values() for end in partitions):
        return ()
    if may_lack_configs and "config" not in named:
        existing = {topics.config: 1, **existing}
    has_commands = Topics().commands in existing
    refused = {role for role in named if role != "commands" or has_commands}
    return missing_topics(topics, existing, named=refused, naming=naming)


async def check_own_topics(log: ReadableLog, topics: Topics) -> None:
    """Check that topics on Kafka are new, or this project's own.

    If the command topic is empty, records in other topics come from another Connect cluster or an
    interrupted copy. Aborted records do not count. An end offset above 0 proves no record: a claim
    writes transaction markers to empty topics, too.

    Raises:
        LogNotUsable: the records are another cluster's, or the topic of configs or commands has
            several partitions.
    """
    existing = await log.topics()
    for topic in (topics.config, topics.commands):
        if existing.get(topic, 1) != 1:
            raise LogNotUsable(
                f"topic {topic} has {existing[topic]} partitions and must have one, which keeps "
                "its records in order: name another topic"
            )
    ours = [topic for topic in msgspec.structs.astuple(topics) if topic in existing]
    starts, ends = await log.starts(ours), await log.ends(ours)
    filled = [topic for topic in ours if any(map(lt, starts[topic], ends[topic]))]
    if topics.commands in filled and await _has_records(log, topics.commands):
        return
    filled = [topic for topic in filled if await _has_records(log, topic)]
    if filled:
        empty = "is empty" if topics.commands in existing else "does not exist"
        raise LogNotUsable(
            f"{_listed(filled)} already {'has' if len(filled) == 1 else 'have'} records, and the "
            f"command topic {topics.commands} {empty}: another Connect cluster or an "
            "interrupted copy wrote these records. Name other topics in the settings, steer that "
            "cluster through its workers, or run the copy again"
        )


async def _has_records(log: ReadableLog, topic: str) -> bool:
    """Return True if a topic has a record that was not aborted."""
    async for batch in log.read([topic]):
        if not all(entry.aborted for entry in batch.entries()):
            return True
    return False


async def create_topics(log: Log, topics: Topics, *, offsets: int, status: int) -> None:
    """Create the missing topics.

    `offsets`, `status`: numbers of partitions; existing topics keep theirs.

    Raises:
        LogNotUsable: an embedded log has records, but lacks a topic whose name is not the default
            (`renamed`). The name is probably misspelt. On Kafka: the records are another cluster's,
            or a worker would refuse a topic.
    """
    existing = await log.topics()
    partitions = {
        topics.config: 1,
        topics.offsets: offsets,
        topics.status: status,
        topics.commands: 1,
    }
    if isinstance(log, EmbeddedLog):
        await missing_for_writer(log, topics, named=renamed(topics), may_lack_configs=True)
        partitions = {
            topic: number for topic, number in partitions.items() if topic not in existing
        }
    else:
        # A cluster also holds other programs' topics. Their records do not prove a misspelt name.
        await check_own_topics(log, topics)
        # An existing topic is only verified, as a worker does.
        partitions = {topic: existing.get(topic, number) for topic, number in partitions.items()}
    for topic, number in partitions.items():
        await log.create_topic(topic, number)


def split_config(topics: Topics, existing: Mapping[str, int]) -> tuple[str, ...]:
    """Return a sentence if the config topic has several partitions.

    Old workers accept such a topic (`KafkaConfigBackingStore#start`), so their logs are readable.
    """
    partitions = existing.get(topics.config, 1)
    if partitions == 1:
        return ()
    effect = (
        f"the config topic {topics.config} has {partitions} partitions and must have one. Workers "
        f"from {since('config_partition_required')} on refuse to start with it, older ones read "
        "the partitions in any order. This program reads them in order of time"
    )
    return (effect,)


def _missing_topic_error(role: str, topic: str, existing: list[str], naming: str) -> LogNotUsable:
    listed = _listed(existing) or "none"
    hint = f" ({naming})" if naming else ""
    without = "" if role == "config" else ", or leave it unnamed if there is none"
    return LogNotUsable(
        f"there is no topic {topic} (found: {listed}): "
        f"give the name of the {role} topic in this log{without}{hint}"
    )


def _listed(topics: list[str]) -> str:
    suffix = f" and {len(topics) - TOPICS_SHOWN} more" if len(topics) > TOPICS_SHOWN else ""
    return ", ".join(topics[:TOPICS_SHOWN]) + suffix
