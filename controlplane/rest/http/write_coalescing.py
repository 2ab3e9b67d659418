"""Coalesced writes: sends the response head and body in one write, not in two packets."""

import asyncio
from typing import Any


class Gathering:
    """Transport that joins the writes of one event loop turn, and records them.

    It buffers and records at most `most` bytes; longer or endless answers are not recorded.
    """

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop, most: int) -> None:
        self._transport = transport
        self._loop = loop
        self._most = most
        self._waiting: list[bytes] = []
        self._written: list[bytes] | None = []
        self._length = 0

    @property
    def written(self) -> bytes | None:
        """Everything that was written; None if it was too long to be recorded."""
        return None if self._written is None else b"".join(self._written)

    def write(self, piece: bytes) -> None:
        """Write at the end of this turn."""
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting.append(piece)
        if sum(map(len, self._waiting)) > self._most:  # the writer must notice a full buffer
            self.flush()

    def flush(self) -> None:
        """Write the buffer now."""
        if self._waiting:
            together = b"".join(self._waiting)
            self._waiting.clear()
            self._remember(together)
            self._transport.write(together)

    def close(self) -> None:
        """Close after the buffer is written."""
        self.flush()
        self._transport.close()

    def _remember(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length > self._most:
            self._written = None
        if self._written is not None:
            self._written.append(piece)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
