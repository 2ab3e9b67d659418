"""Appends: a repeated append adds nothing; contradictions are refused; gaps are named."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from controlplane.core.entry import Entry, Position, batch_of
from controlplane.core.order import Ends
from controlplane.core.state import Topics
from replay.archive.appender import Appender
from replay.archive.archived_cluster import open_cluster
from replay.archive.stores.store import FolderStore
from replay.archive.verification import verified
from replay.capture.log_capture import CaptureTarget, LogCapture
from replay.capture.secrets import dropped_secrets, kept_secrets
from replay.errors import ArchiveBusy, ArchiveConflict, NoArchive
from tests.conftest import examples
from tests.laws.entries import logs
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import NAME, archive, archived, capture, cluster_in, log_of

CONFIG = "connect-configs"


def configs(*offsets: int, value: bytes = b"{}") -> list[Entry]:
    """Entries of the config topic at these offsets."""
    return [Entry(CONFIG, 0, offset, 1_000 + offset, b"k", value) for offset in offsets]


@pytest.mark.slow
@settings(
    max_examples=examples(15, proved=600), phases=[Phase.explicit, Phase.reuse, Phase.generate]
)
@given(logs(), st.data())
def test_an_archive_holds_every_record_of_the_log(log: list[Entry], data: st.DataObject) -> None:
    """The archive has every record with headers and abort marks, after any number of captures."""
    log = [entry for entry in log if entry.topic != "own"]
    headers = (("h\ud800", None), ("h", b"\x00"))
    entries = [
        replace(entry, headers=headers) if data.draw(st.booleans()) else entry for entry in log
    ]
    half = data.draw(st.integers(0, len(entries)))
    with TemporaryDirectory() as folder:
        half_log, whole = log_of(entries[:half]), log_of(entries)
        capture(Path(folder), half_log)
        capture(Path(folder), whole)
        for again in (whole, half_log):
            assert capture(Path(folder), again, goes_on=False).added == 0
        cluster = cluster_in(Path(folder))
        assert archived(cluster) == sorted(entries, key=lambda entry: entry.position)
        result = verified(cluster)
        assert (result.flaws, result.leftovers) == ((), ())
        lost = {Position(topic, part, at) for topic, part, gap in cluster.gaps for at in gap}
        assert not lost & {entry.position for entry in entries}


def test_capturing_again_adds_nothing(tmp_path: Path) -> None:
    """A second capture of the same log writes no record and no manifest."""
    log = log_of(recorded_entries("life-3.9"))
    first, second = capture(tmp_path, log), capture(tmp_path, log, goes_on=False)
    assert (first.added, second.added) == (354, 0)
    assert second.cluster.chain.head == first.cluster.chain.head


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_different_record_at_the_same_offset_is_refused(tmp_path: Path, goes_on: bool) -> None:
    """A capture from the log's beginning, or from the last archived record, finds the conflict."""
    archive(tmp_path, configs(0, 1, 2))
    with pytest.raises(ArchiveConflict, match="configs@2 cannot be archived: another record"):
        capture(tmp_path, log_of([*configs(0, 1), *configs(2, 3, value=b"[]")]), goes_on=goes_on)
    assert len(archived(cluster_in(tmp_path))) == 3


def test_a_record_at_a_missing_offset_is_refused(tmp_path: Path) -> None:
    """A capture refuses a record at an offset that compaction had removed before."""
    archive(tmp_path, configs(0, 2))
    with pytest.raises(ArchiveConflict, match="configs@1 cannot be archived: the archive has no"):
        capture(tmp_path, log_of(configs(0, 1, 2)), goes_on=False)


def test_a_record_before_the_archive_begins_is_refused(tmp_path: Path) -> None:
    """A capture refuses a record before the first segment: segments are written in offset order."""
    archive(tmp_path, configs(5, 6))
    with pytest.raises(ArchiveConflict, match=r"configs@4 .*: the archive begins after it"):
        capture(tmp_path, log_of(configs(4, 5, 6)), goes_on=False)


def test_a_recreated_topic_is_refused(tmp_path: Path) -> None:
    """A capture refuses a live topic that is shorter than its archive; a dump may be shorter."""
    archive(tmp_path, configs(0, 1, 2))
    with pytest.raises(ArchiveConflict, match=rf"{CONFIG} partition 0 ends at 1, .* up to 3"):
        capture(tmp_path, log_of(configs(0)))
    assert capture(tmp_path, log_of(configs(0)), goes_on=False).added == 0


def test_a_topic_with_fewer_partitions_than_archived_is_refused(tmp_path: Path) -> None:
    """A capture refuses a live topic that lacks an archived partition; a dump may lack it."""
    offsets = [Entry("connect-offsets", 3, 0, 1_000, b"k", b"{}")]
    archive(tmp_path, [*configs(0), *offsets])
    fewer = [*configs(0), replace(offsets[0], partition=1)]
    with pytest.raises(ArchiveConflict, match="offsets has 2 partitions, but partition 2 is arch"):
        capture(tmp_path, log_of(fewer))
    assert capture(tmp_path, log_of(fewer), goes_on=False).added == 1


@pytest.mark.parametrize("request_name", ["starts", "ends"])
def test_the_next_look_reads_a_partition_that_is_added_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_name: str
) -> None:
    """A topic gains a partition with a record between two requests of a capture."""
    topic = "connect-offsets"
    first, second = (Entry(topic, number, 0, 1_000, b"k", b"{}") for number in range(2))
    log = log_of([*configs(0), first])
    original = getattr(log, request_name)

    async def grows(topics: Sequence[str]) -> Ends:
        answer: Ends = await original(topics)
        if topic in topics:
            await log.add_partitions(topic, 2)
            await log.put([second])
        return answer

    monkeypatch.setattr(log, request_name, grows)
    assert capture(tmp_path, log).added == 2
    monkeypatch.undo()
    result = capture(tmp_path, log)
    assert (result.added, verified(result.cluster).flaws) == (1, ())
    assert archived(result.cluster) == [*configs(0), first, second]


@pytest.mark.parametrize("name", ["a..b", "..a", "a.."])
def test_a_name_may_contain_two_dots(tmp_path: Path, name: str) -> None:
    """The name of a cluster may contain two dots, as that of a topic may."""
    assert verified(capture(tmp_path, log_of(configs(0)), name=name).cluster).flaws == ()


def test_records_lost_before_the_capture_are_a_gap(tmp_path: Path) -> None:
    """The archive ends at 3, and the log now begins at 7: a gap. The compacted offset 8 is none."""
    archive(tmp_path, configs(0, 1, 2))
    cluster = capture(tmp_path, log_of(configs(7, 9))).cluster
    assert list(cluster.gaps) == [(CONFIG, 0, range(3, 7))]
    result = verified(cluster)
    assert result.flaws == ()
    assert result.gaps == (
        "connect-configs partition 0: offsets 3 to 6 had been removed before they were archived",
    )


def test_a_concurrent_append_is_refused(tmp_path: Path) -> None:
    """The second of two concurrent appends adds nothing; the error says to run it again."""
    store = FolderStore(str(tmp_path))
    first, second = (Appender(store, NAME, Topics()) for _ in range(2))
    for appender in (first, second):
        appender.add(batch_of(configs(0, 1)))
        appender.reached(CONFIG, 0, 0, 2)
    assert first.commit() is not None
    with pytest.raises(ArchiveBusy, match="run the command again"):
        second.commit()
    assert len(archived(open_cluster(store, NAME))) == 2


def test_an_archive_keeps_its_topics_and_secret_policy(tmp_path: Path) -> None:
    """An archive refuses appends with other topic names or another policy for secrets."""
    archive(tmp_path, configs(0))
    with pytest.raises(ArchiveConflict, match="secrets in the archive of fleet-1 are kept"):
        capture(tmp_path, log_of(configs(0, 1)), secrets=dropped_secrets(Topics()))
    with pytest.raises(ArchiveConflict, match="has the topics connect-configs, connect-offsets"):
        Appender(FolderStore(str(tmp_path)), NAME, Topics(config="other"))


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "ä", "a" * 248])
def test_a_cluster_name_must_be_a_safe_folder_name(tmp_path: Path, name: str) -> None:
    """A cluster name must follow the rules for names of Kafka topics, because it names a folder."""
    with pytest.raises(NoArchive, match="cannot be the name of a cluster"):
        capture(tmp_path, log_of(configs(0)), name=name)
    assert not list(tmp_path.iterdir())


def test_the_longest_names_fit_into_a_file_system(tmp_path: Path) -> None:
    """The longest names of a cluster and of a topic are archived, with a snapshot of the topic."""
    topics, day_ms = Topics(offsets="o" * 249), 86_400_000
    days = [Entry(topics.offsets, 0, day, day * day_ms, b"k", b"{}") for day in range(2)]
    policy = kept_secrets(topics)
    target = CaptureTarget(FolderStore(str(tmp_path)), "c" * 247, topics, policy)
    captured = asyncio.run(LogCapture(log_of(days), target, goes_on=True).run())
    (snapshot,) = captured.cluster.snapshots
    assert [rows.topic for rows in snapshot.topics] == [topics.offsets]


def test_a_foreign_file_beside_the_manifests_is_none(tmp_path: Path) -> None:
    """Reads and captures ignore a copy of a manifest that another program made; `verify` names it.

    Such a copy may sort before or after the manifests.
    """
    archive(tmp_path, configs(0))
    folder = tmp_path / f"cluster={NAME}" / "_manifest"
    copies = [folder / f"0000000001{ending}.json" for ending in (" (1)", "~copy", "x")]
    for copy in (*copies, folder / "notes.json"):
        copy.write_bytes((folder / "0000000001.json").read_bytes())
    capture(tmp_path, log_of(configs(0, 1)))
    result = verified(cluster_in(tmp_path))
    assert (result.records, result.manifests, result.flaws) == (2, 2, ())
    assert len(result.leftovers) == 4
