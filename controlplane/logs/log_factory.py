"""Factory of logs: opens a cluster, an embedded log or a dump by its name."""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self, cast

import msgspec

from controlplane.core.entry import Entry
from controlplane.core.state import Topics
from controlplane.event_loop import in_thread
from controlplane.logs.cluster_topics import missing_topics, split_config
from controlplane.logs.dumps import Dump, Problem, read_dump
from controlplane.logs.log import LogNotUsable, ReadableLog
from controlplane.logs.memory import MemoryLog
from controlplane.logs.names import brokers_of, check_file, is_cluster, is_embedded, path_of
from controlplane.settings import Configuration, WorkerSettings
from controlplane.settings.access import AccessSettings, kafka_security
from controlplane.settings.prefixes import READER, SQLITE, WRITER

if TYPE_CHECKING:
    from controlplane.logs.kafka.log import KafkaLog
    from controlplane.logs.kafka.reads.reader import KafkaReader
    from controlplane.logs.sqlite import SqliteLog


class DumpForm(msgspec.Struct, frozen=True):
    """Options about a dump that its file does not contain (see `dumps.read_dump`)."""

    format: str | None = None
    topic: str | None = None
    partition: int = 0
    null: str = "null"
    partitions: dict[str, int] = {}
    """Number of partitions by topic (`offsets`, `status`, or the full name of a topic)."""


class OpenOptions(msgspec.Struct, frozen=True):
    """Options to open a log: access to a cluster, the form of a dump, names of topics."""

    topics: Topics = Topics()
    configuration: Configuration = Configuration()
    """Settings: access to a cluster, brokers if the name has none (`kafka://`), limits of reads."""
    exactly_once: bool = True
    """Read like a worker with exactly-once support: to the last stable offset (Kafka only)."""
    form: DumpForm = DumpForm()
    named: frozenset[str] = frozenset()
    """Topics (`config`, `status`, …) whose names the user has given: they must exist."""
    naming: str = ""
    """Hint how to name topics; it ends the message about a missing topic."""


class OpenedLog(NamedTuple):
    """An open log, its format (`form`), and messages about missing or doubtful content.

    The caller closes the log: `async with await open_log(…) as opened` does.
    """

    log: ReadableLog
    form: str
    """`kafka`, `sqlite`, or the format of a dump."""
    problems: tuple[str, ...] = ()
    cluster_id: str | None = None
    """Id of a cluster or embedded log; None: it has none."""
    assumed: frozenset[str] = frozenset()
    """Topics of a dump or an imported dump that may have more partitions than the records show."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.log.close()


async def open_log(where: str, how: OpenOptions | None = None) -> OpenedLog:
    """Open a log for reading. Nothing is created or changed.

    Raises:
        LogUnavailable: the log cannot be reached, or is locked.
        LogNotUsable: `where` does not exist, is no log, or lacks a required topic.
        LogCorrupt: the file is damaged.
    """
    how = how or OpenOptions()
    opened = await open_any_log(where, how)
    try:
        if is_cluster(where):
            await _check_topics(cast("KafkaReader", opened.log), how)
        existing = await opened.log.topics()
        missing = missing_topics(how.topics, existing, named=how.named, naming=how.naming)
        topic_problems = (*missing, *split_config(how.topics, existing))
    except BaseException:
        await opened.log.close()
        raise
    return opened._replace(problems=(*topic_problems, *opened.problems))


async def open_any_log(where: str, how: OpenOptions) -> OpenedLog:
    """Open a log as `open_log` does; it may lack Connect's topics."""
    if is_cluster(where):
        check_form(where, "kafka", how.form)
        reader = await _open_kafka(brokers_of(where), how)
        return OpenedLog(reader, "kafka", cluster_id=reader.cluster_id)
    if is_embedded(where):
        check_form(where, "sqlite", how.form)
        log = await _open_sqlite(where, how)
        try:
            assumed = await log.assumed_partitions()
        except BaseException:
            await log.close()
            raise
        return OpenedLog(log, "sqlite", cluster_id=log.cluster_id, assumed=assumed)
    # In a thread, so that Ctrl-C ends the reading of a large file at once.
    dump = await in_thread(partial(open_dump, path_of(where), how))
    check_form(where, dump.format, how.form)
    check_whole(where, dump)
    problems = (*map(problem_text, dump.problems), *remarks(dump))
    partition_counts = partitions_in(where, dump, how)
    memory = await memory_log(dump.entries, partition_counts)
    assumed = assumed_in(dump, partition_counts, how.topics)
    return OpenedLog(memory, dump.format, problems, assumed=assumed)


def check_form(where: str, format_found: str, form: DumpForm) -> None:
    """Raise `LogNotUsable` if an option about the form of a dump has no effect on this log.

    The user probably meant another file.
    """
    usual = DumpForm()
    given_options = [
        name for name in form.__struct_fields__ if getattr(form, name) != getattr(usual, name)
    ]
    accepted_options = _OPTIONS_BY_FORMAT.get(format_found, _EVERY_DUMP)
    ignored = [name for name in given_options if name not in accepted_options]
    if ignored:
        form_text = (
            "is no dump" if format_found in ("kafka", "sqlite") else f"is a {format_found} dump"
        )
        raise LogNotUsable(f"{where} {form_text}: leave out --{ignored[0]}")


_EVERY_DUMP = ("format", "partitions")
_OPTIONS_BY_FORMAT = {"kafka": (), "sqlite": (), "console": DumpForm.__struct_fields__}
"""Options that have an effect, by format; other dump formats take those of `_EVERY_DUMP`."""


def open_dump(path: Path, how: OpenOptions, stopped: Callable[[], bool] = lambda: False) -> Dump:
    """Read a whole dump, or less once `stopped` is true.

    Raises:
        LogNotUsable: the file cannot be read.
    """
    check_file(path)
    form = how.form
    return read_dump(
        path,
        format=form.format,
        topic=form.topic,
        partition=form.partition,
        null=form.null,
        stopped=stopped,
    )


def unread(dump: Dump) -> list[Problem]:
    """Problems of the lines that could not be read."""
    return [problem for problem in dump.problems if not problem.taken]


def check_whole(where: str, dump: Dump) -> None:
    """Raise `LogNotUsable` if lines of a dump could not be read.

    The fold of an incomplete log looks like a valid state, but may be wrong.
    """
    promised, present = dump.about.get("records"), len(dump.entries)
    lost = unread(dump)
    if isinstance(promised, int) and promised > present and not lost:
        raise LogNotUsable(
            f"{where} is cut off, {present} of {promised} records are there: {_ADVICE}"
        )
    if lost:
        suffix = f" (and {len(lost) - 1} more lines)" if len(lost) > 1 else ""
        raise LogNotUsable(
            f"{where} cannot be read whole, {problem_text(lost[0])}{suffix}: {_ADVICE}"
        )


_ADVICE = "fetch the file again, or import the readable part with `controlplane import --partial`"


def remarks(dump: Dump) -> tuple[str, ...]:
    """Return one sentence per tool with the number of its own messages in the dump."""
    counts = Counter(remark.tool for remark in dump.remarks)
    return tuple(
        f"1 line is a remark of {tool}, not a record"
        if number == 1
        else f"{number} lines are remarks of {tool}, not records"
        for tool, number in counts.items()
    )


def problem_text(problem: Problem) -> str:
    """Format a problem: its line number and the reason."""
    return f"line {problem.line} {problem.reason}"


async def _open_sqlite(where: str, how: OpenOptions) -> "SqliteLog":
    # Imported here: a dump or a cluster needs no SQLite.
    from controlplane.logs.sqlite import SqliteLog, SqliteSettings  # noqa: PLC0415

    path = path_of(where)
    check_file(path)
    limits = how.configuration.settings(SqliteSettings, SQLITE)
    return await SqliteLog.open(path, create=False, read_only=True, settings=limits)


async def _open_kafka(bootstrap: str, how: OpenOptions) -> "KafkaReader":
    # Imported here: aiokafka takes longer to import than a small log takes to fold.
    from controlplane.logs.kafka.limits import ReadLimits  # noqa: PLC0415
    from controlplane.logs.kafka.reads.reader import KafkaReader  # noqa: PLC0415

    configuration = how.configuration
    return await KafkaReader.open(
        bootstrap or configuration.settings(WorkerSettings).bootstrap_servers or "",
        security=configuration.make(AccessSettings, kafka_security),
        isolation="read_committed" if how.exactly_once else "read_uncommitted",
        limits=configuration.settings(ReadLimits, READER),
    )


async def open_kafka_log(
    where: str, configuration: Configuration, *, for_copy: bool = False
) -> "KafkaLog":
    """Open the topics of a cluster for writing, with the settings of a worker.

    This function claims no epoch; its caller may claim one later.

    The transactional id is that of a worker's leader (`connect-cluster-<group.id>`). Only records
    of the command topic keep their headers, since workers write none. An append to one partition is
    one record batch without a transaction (`FencedBatches`).

    `for_copy`: all records keep their headers, and each append is a transaction. A claim then
    writes no transaction markers, because only `FencedBatches` need them. So the first record of a
    new topic gets offset 0, as in the original.

    Raises:
        LogUnavailable: the cluster cannot be reached.
        LogNotUsable: `where` names no cluster, or its brokers refuse the client.
        SettingsError: a setting is invalid.
    """
    from controlplane.logs.kafka.limits import ReadLimits, WriteLimits  # noqa: PLC0415
    from controlplane.logs.kafka.log import KafkaLog, KafkaLogSettings  # noqa: PLC0415
    from controlplane.logs.kafka.new_topics import new_topic_defaults  # noqa: PLC0415

    if not is_cluster(where):
        raise LogNotUsable(f"{where} is no cluster: name it kafka://host:port")
    worker = configuration.settings(WorkerSettings)
    writing = configuration.settings(WriteLimits, WRITER)
    settings = KafkaLogSettings(
        transactional_id=f"connect-cluster-{worker.group_id}",
        reading=configuration.settings(ReadLimits, READER),
        writing=msgspec.structs.replace(
            writing, compression=writing.compression or worker.compression_type
        ),
        headers_in=None if for_copy else frozenset({worker.topics.commands}),
        batch_topics=frozenset(() if for_copy else msgspec.structs.astuple(worker.topics)),
        new_topics=new_topic_defaults(configuration),
    )
    return await KafkaLog.connect(
        brokers_of(where) or worker.bootstrap_servers or "",
        settings,
        configuration.make(AccessSettings, kafka_security),
    )


async def _check_topics(reader: "KafkaReader", how: OpenOptions) -> None:
    """Raise `LogNotUsable` if a topic is missing, or if a worker would refuse to start with it."""
    for topic in (how.topics.config, how.topics.offsets, how.topics.status):
        for problem in await reader.check([topic]):
            raise LogNotUsable(f"{problem}{how.naming and f' ({how.naming})'}")


async def memory_log(entries: list[Entry], known: Mapping[str, int] | None = None) -> MemoryLog:
    """Build a log in memory from entries; `known` gives partitions per topic as a minimum."""
    log = MemoryLog()
    for topic, partitions in _greater(partitions_of(entries), known or {}).items():
        await log.create_topic(topic, partitions)
    await log.put(entries)
    return log


def partitions_of(entries: list[Entry]) -> dict[str, int]:
    """Number of partitions per topic that the entries need."""
    partitions: dict[str, int] = {}
    for entry in entries:
        partitions[entry.topic] = max(partitions.get(entry.topic, 0), entry.partition + 1)
    return partitions


def partitions_in(where: str, dump: Dump, how: OpenOptions) -> dict[str, int]:
    """Number of partitions by topic: as `form` says, or else as the dump's description says.

    Topics that neither `form` nor the description names are left out.

    Raises:
        LogNotUsable: the dump has more partitions of a topic than `form` says. Or `form` names a
            topic that is neither in the dump nor a topic of Connect (`OpenOptions.topics`).
    """
    needed = partitions_of(dump.entries)
    counts = _greater(dump.partitions, {topic: needed.get(topic, 0) for topic in dump.partitions})
    for name, number in how.form.partitions.items():
        topic = getattr(how.topics, name, name)
        if topic not in needed and topic not in msgspec.structs.astuple(how.topics):
            existing = ", ".join(sorted(needed)) or "none"
            raise LogNotUsable(f"{where} has no topic {topic} (its topics: {existing})")
        least = max(needed.get(topic, 0), counts.get(topic, 0))
        if number < least:
            raise LogNotUsable(
                f"{where} has {least} partitions of {topic}: {name}={number} is too few"
            )
        counts[topic] = number
    return counts


def assumed_in(dump: Dump, known: Mapping[str, int], topics: Topics) -> frozenset[str]:
    """Topics whose number of partitions is only inferred from records; never the config topic."""
    return frozenset(partitions_of(dump.entries)) - known.keys() - {topics.config}


def _greater(numbers: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {topic: max(numbers.get(topic, 0), other.get(topic, 0)) for topic in (*numbers, *other)}
