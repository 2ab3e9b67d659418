"""Records of an archive equal those of its log, in log order, up to any moment."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings

from controlplane.core.entry import Entry, batch_of
from controlplane.core.moments import UnknownMoment
from controlplane.core.order import before, ends_at, in_order
from controlplane.core.state import Topics
from controlplane.core.text.record_text import place
from replay.engine import ordered_records as module
from replay.engine.ordered_records import records
from replay.errors import ArchiveCorrupt
from tests.conftest import examples
from tests.laws.entries import logs
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import archive
from tests.replay.fleet.fleets import empty_files

pytestmark = pytest.mark.slow

NAMES = ("aborted-3.9", "compacted-3.9", "odd-records-3.9", "roll-3.4-3.9-3.4")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("at_once", [1, 2, module.ROWS_AT_ONCE])
def test_a_recorded_log_is_archived_whole(
    name: str, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive has every record with its headers, also aborted ones, in portions of any size."""
    monkeypatch.setattr(module, "ROWS_AT_ONCE", at_once)
    entries = recorded_entries(name)
    assert list(records(archive(tmp_path, entries))) == entries


@pytest.mark.parametrize("name", NAMES)
def test_a_prefix_has_the_first_records(name: str, tmp_path: Path) -> None:
    """A prefix up to a record or a time has the first records in log order."""
    entries = recorded_entries(name)
    cluster = archive(tmp_path, entries)
    batches = [batch_of([entry]) for entry in entries]
    for entry in entries[:: max(1, len(entries) // 12)]:
        for moment in (place(entry.position, Topics()), str(entry.timestamp)):
            expected = list(before(entries, ends_at(batches, moment, Topics())))
            assert list(records(cluster, moment)) == expected


@settings(max_examples=examples(15, proved=300))
@given(log=logs())
def test_any_log_is_archived_whole(log: list[Entry]) -> None:
    """The archive has the records of all archived topics."""
    with TemporaryDirectory() as folder:
        cluster = archive(Path(folder), log)
        expected = [entry for entry in in_order(log) if entry.topic in cluster.ends]
        assert list(records(cluster)) == expected


@pytest.mark.parametrize(
    ("moment", "reason"),
    [
        ("2001-01-01", "is before the first record"),
        ("yesterday", "is no point in time"),
        ("config@9999", "connect-configs reaches from config@0 to config@"),
        ('{"nothing":[1]}', "has no topic 'nothing'"),
        ("conf@3", "has no topic 'conf': it has connect-configs, connect-offsets, connect-status"),
        ("status@9:3", "no record at status@9:3: connect-status has 3 partitions"),
    ],
)
def test_an_unknown_moment_is_refused(moment: str, reason: str, tmp_path: Path) -> None:
    """In an archive of Connect's topics only, the error comes before any segment is read."""
    cluster = archive(tmp_path, recorded_entries("roll-3.4-3.9-3.4"))
    empty_files(tmp_path)
    with pytest.raises(ArchiveCorrupt):
        list(records(cluster))
    with pytest.raises(UnknownMoment, match=reason):
        records(cluster, moment)


@pytest.mark.parametrize(
    ("own_topics", "named"),
    [
        (["own"], "connect-configs, own"),
        ([f"own{number}" for number in range(10, 40)], "connect-configs, own10, "),
    ],
)
def test_a_missing_topic_is_answered_with_all_topics(
    own_topics: list[str], named: str, tmp_path: Path
) -> None:
    """The error names the offsets topics of connectors, too, but at most 20 topics."""
    configs = [
        Entry(
            "connect-configs",
            0,
            offset,
            1,
            f"connector-{topic}".encode(),
            f'{{"properties":{{"offsets.storage.topic":"{topic}"}}}}'.encode(),
        )
        for offset, topic in enumerate(own_topics)
    ]
    offsets = [Entry(topic, 0, 0, 2, f'["{topic}",{{}}]'.encode(), b"{}") for topic in own_topics]
    cluster = archive(tmp_path, [*configs, *offsets])
    with pytest.raises(UnknownMoment) as refused:
        records(cluster, '{"nothing":[1]}')
    shown = str(refused.value).partition(": it has ")[2]
    assert shown.startswith(named)
    assert shown.count(", ") == min(len(own_topics), 20)
    assert shown.endswith("…") is (len(own_topics) > 20)
