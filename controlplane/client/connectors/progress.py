"""Progress of connectors: lag of a sink's consumer group, last change of each source offset."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import click

from controlplane.client.connectors.offset_lists import offset_words
from controlplane.client.http.api import Api, connector
from controlplane.core.text.durations import since_text

UNKNOWN = "?"
"""Cell for a lag that is unknown."""

AT_ONCE = 8
"""Number of requests at once. Each may wait for a Kafka cluster, and uses one of the connections
that the server allows."""

ProgressAnswer = Mapping[str, Any]
"""Answer to `GET /connectors/{c}/progress`."""


async def progress(api: Api, name: str) -> ProgressAnswer:
    """Fetch the progress of a connector.

    Raises:
        Unsupported: the server is a worker of Kafka's.
        Declined, Unavailable: the server refuses, or cannot ask the consumer group.
    """
    api.need("progress of connectors")
    answer: ProgressAnswer = await api.get(connector(name, "progress"))
    return answer


_NO_OFFSETS = "its consumer group has no offsets yet"


class SinkLag(NamedTuple):
    """Lag of a sink, and the reason why it is unknown, or known for some partitions only."""

    lag: int | None
    reason: str = ""

    @property
    def words(self) -> str:
        """Lag for a table cell; `UNKNOWN` if there is none."""
        return UNKNOWN if self.lag is None else str(self.lag)


async def lags(api: Api, names: Iterable[str]) -> dict[str, SinkLag]:
    """Fetch the lag of several sinks; a sink whose group cannot be asked has a reason instead.

    Raises:
        Unsupported: the server is a worker of Kafka's.
    """
    api.need("lag of sinks")
    free = asyncio.Semaphore(AT_ONCE)

    async def lag(name: str) -> tuple[str, SinkLag]:
        async with free:
            try:
                answer = await progress(api, name)
            except click.ClickException as failure:
                return name, SinkLag(None, failure.message)
        reason = "; ".join(reasons(answer)) if answer["offsets"] else _NO_OFFSETS
        return name, SinkLag(answer["lag"], reason)

    return dict(await asyncio.gather(*map(lag, names)))


SINK_HEADS = ("TOPIC", "PARTITION", "OFFSET", "END", "LAG")
SOURCE_HEADS = ("PARTITION", "OFFSET", "UNCHANGED SINCE", "RECORD")


def sink_rows(shown: ProgressAnswer) -> Iterator[tuple[str, ...]]:
    """Yield a table row per partition, by topic and partition."""
    for entry in sorted(shown["offsets"], key=_place):
        topic, partition = _place(entry)
        end, lag = entry["end"], entry["lag"]
        numbers = (entry["offset"]["kafka_offset"], UNKNOWN if end is None else end)
        yield topic, str(partition), *map(str, numbers), UNKNOWN if lag is None else str(lag)


def _place(entry: Mapping[str, Any]) -> tuple[str, int]:
    return entry["partition"]["kafka_topic"], entry["partition"]["kafka_partition"]


def source_rows(shown: ProgressAnswer, now_ms: int | None) -> Iterator[tuple[str, ...]]:
    """Yield a table row per source partition, in the order of their last changes.

    `now_ms`: time of the answer, for the age of each offset; None: a past moment has no age.
    """
    for entry in sorted(shown["offsets"], key=lambda entry: entry["changed_at"] or ""):
        words = offset_words(entry["partition"]), offset_words(entry["offset"])
        since = since_text(entry["changed_at"] or UNKNOWN, now_ms)
        yield *words, since, entry["record"] or UNKNOWN


def reasons(shown: ProgressAnswer) -> list[str]:
    """Reasons for unknown ends, each once, with the partitions."""
    groups: dict[str, list[str]] = {}
    for entry in shown["offsets"]:
        if entry.get("reason"):
            groups.setdefault(entry["reason"], []).append("-".join(map(str, _place(entry))))
    return [f"{', '.join(places)}: {reason}" for reason, places in groups.items()]
