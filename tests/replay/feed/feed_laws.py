"""Laws of a change feed: the sum of its rows is the archive's state and its findings."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import replay
from controlplane.core.entry import Entry
from replay.archive.segments.segment_files import SegmentSizes
from replay.fleet.feed.change_feed import ArchiveFeed
from replay.fleet.feed.feed_tables import FeedTables
from replay.fleet.feed.state_changes import row_text
from replay.fleet.open_archive import OpenArchive
from replay.tables.schemas import FEED_SCHEMAS, STATE_SCHEMAS
from tests.replay.archive.archives import NAME, capture, log_of

SIZES = SegmentSizes(40, 16)


def archive_in(folder: Path, **options: Any) -> OpenArchive[pa.Table]:
    """Open the archive of a feed."""
    return replay.open(str(folder / "archive"), **options)


def feed_in(folder: Path, **options: Any) -> ArchiveFeed:
    """Feed with archive, tables and checkpoint in one folder."""
    return archive_in(folder, **options).follow(str(folder / "tables"), str(folder / "checkpoint"))


def archived(folder: Path, entries: Sequence[Entry], name: str = NAME) -> None:
    """Capture a log into the archive of a feed."""
    capture(folder / "archive", log_of(entries), name=name, sizes=SIZES)


def looks_at(entries: Sequence[Entry], random: Random, number: int) -> Iterator[list[Entry]]:
    """Records of a growing log at each of several captures.

    The log grows in the order of writing, or by different numbers of records per partition.
    """
    reached = {(entry.topic, entry.partition): 0 for entry in entries}
    together = 0
    for look in range(1, number + 1):
        if look == number:
            yield list(entries)
            return
        if random.random() < 0.5:
            together = random.randint(together, len(entries))
            for entry in entries[:together]:
                place = entry.topic, entry.partition
                reached[place] = max(reached[place], entry.offset + 1)
        else:
            for entry in random.sample(list(entries), len(reached)):
                place = entry.topic, entry.partition
                reached[place] = max(reached[place], entry.offset + 1)
        yield [entry for entry in entries if entry.offset < reached[entry.topic, entry.partition]]


def rows_of(feed: ArchiveFeed) -> dict[str, list[dict[str, Any]]]:
    """Rows of all tables, without the last manifest's hash, which depends on the time."""
    tables = {name: feed.tables.table(name).to_pylist() for name in FEED_SCHEMAS}
    for row in tables["batches"]:
        row.pop("head")
    return tables


def sorted_rows(tables: FeedTables, last: int | None = None) -> dict[str, list[str]]:
    """Sorted rows of the batches that count, or of those up to one batch."""
    batches = range((tables.last() if last is None else last) + 1)
    return {
        name: sorted(repr(row) for batch in batches for row in tables.rows(name, batch))
        for name in FEED_SCHEMAS
    }


def assert_adds_up(feed: ArchiveFeed, archive: OpenArchive[Any]) -> None:
    """Check digest, state and findings after the last batch against the archive."""
    tables = {name: feed.tables.table(name).to_pylist() for name in FEED_SCHEMAS}
    last = {row["cluster"]: row for row in tables["batches"] if row["problem"] is None}
    for summary in archive.summaries().to_pylist():
        row = last[summary["cluster"]]
        assert row["digest"] == summary["digest"]
        assert json.loads(row["as_of"]) == json.loads(summary["as_of"])
    assert summed(tables["state_changes"]) == states_of(archive)
    assert findings(tables["finding_changes"]) == Counter(map(repr, archive.audit().to_pylist()))


def summed(changes: Sequence[dict[str, Any]]) -> Counter[tuple[str, str, str]]:
    """Rows of the state after all changes. Each removed row must exist before."""
    rows: Counter[tuple[str, str, str]] = Counter()
    for row in changes:
        assert row["before"] != row["after"]
        for side, step in (("before", -1), ("after", 1)):
            if row[side] is not None:
                place = row["cluster"], row["table"], row[side]
                rows[place] += step
                assert rows[place] >= 0
    return +rows


def states_of(archive: OpenArchive[Any]) -> Counter[tuple[str, str, str]]:
    """Rows of the archive's state."""
    return Counter(
        (row["cluster"], table, row_text(table, row))
        for table in STATE_SCHEMAS
        for row in archive.state(table).to_pylist()
    )


def findings(changes: Sequence[dict[str, Any]]) -> Counter[str]:
    """Findings that remain after all changes."""
    present: Counter[str] = Counter()
    for row in changes:
        finding = repr({name: row[name] for name in row if name not in ("batch", "change")})
        present[finding] += 1 if row["change"] == "raised" else -1
        assert present[finding] >= 0
    return +present
