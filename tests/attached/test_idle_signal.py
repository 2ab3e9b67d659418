"""Tests of waiting until a request is in flight."""

import asyncio

import pytest

from controlplane.attached import idle_signal
from controlplane.attached.idle_signal import IdleSignal
from tests.patience import PATIENCE_S


async def test_a_request_begins_an_idle_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """All waiting tasks continue once the sending task waits for its answer."""
    monkeypatch.setattr(idle_signal, "LONGEST_S", PATIENCE_S)
    pause, order = IdleSignal(), list[str]()

    async def waits() -> None:
        await pause.wait()
        order.append("compared")

    waiting = [asyncio.create_task(waits()) for _ in range(2)]
    await asyncio.sleep(0)
    pause.begin()
    order.append("sent")
    await asyncio.gather(*waiting)
    assert order == ["sent", "compared", "compared"]


async def test_a_wait_without_a_request_ends_after_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An earlier idle moment does not end a wait that begins after it."""
    monkeypatch.setattr(idle_signal, "LONGEST_S", 0.05)
    pause = IdleSignal()
    pause.begin()
    clock = asyncio.get_running_loop().time
    began = clock()
    await pause.wait()
    assert clock() - began >= idle_signal.LONGEST_S * 0.9
