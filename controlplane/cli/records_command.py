"""The command `records`: the last records of a topic, such as the data topic of a connector."""

import asyncio
import sys

import click

from controlplane.core.entry import Entry
from controlplane.core.moments import quoted, time_text
from controlplane.core.order import entries_of
from controlplane.core.text import record_text
from controlplane.logs.log import LogNotUsable, ReadableLog
from controlplane.logs.log_factory import OpenOptions, open_any_log
from controlplane.logs.names import without_login
from controlplane.terminal.log_options import LogOptions, log_options, output_option
from controlplane.terminal.number_options import WholeNumber
from controlplane.terminal.output import print_json, say
from controlplane.terminal.shell_completion import complete_files
from controlplane.terminal.tables import table

LAST_RECORDS = 10
"""Default number of offsets to read back in each partition: the records fit on a screen."""

TOPICS_NAMED = 20
"""Maximum number of topics that the error about a missing topic lists."""


@click.command("records")
@click.argument("log", shell_complete=complete_files)
@click.argument("name", metavar="TOPIC")
@click.option(
    "--last",
    type=WholeNumber(1, sys.maxsize),
    default=LAST_RECORDS,
    show_default=True,
    metavar="N",
    help="Number of offsets to read back from the end of each partition.",
)
@output_option
@log_options
def records(log: str, name: str, reading: LogOptions, last: int, output: str) -> None:
    """Show the last records of TOPIC in LOG, as a read_committed sink reads them.

    Records of aborted transactions are left out, and values of fields that look like secrets are
    hidden. Exit code 2: LOG cannot be read, or has no such topic.
    """
    entries = asyncio.run(_last(log, reading.opening(), name, last))
    if output == "json":
        documents = [record_text.document(entry) for entry in entries]
        print_json({"log": without_login(log), "topic": name, "records": documents})
    elif entries:
        table(("PARTITION", "OFFSET", "TIME", "KEY", "VALUE"), map(_row, entries))
    else:
        say(f"no records in {quoted(name)}")


def _row(entry: Entry) -> tuple[str, ...]:
    key = "-" if entry.key is None else record_text.key(entry)
    place = str(entry.partition), str(entry.offset)
    return *place, time_text(entry.timestamp), key, record_text.value(entry)


async def _last(where: str, how: OpenOptions, topic: str, last: int) -> list[Entry]:
    async with await open_any_log(where, how) as opened:
        await _check_topic(opened.log, where, topic)
        ends = (await opened.log.ends([topic]))[topic]
        starts = {topic: [max(0, end - last) for end in ends]}
        batches = [batch async for batch in opened.log.read([topic], starts, {topic: ends})]
    return [entry for entry in entries_of(batches) if not entry.aborted]


async def _check_topic(log: ReadableLog, where: str, topic: str) -> None:
    topics = await log.topics()
    if topic not in topics:
        names = sorted(topics)
        named = ", ".join(names[:TOPICS_NAMED]) + (", …" if len(names) > TOPICS_NAMED else "")
        raise LogNotUsable(
            f"{without_login(where)} has no topic {quoted(topic)}; name one that it has: {named}"
        )
