"""`/health` while the log's file is unusable and commands cannot be written."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from controlplane import ControlPlane
from controlplane.logs.sqlite import probe

CONFIG = {"connector.class": "FileStreamSource", "topic": "t"}


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the control plane of an embedded log."""
    async with ControlPlane.open(f"sqlite:///{path}") as plane:
        transport = httpx.ASGITransport(plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://plane") as client:
            yield client


@pytest.fixture(autouse=True)
def fresh_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every request check health anew."""
    monkeypatch.setattr(probe, "LASTS_S", 0.0)


async def health_answer(client: httpx.AsyncClient) -> tuple[int, str]:
    """Status code and message of `/health`."""
    answer = await client.get("/health")
    return answer.status_code, answer.json()["message"]


async def test_a_log_that_was_moved_makes_health_unhealthy(tmp_path: Path) -> None:
    """Health gives the reason; a waiting command is written when the file is back."""
    path, elsewhere = tmp_path / "state.db", tmp_path / "elsewhere.db"
    async with served(path) as client:
        assert (await health_answer(client))[0] == 200
        path.rename(elsewhere)
        creating = asyncio.create_task(
            client.put("/connectors/orders/config", json=CONFIG, timeout=None)
        )
        status, message = await health_answer(client)
        assert status == 500
        assert "was deleted or replaced" in message
        assert not creating.done()
        elsewhere.rename(path)
        assert (await creating).status_code == 201
        assert (await health_answer(client))[0] == 200


async def test_a_log_that_was_replaced_makes_health_unhealthy(tmp_path: Path) -> None:
    """Health reports a replaced file: writes to the former file would be lost."""
    path = tmp_path / "state.db"
    async with served(path) as client:
        path.rename(tmp_path / "elsewhere.db")
        path.write_bytes((tmp_path / "elsewhere.db").read_bytes())
        status, message = await health_answer(client)
        assert status == 500
        assert "was deleted or replaced" in message


async def test_a_full_disk_makes_health_unhealthy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk makes health unhealthy; free space makes it healthy again."""
    async with served(tmp_path / "state.db") as client:
        real = os.statvfs
        monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=1, f_frsize=4_096))
        status, message = await health_answer(client)
        assert status == 500
        assert "the disk is full" in message
        monkeypatch.setattr(os, "statvfs", real)
        assert (await health_answer(client))[0] == 200


async def test_health_answers_while_another_process_locks_the_log(tmp_path: Path) -> None:
    """Health answers although its own write still waits for the lock."""
    path = tmp_path / "state.db"
    async with served(path) as client:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            status, message = await health_answer(client)
            other.execute("ROLLBACK")
        assert status == 500
        assert "did not complete a write probe" in message
        created = await client.put("/connectors/orders/config", json=CONFIG, timeout=None)
        assert created.status_code == 201
        assert (await health_answer(client))[0] == 200


async def test_health_detects_the_fence(tmp_path: Path) -> None:
    """Health reports the fence before any command fails."""
    async with ControlPlane.open(f"sqlite:///{tmp_path / 'state.db'}") as plane:
        transport = httpx.ASGITransport(plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://plane") as client:
            await plane.log.claim()
            status, message = await health_answer(client)
            assert status == 500
            assert "another writer has taken over" in message
            assert message.endswith("restart it, or send commands to the new writer")


async def test_requests_within_a_second_share_one_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests within a second share one transaction, because anybody may request `/health`."""
    monkeypatch.setattr(probe, "LASTS_S", 3_600.0)
    path = tmp_path / "state.db"
    async with served(path) as client:
        with closing(sqlite3.connect(path)) as other:
            assert (await health_answer(client))[0] == 200
            (before,) = other.execute("PRAGMA data_version").fetchone()
            for _ in range(10):
                assert (await health_answer(client))[0] == 200
            assert other.execute("PRAGMA data_version").fetchone() == (before,)
