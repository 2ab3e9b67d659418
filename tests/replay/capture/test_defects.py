"""Captures of several logs that a defect of the program ends."""

import asyncio
from pathlib import Path

import pytest

from controlplane.core.state import Topics
from controlplane.logs.log_factory import OpenOptions
from replay.archive.stores.store import FolderStore
from replay.capture.secrets import kept_secrets
from replay.cli.execution.captures import CaptureOptions, CaptureSource, run
from tests.replay.cli.embedded_logs import write_config

pytest.importorskip("pyspark")

NOBODY = "kafka://127.0.0.1:1"
"""Brokers that never answer: a stream of them is begun again and again."""


class _StoreWithDefect(FolderStore):
    """Folder whose manifests can be read once: at the end of the first look."""

    reads = 0

    def read(self, name: str, most_bytes: int = -1) -> bytes:
        """Raise an unexpected error in the second look, as a defect would."""
        self.reads += "_manifest" in name
        if self.reads > 1:
            raise RuntimeError("a defect")
        return super().read(name, most_bytes)


async def test_a_defect_ends_the_other_part_of_a_capture(tmp_path: Path) -> None:
    """The looks at embedded logs fail, so the streams of clusters end, too."""
    await write_config(tmp_path / "a.db", b"connector-a")
    store = _StoreWithDefect(str(tmp_path / "archive"))
    topics = Topics()
    job = CaptureOptions(
        store,
        OpenOptions(topics),
        kept_secrets(topics),
        "json",
        0.1,
        alone=False,
        checkpoint=str(tmp_path / "progress"),
    )
    sources = [CaptureSource("a", str(tmp_path / "a.db")), CaptureSource("b", NOBODY)]
    with pytest.raises(RuntimeError, match="a defect"):
        await run(sources, job)
    assert asyncio.all_tasks() == {asyncio.current_task()}
