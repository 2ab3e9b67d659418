"""A source in twenty lines: numbered readings of a sensor that does not exist."""

from collections.abc import AsyncIterator
from math import sin
from typing import Any

from controlplane.connect import Source, SourceRun, key


class Readings(Source):
    """Yields `count` readings of one sensor, one record at a time."""

    config = (key("topic"), key("sensor"), key("count", "INT", 10, valid="[1,...]"))

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Continue after the committed reading."""
        part = {"sensor": task.config["sensor"]}
        number = int(str((task.offset(part) or {"number": 0})["number"]))
        while True:
            while number < int(task.config["count"]):
                number += 1
                value = {"number": number, "celsius": round(20 + 5 * sin(number), 1)}
                yield task.record(value, part, {"number": number}, key=task.config["sensor"])
            yield task.idle(0.5)
