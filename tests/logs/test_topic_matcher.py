"""Selection of topics for a Kafka consumer by a function that may be slow or fail."""

import asyncio

import pytest

from controlplane.core.java.regular_expressions import JavaPattern
from controlplane.event_loop import SLICE_ITEMS
from controlplane.logs.kafka.reads.consumer_internals import TopicMatcher

TOPICS = [f"topic-{number}" for number in range(5 * SLICE_ITEMS)]


async def test_many_topics_are_examined_in_slices() -> None:
    """Other tasks run between the slices; afterwards no topic is examined again."""
    examined: list[str] = []

    def selects(topic: str) -> bool:
        examined.append(topic)
        return JavaPattern.of("(topic-)+.*7").matches(topic)

    counts: list[int] = []

    async def look() -> None:
        while True:
            counts.append(len(examined))
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    matcher = TopicMatcher(selects)
    await matcher.examine(TOPICS)
    looking.cancel()
    assert len({*counts} - {0}) >= 4
    assert [topic for topic in TOPICS if matcher.match(topic)] == TOPICS[7::10]
    assert examined == TOPICS


async def test_the_first_error_ends_the_selection() -> None:
    """The consumer raises the error; no further topic is examined, and none is selected."""
    examined: list[str] = []

    def selects(topic: str) -> bool:
        examined.append(topic)
        raise ValueError(topic)

    matcher = TopicMatcher(selects)
    await matcher.examine(TOPICS)
    assert examined == TOPICS[:1]
    assert not matcher.match("other")
    with pytest.raises(ValueError, match=r"^topic-0$"):
        matcher.check()
