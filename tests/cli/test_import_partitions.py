"""Imported topics have as many partitions as their source."""

import asyncio
from pathlib import Path

from controlplane.core.entry import Entry
from controlplane.logs.sqlite import SqliteLog
from tests.cli.command_calls import call, topics

TOPICS = {"connect-configs": 1, "connect-offsets": 5, "connect-status": 3}


async def filled(path: Path) -> None:
    """Log of three topics: one ends with two empty partitions, one is empty."""
    log = await SqliteLog.open(path)
    for topic, partitions in TOPICS.items():
        await log.create_topic(topic, partitions)
    await log.put(
        [
            Entry("connect-configs", 0, 4, 1, b"k", None),
            Entry("connect-offsets", 2, 0, 1, b"k", None),
        ]
    )
    await log.close()


def test_empty_partitions_and_topics_are_created(tmp_path: Path) -> None:
    """A copy of a log that knows its topics has all of them and their partitions."""
    asyncio.run(filled(tmp_path / "one.db"))
    result = call("import", tmp_path / "one.db", tmp_path / "two.db", "-o", "json")
    assert result.json["files"][0]["topics"] == TOPICS
    assert topics(tmp_path / "two.db") == TOPICS
    assert call("inspect", tmp_path / "two.db").err == ""


def test_a_log_grows_to_its_sources_partitions(tmp_path: Path) -> None:
    """A log made from a dump gets the empty partitions once its source is imported."""
    line = '{"topic":"connect-offsets","partition":0,"offset":7,"tstype":"create","ts":1,"broker":1'
    (tmp_path / "dump").write_text(line + ',"key":"other","payload":"v"}\n', "utf-8")
    call("import", tmp_path / "dump", tmp_path / "two.db")
    asyncio.run(filled(tmp_path / "one.db"))
    assert call("import", tmp_path / "one.db", tmp_path / "two.db").code == 0
    assert topics(tmp_path / "two.db") == TOPICS
