"""Answers that leave in one piece: head and body are written apart, and would be two packets."""

import asyncio
from typing import Any


class Gathering:
    """A transport that writes together what it is given in one go, and remembers it.

    No more than `most` bytes wait, or are remembered; of what is longer, or never ends, nothing is.
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
        """All that was written; None: too much to be remembered."""
        return None if self._written is None else b"".join(self._written)

    def write(self, piece: bytes) -> None:
        """Write, soon."""
        if not self._waiting:
            self._loop.call_soon(self.flush)
        self._waiting.append(piece)
        if sum(map(len, self._waiting)) > self._most:  # whoever writes is to hear of a full buffer
            self.flush()

    def flush(self) -> None:
        """Write what waits, now."""
        if self._waiting:
            together = b"".join(self._waiting)
            self._waiting.clear()
            self._remember(together)
            self._transport.write(together)

    def close(self) -> None:
        """Close when everything is written."""
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
