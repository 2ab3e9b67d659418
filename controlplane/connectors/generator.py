"""Source of invented orders, for demonstrations and load tests."""

from collections.abc import AsyncIterator
from random import Random
from typing import Any

from controlplane.connect import Source, SourceRun, key
from controlplane.connect.source import OffsetPairs
from controlplane.connectors.numbered_offsets import check_numbers, committed_number

_CUSTOMERS = ("Ada", "Blaise", "Carl", "Dorothy", "Emmy", "Grace", "Kurt", "Sofia")
_GOODS = ("anvil", "bolt", "chain", "drill", "file", "gear", "hammer", "lever")


class GeneratorSource(Source):
    """Yields orders at a rate; each task invents its own orders, numbered from 0."""

    exactly_once = True
    config = (
        key("topic", doc="Topic of the orders", valid="non-empty string"),
        key("rate", "DOUBLE", "1.0", "Orders per second and task", valid="[0.001,...]"),
        key("count", "LONG", 0, "Orders of a task, after which it rests; 0: without end"),
        key("seed", "INT", 1, "Seed of the orders: equal seeds give equal orders"),
    )

    def split(self, config: Any, limit: int) -> Any:
        """Return a config for each task, with its number."""
        return [{**config, "task": str(number), "tasks": str(limit)} for number in range(limit)]

    @staticmethod
    def alter_offsets(config: Any, offsets: OffsetPairs) -> bool:
        """Accept the numbers of the next orders, by task (KIP-875).

        Raises:
            ValueError: an offset is refused.
        """
        del config
        return check_numbers(offsets, {"task": (int, "order")})

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Yield orders from the committed number on."""
        config, partition = task.config, {"task": int(task.config["task"])}
        number = committed_number(task, partition, "order")
        most, pause_s = int(config["count"]), 1 / float(config["rate"])
        while True:
            if most and number >= most:
                yield task.idle(1.0)
                continue
            order = invented_order(config["seed"], task.number, number)
            number += 1
            yield task.record(order, partition, {"order": number}, key=order["customer"])
            yield task.idle(pause_s)


def invented_order(seed: str, task: int, number: int) -> dict[str, Any]:
    """Return an order of a task; equal arguments give equal orders."""
    draw = Random(f"{seed}/{task}/{number}")  # noqa: S311 - no secret; it must be repeatable
    return {
        "order": number,
        "customer": draw.choice(_CUSTOMERS),
        "item": draw.choice(_GOODS),
        "quantity": draw.randint(1, 9),
        "price": round(draw.uniform(1, 99), 2),
    }
