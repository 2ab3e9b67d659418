"""Cancellation of work when its client disconnects."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

from starlette.types import Receive

from controlplane.rest.errors import RestError

T = TypeVar("T")


class ClientLeft(Exception):
    """The client has closed its connection, and the work for it was cancelled."""


async def unless_left(work: Awaitable[T], receive: Receive) -> T:
    """Await work while the client is connected; cancel it when the client leaves.

    Raises:
        ClientLeft: the client closed its connection first.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not working.done() and leaving.result():
            raise ClientLeft
        return await working
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _left(receive: Receive) -> bool:
    """Return True once the client has left; False if its connection reports nothing more."""
    with suppress(RestError):  # a body over its limit: the endpoint reads none
        while (await receive())["type"] != "http.disconnect":
            pass
        return True
    return False
