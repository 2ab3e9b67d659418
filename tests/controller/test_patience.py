"""Deadlines that are looked at together."""

import asyncio

import pytest

from controlplane.controller.patience import Patience


async def test_who_takes_too_long_is_told() -> None:
    """As `asyncio.timeout` tells it; who is quick never hears of it."""
    patience = Patience()
    with patience.within(60_000):
        await asyncio.sleep(0)
    with pytest.raises(TimeoutError), patience.within(1):
        await asyncio.sleep(60)


async def test_each_has_his_own_deadline() -> None:
    """Of those who wait together, only those are told whose time is over."""
    patience = Patience()

    async def wait(limit_ms: float, ended: asyncio.Event) -> str:
        try:
            with patience.within(limit_ms):
                await ended.wait()
        except TimeoutError:
            return "told"
        return "done"

    ended = asyncio.Event()
    quick = asyncio.create_task(wait(1, ended))
    patient = asyncio.create_task(wait(60_000, ended))
    assert await quick == "told"
    ended.set()
    assert await patient == "done"


async def test_a_cancellation_from_elsewhere_stays_one() -> None:
    """It is no time-out, and what the block raises itself is neither."""
    patience = Patience()

    async def wait() -> None:
        with patience.within(60_000):
            await asyncio.sleep(60)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ValueError, match="mine"), patience.within(60_000):
        raise ValueError("mine")
