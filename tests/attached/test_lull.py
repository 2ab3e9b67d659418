"""Waits until a request is in flight."""

import asyncio

import pytest

from controlplane.attached import lull
from controlplane.attached.lull import Lull
from tests.patience import PATIENCE_S


async def test_a_request_begins_a_lull(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every waiting task continues once the sending task waits for its answer."""
    monkeypatch.setattr(lull, "LONGEST_S", PATIENCE_S)
    pause, order = Lull(), list[str]()

    async def waits() -> None:
        await pause.wait()
        order.append("compared")

    waiting = [asyncio.create_task(waits()) for _ in range(2)]
    await asyncio.sleep(0)
    pause.begin()
    order.append("sent")
    await asyncio.gather(*waiting)
    assert order == ["sent", "compared", "compared"]


async def test_no_request_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait ends without a request; a past lull ends no later wait."""
    monkeypatch.setattr(lull, "LONGEST_S", 0.05)
    pause = Lull()
    pause.begin()
    clock = asyncio.get_running_loop().time
    began = clock()
    await pause.wait()
    assert clock() - began >= lull.LONGEST_S * 0.9
