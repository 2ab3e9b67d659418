"""Exactly-once sources: records and offsets in one transaction."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from controlplane.connect import Source, key
from controlplane.connect.source import OffsetPairs, SourceRun
from controlplane.core.commands import CreateConnector
from controlplane.core.context import DecisionSettings
from controlplane.plane import Settings
from tests.worker.worker_fixture import (
    QUICK,
    config_of,
    offsets,
    running,
    until,
    until_values,
    values_in,
)

EXACTLY_ONCE = msgspec.structs.replace(QUICK, exactly_once=True)
SETTINGS = Settings(exactly_once=True, worker=DecisionSettings(exactly_once_source=True))


class Scripted(Source):
    """Yields the items that its config lists: a record, `commit`, `abort`, `mark`, `idle`."""

    config = (key("topic"), key("script"))
    exactly_once = True
    boundaries = True

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Follow the script from the committed line on."""
        part = {"script": "1"}
        at = int(str((task.offset(part) or {"line": 0})["line"]))
        for line, item in enumerate(task.config["script"].split(), 1):
            if line <= at:
                continue
            match item:
                case "commit":
                    yield task.commit()
                case "abort":
                    yield task.abort()
                case "mark":
                    yield task.mark([({"marked": "m"}, {"line": line})])
                case "idle":
                    yield task.idle(0)
                case _:
                    yield task.record(item, part, {"line": line})
        while True:
            yield task.idle(0.01)

    def update_offsets(self, task: SourceRun, offsets: OffsetPairs) -> OffsetPairs | None:
        """Add an offset of another partition to each commit that has offsets."""
        del task
        return [({"hook": "h"}, {"seen": len(offsets)})] if offsets else None


@pytest.mark.parametrize(
    ("boundary", "script", "values", "expected"),
    [
        ("poll", "a b mark c", [b"a", b"b", b"c"], {"script": 4, "marked": 3}),
        ("interval", "a b", [b"a", b"b"], {"script": 2}),
        ("connector", "a b commit c", [b"a", b"b"], {"script": 2}),
        ("connector", "a b abort c commit", [b"c"], {"script": 4}),
    ],
)
async def test_records_appear_with_their_offsets(
    boundary: str, script: str, values: list[bytes], expected: dict[str, int]
) -> None:
    """Records appear with their offsets; of an aborted transaction only the offsets appear.

    The offsets of KIP-910's hook are part of the transaction.
    """
    async with running(Scripted, runtime=EXACTLY_ONCE, settings=SETTINGS) as worker:
        plane = worker.plane
        config = config_of(
            Scripted,
            topic="t",
            script=script,
            transaction_boundary=boundary,
            transaction_boundary_interval_ms="30",
        )
        await plane.execute(CreateConnector("x", config))
        await until_values(plane.log, "t", values)
        await until(lambda: _lines(offsets(worker, "x")) == expected)
        assert offsets(worker, "x")["{'hook': 'h'}"]["seen"] >= 1
        assert plane.state.config.fenced_counts == {"x": 1}
    assert await values_in(plane.log, "t") == values


def _lines(committed: dict[str, Any]) -> dict[str, int]:
    """Committed lines by kind of partition."""
    return {
        text.split("'")[1]: offset["line"] for text, offset in committed.items() if "line" in offset
    }
