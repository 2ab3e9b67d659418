"""A program with an embedded control plane.

Run `python examples/embedding.py [state.db]`, then inspect the file that it creates:
`controlplane inspect state.db --history lines`.
"""

import asyncio
import sys
from contextlib import aclosing

from controlplane import (
    AlterOffsets,
    ControlPlane,
    CreateConnector,
    DeleteConnector,
    OffsetChange,
    PauseConnector,
    Refusal,
    StopConnector,
    plan_text,
    views,
)

CONFIG = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "topic": "lines",
    "file": "/var/log/lines",
    "tasks.max": "1",
}


async def main(where: str) -> None:
    """Create a connector, stop it, alter its offset, and read its history."""
    async with ControlPlane.open(where) as plane:
        watching = asyncio.create_task(watch(plane))
        await asyncio.sleep(0)

        # A command returns once all its records are read back; `key` makes it run only once.
        await plane.execute(CreateConnector("lines", CONFIG), key="make-lines")
        await plane.execute(StopConnector("lines"))

        position = OffsetChange({"filename": "/var/log/lines"}, {"position": 4096})
        outcome = await plane.execute(AlterOffsets("lines", (position,)))
        print(outcome.message)

        # A dry run: named steps, each one atomic batch of records.
        plan = await plane.plan(DeleteConnector("lines"))
        print("delete would write", plan_text(plan, plane.state))

        try:
            await plane.execute(PauseConnector("nobody"))
        except Refusal as refusal:
            print("refused:", refusal)

        # A state is immutable: later commands do not change this one.
        now, then = plane.state, await plane.state_at("config@0")
        print("now", views.target(now, "lines"), "and at first", views.target(then, "lines"))
        for event in (await plane.history("lines")).events:
            print(f"  {event.entry.position.offset}: {event.what}: {event.words}")
        watching.cancel()


async def watch(plane: ControlPlane) -> None:
    """Print every change as it happens, with the record that caused it."""
    async with aclosing(plane.watch()) as changes:
        async for change in changes:
            print(change.connector, change.aspect.value, change.before, "→", change.after)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "memory:"))
