"""Stub."""

from typing import Any


async def show(*_: Any) -> None:
    """Stub."""
