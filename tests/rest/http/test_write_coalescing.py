"""Answers that leave in one piece."""

import asyncio

from controlplane.rest.http.connections import CoalescingTransport


class Wire:
    """Transport that records its calls."""

    def __init__(self) -> None:
        self.told: list[bytes | str] = []

    def write(self, piece: bytes) -> None:
        """Record it."""
        self.told.append(piece)

    def close(self) -> None:
        """Record it."""
        self.told.append("close")

    def is_closing(self) -> bool:
        """True once the transport was closed."""
        return "close" in self.told


async def test_head_and_body() -> None:
    """Both are written together, when their writer yields to the loop."""
    wire = Wire()
    gathering = CoalescingTransport(wire, asyncio.get_running_loop(), 100)
    gathering.write(b"head ")
    gathering.write(b"body")
    assert wire.told == []
    await asyncio.sleep(0)
    assert wire.told == [b"head body"]
    assert gathering.written == b"head body"


async def test_nothing_is_lost_by_closing() -> None:
    """Closing writes the waiting bytes first."""
    wire = Wire()
    gathering = CoalescingTransport(wire, asyncio.get_running_loop(), 100)
    gathering.write(b"all")
    gathering.close()
    await asyncio.sleep(0)
    assert wire.told == [b"all", "close"]
    assert gathering.is_closing()


async def test_an_answer_without_end() -> None:
    """An endless answer is written as it comes and fills no memory."""
    wire = Wire()
    gathering = CoalescingTransport(wire, asyncio.get_running_loop(), 10)
    for number in range(10):
        gathering.write(b"event %d" % number)
    assert b"".join(one for one in wire.told if isinstance(one, bytes)).startswith(
        b"event 0event 1"
    )
    await asyncio.sleep(0)
    assert gathering.written is None
    assert len(wire.told) == 5
