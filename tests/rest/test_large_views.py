"""Answers about large configs are made outside the event loop, so that it stays free."""

import asyncio

import pytest

from tests.operation_counts import operations
from tests.rest.plane import ORDERS, orders_plane

ASKED = {
    "commands": ("GET", "/commands"),
    "history with records": ("GET", "/connectors/orders/history?records=true&limit=10"),
    "differences": ("GET", "/diff?from=config@0&limit=10"),
    "a dry run": ("PUT", "/connectors/orders/config?dry_run=true"),
}


def asking(method: str, path: str, keys: int) -> int:
    """Operations in the event loop for a request about a connector with this number of keys."""
    configs = [ORDERS | {f"key{at}": value for at in range(keys)} for value in "abc"]

    with asyncio.Runner() as runner:
        scene = orders_plane()
        _, client = runner.run(scene.__aenter__())
        for config in configs[:2]:
            done = runner.run(client.put("/connectors/orders/config", json=config))
            assert done.status_code == 200
        question = client.build_request(method, path, json=configs[2] if method == "PUT" else None)

        async def work() -> None:
            assert (await client.send(question)).status_code == 200

        count = operations(lambda: runner.run(work()))
        runner.run(scene.__aexit__(None, None, None))
    return count


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path"), ASKED.values(), ids=ASKED)
def test_a_large_config_is_shown_beside_the_event_loop(method: str, path: str) -> None:
    """The event loop's work does not grow with the number of keys, except to read the body."""
    small, large = (asking(method, path, keys) for keys in (4_000, 9_000))
    assert large < small + 120 * 5_000
