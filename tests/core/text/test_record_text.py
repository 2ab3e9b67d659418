"""Text of records and positions."""

import pytest

from controlplane.core.entry import Position
from controlplane.core.state import Topics
from controlplane.core.text.record_text import PlaceFormatter, place


@pytest.mark.parametrize("topic", ["connect-configs", "own", "o\x1bwn", "t" * 396, "t" * 500])
def test_a_formatter_writes_places_alike(topic: str) -> None:
    """Cached starts of places change no text, even for long and unsafe names."""
    topics = Topics()
    formatted = PlaceFormatter(topics)
    for partition in (0, 10):
        for offset in (0, 10, 10_000):
            position = Position(topic, partition, offset)
            assert formatted(position) == place(position, topics)
