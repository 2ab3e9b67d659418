"""Names of a cluster's topics."""

from itertools import combinations

import msgspec
import pytest

from controlplane.core.state import SharedTopic, Topics, check_topics
from controlplane.core.topic_names import is_legal
from tests.core.logs import config, connector, offsets, read, report, status


@pytest.mark.parametrize(("first", "second"), list(combinations(Topics.__struct_fields__, 2)))
def test_one_topic_for_two_purposes_is_refused(first: str, second: str) -> None:
    """One topic for two purposes is refused: its records would be read as both."""
    message = f"x cannot be the {first} topic and the {second} topic: give each a name of its own"
    with pytest.raises(SharedTopic, match=message):
        check_topics(Topics(**{first: "x", second: "x"}))


@pytest.mark.parametrize("name", ["", "a b/c", ".", "..", "ü", "a\n", "x" * 250])
def test_invalid_topic_names_are_refused(name: str) -> None:
    """A bad name is refused before any topic is created; the error states Kafka's rule."""
    with pytest.raises(ValueError, match="cannot be the name of a topic: use 1 to 249 letters"):
        check_topics(Topics(status=name))
    assert not is_legal(name)


@pytest.mark.parametrize("name", ["a", "...", "A-z_0.9", "x" * 249])
def test_valid_topic_names_are_accepted(name: str) -> None:
    """Names that Kafka allows for a topic are accepted."""
    check_topics(Topics(status=name))


def test_default_names_are_distinct() -> None:
    """The default topic names are distinct."""
    check_topics(Topics())


def test_exactly_once_support_hides_no_aborted_status() -> None:
    """Every worker obeys aborted statuses; exactly-once support hides aborted configs and offsets.

    Kafka: `KafkaStatusBackingStore` sets no isolation level (edge 28 of docs/releases.md).
    """
    written = [*config(connector("a")), *offsets(("k", "1"))]
    written += status(("status-connector-a", report("FAILED")))
    aborted = [msgspec.structs.replace(entry, aborted=True) for entry in written]
    state = read(aborted, exactly_once=True)
    assert [*state.status.connectors] == ["a"]
    assert not state.config.connectors
    assert not state.offsets["connect-offsets"].values
