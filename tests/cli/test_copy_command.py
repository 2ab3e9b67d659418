"""`controlplane copy` without a broker: each refusal has exit code 2 and changes nothing."""

import asyncio
from pathlib import Path

import pytest

from controlplane.logs.sqlite import SqliteLog
from tests.cli.command_calls import call, refusal
from tests.ports import free_ports

CLUSTER = "kafka://localhost:9092"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("a.db", "b.db"), "neither FROM nor TO is kafka://host:port"),
        ((CLUSTER, CLUSTER), "FROM and TO are both clusters"),
        (("nowhere.db", CLUSTER), "nowhere.db does not exist"),
        ((CLUSTER, "README.md"), "README.md exists already"),
        ((CLUSTER, "memory:"), "is a log in memory, which ends with its process"),
    ],
)
def test_bad_uses_are_refused(words: tuple[str, ...], sentence: str) -> None:
    """Each bad use of `copy` gives one sentence."""
    assert sentence in refusal(call("copy", *words))


def test_a_log_in_use_is_refused_before_a_broker_that_is_down(tmp_path: Path) -> None:
    """A log with a running writer is refused first; then the unreachable broker is named."""
    path = tmp_path / "state.db"
    (port,) = free_ports(1)
    words = ("copy", path, f"kafka://127.0.0.1:{port}")

    async def refused_in_use() -> str:
        log = await SqliteLog.open(path)
        try:
            for topic in ("connect-configs", "connect-offsets", "connect-status"):
                await log.create_topic(topic, 1)
            with log.writer_lock():
                return refusal(await asyncio.to_thread(call, *words))
        finally:
            await log.close()

    assert "copy a backup of the log" in asyncio.run(refused_in_use())
    assert f"127.0.0.1:{port}" in refusal(call(*words))
