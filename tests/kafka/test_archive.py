"""Archives of a real cluster: equal to its topics, with gaps and aborted records."""

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from controlplane.logs.kafka.reads.reader import KafkaReader
from replay.archive.verification import verified
from replay.capture.log_capture import CaptureResult, CaptureTarget, LogCapture
from tests.conftest import PROVE, ROOT
from tests.kafka.capture_checks import check_whole, left_in
from tests.kafka.capture_crashes import target_in
from tests.kafka.conftest import NEWEST
from tests.kafka.topic_histories import TopicHistory, removed
from tests.replay.archive.archives import archived

pytestmark = [pytest.mark.java, pytest.mark.broker, NEWEST]

EVERY = 1 if PROVE else 22
"""Distance of the steps at which a capture is killed."""


async def test_an_archive_equals_the_topics(
    past: TopicHistory, reader: KafkaReader, tmp_path: Path
) -> None:
    """Three captures archive the broker, one of them during an open transaction."""
    target = target_in(tmp_path, past.topics)

    async def capture() -> CaptureResult:
        return await LogCapture(reader, target, goes_on=True).run()

    async def while_open() -> None:
        assert archived((await capture()).cluster) == await past.present_entries()
        assert (await capture()).added == 0  # the open transaction is undecided

    before = await past.present_entries()
    assert (await capture()).added == len(before)
    await past.write_more(while_open)
    captured = await capture()
    entries, cluster = await past.present_entries(), captured.cluster
    assert captured.added == 2 * len(past.names)
    assert archived(cluster) == entries
    assert len([entry for entry in entries if entry.aborted]) > len(past.names)
    assert cluster.parts[past.own, 0].start == 3
    assert cluster.ends == await reader.ends(past.names)
    assert (verified(cluster).flaws, verified(cluster).gaps) == ((), ())
    assert (await capture()).added == 0


def killed_at_steps(past: TopicHistory, folder: Path) -> list[CaptureTarget]:
    """Archives of killed captures, each killed `EVERY` steps later than the one before."""
    words = (str(folder), str(EVERY), past.broker.bootstrap, *msgspec.structs.astuple(past.topics))
    command = [sys.executable, "-W", "ignore", "-m", "tests.kafka.capture_crashes", *words]
    subprocess.run(command, cwd=ROOT, check=True)
    return [target_in(archive_folder, past.topics) for archive_folder in sorted(folder.iterdir())]


async def test_killed_captures_neither_lose_nor_double(
    past: TopicHistory, reader: KafkaReader, tmp_path: Path
) -> None:
    """Captures of several parts are killed at every step; the next one completes the archive."""
    entries = await past.present_entries()
    targets = await asyncio.to_thread(killed_at_steps, past, tmp_path)
    lefts = [left_in(target, entries) for target in targets]
    await past.write_more()
    await removed(past.broker, past.own, 0, 28)
    entries, starts = await past.present_entries(), await reader.starts(past.names)
    gaps = []
    for target, left in zip(targets, lefts, strict=True):
        captured = await LogCapture(reader, target, goes_on=True).run()
        check_whole(captured.cluster, left, entries, starts)
        gaps.append(len([*captured.cluster.gaps]))
    parts = [len(left.chain.manifests) for left in lefts]
    assert parts == sorted(parts), "a kill at a later step never loses a part"
    assert {0, 1, 2, 3} <= {*parts}
    assert {0, 1} == {*gaps}, (
        "some killed captures had archived the records that are removed later, others had not"
    )
