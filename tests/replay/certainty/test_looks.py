"""Ends of looks: a commit in the middle of a look is marked as partial."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from controlplane.core.entry import batch_of
from controlplane.core.state import Topics
from replay.archive.appender import Appender
from replay.archive.manifest import Chain, read_chain
from replay.archive.readings.archived_readings import PERHAPS_PARTIAL_RECORDS, ArchivedReadings
from replay.archive.stores.store import ArchiveStore, FolderStore
from replay.capture.log_capture import CaptureTarget, LogCapture
from replay.capture.secrets import kept_secrets
from tests.core.logs import config, connector
from tests.replay.archive.archives import NAME, SMALL, archive, log_of

PLACE = ("connect-configs", 0)
LOG = config(*(connector("a", version=str(number)) for number in range(6)))


def looks_in(store: ArchiveStore, chain: Chain) -> list[tuple[int, int, bool]]:
    """Start, end and completeness of each look."""
    looks = ArchivedReadings(store, chain).of(PLACE).looks
    columns = (looks.starts.tolist(), looks.ends.tolist(), looks.whole.tolist())
    return list(zip(*columns, strict=True))


def test_a_commit_at_the_last_record_ends_a_look(tmp_path: Path) -> None:
    """Looks that are committed record by record end at their last record, and are whole."""
    store, topics = FolderStore(str(tmp_path)), Topics()
    target = CaptureTarget(store, NAME, topics, kept_secrets(topics), SMALL, commit_records=1)
    asyncio.run(LogCapture(log_of(LOG[:3]), target, goes_on=True).run())
    asyncio.run(LogCapture(log_of(LOG), target, goes_on=True).run())
    assert looks_in(store, read_chain(store, NAME)) == [(0, 3, True), (3, 6, True)]


def test_appends_of_one_look_are_joined(tmp_path: Path) -> None:
    """The look ends at its last commit, however many commits it has."""
    store = FolderStore(str(tmp_path))
    for end, partial in ((2, True), (4, True), (6, False)):
        appender = Appender(store, NAME, Topics())
        appender.add(batch_of(LOG[end - 2 : end]))
        appender.reached(*PLACE, 0, end, partial=partial)
        appender.commit()
    assert looks_in(store, read_chain(store, NAME)) == [(0, 6, True)]


def test_an_earlier_version_did_not_mark_partial_looks(tmp_path: Path) -> None:
    """Small appends count as whole looks; a large append may have ended within its look."""
    cluster = archive(tmp_path, LOG)
    store, chain = cluster.store, cluster.chain
    (manifest,) = chain.manifests
    silent = replace(
        manifest, reaches=tuple(replace(reach, partial=None) for reach in manifest.reaches)
    )
    (segment, *rest) = silent.segments
    large = replace(segment, stored=replace(segment.stored, records=PERHAPS_PARTIAL_RECORDS))
    for appended, is_whole in ((silent, True), (replace(silent, segments=(large, *rest)), False)):
        looks = looks_in(store, chain._replace(manifests=(appended,)))
        assert looks == [(0, len(LOG), is_whole)]
