"""Ends of looks: a capture that commits in the middle of one says so."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from controlplane.core.entry import batch_of
from controlplane.core.state import Topics
from replay.archive.appender import Appender
from replay.archive.looks import UNRECORDED, PartitionLook, looks_of
from replay.archive.manifest import read_chain
from replay.archive.store import FolderStore
from replay.capture.log_capture import CaptureTarget, LogCapture
from replay.capture.secrets import kept
from tests.core.logs import config, connector
from tests.replay.archives import NAME, SMALL, archive, log_of

PLACE = ("connect-configs", 0)
LOG = config(*(connector("a", version=str(number)) for number in range(6)))


def test_a_commit_at_the_last_record_ends_a_look(tmp_path: Path) -> None:
    """Nothing follows it in this look."""
    store, topics = FolderStore(str(tmp_path)), Topics()
    target = CaptureTarget(store, NAME, topics, kept(topics), SMALL, commit_records=1)
    asyncio.run(LogCapture(log_of(LOG[:3]), target, goes_on=True).run())
    asyncio.run(LogCapture(log_of(LOG), target, goes_on=True).run())
    looks = looks_of(read_chain(store, NAME))[PLACE]
    assert looks == [PartitionLook(0, 3, is_whole=True), PartitionLook(3, 6, is_whole=True)]


def test_appends_of_one_look_are_joined(tmp_path: Path) -> None:
    """Only the end of the whole look counts, however many commits it has."""
    for end, partial in ((2, True), (4, True), (6, False)):
        appender = Appender(FolderStore(str(tmp_path)), NAME, Topics())
        appender.add(batch_of(LOG[end - 2 : end]))
        appender.reached(*PLACE, 0, end, partial=partial)
        appender.commit()
    assert looks_of(read_chain(FolderStore(str(tmp_path)), NAME))[PLACE] == [
        PartitionLook(0, 6, is_whole=True)
    ]


def test_an_earlier_version_did_not_record_it(tmp_path: Path) -> None:
    """Small appends were whole looks; a large one may have ended within its look."""
    chain = archive(tmp_path, LOG).chain
    (manifest,) = chain.manifests
    silent = replace(
        manifest, reaches=tuple(replace(reach, partial=None) for reach in manifest.reaches)
    )
    (segment, *rest) = silent.segments
    large = replace(segment, stored=replace(segment.stored, records=UNRECORDED))
    for appended, is_whole in ((silent, True), (replace(silent, segments=(large, *rest)), False)):
        looks = looks_of(chain._replace(manifests=(appended,)))
        assert looks[PLACE] == [PartitionLook(0, len(LOG), is_whole)]
