"""Comparison with Kafka's own classes: requests to alter offsets.

Random requests go through our decisions, and through Kafka's converter, offset writer and store of
two topics (`requests/`). Both must call the hook with the same arguments. They must write the same
records in the same order, or refuse with the same message.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from controlplane.core.commands import OffsetChange
from controlplane.core.context import Context
from controlplane.core.decide.sink_offsets import SinkOffsets
from controlplane.core.decide.source_offsets import SourceOffsets
from controlplane.core.fold import fold
from controlplane.core.java.json_values import value_text
from controlplane.core.plan import Draft, Rejected
from controlplane.core.releases.profiles import Profile
from tests.conftest import SEED, sampled
from tests.jars import SHORT_LIVED
from tests.oracle.kafka import harness, line_answers, release_path

REQUESTS = Path(__file__).parent / "requests"
COMPILED_AGAINST = "3.6.2"
"""Patch release of the first line that can alter offsets; the called API is unchanged since."""

ASKED = ("3.6.2", "3.7.2", "3.8.1", "4.3.0")
"""The oldest and the newest release, and releases before and after KAFKA-15018."""

COUNT = 500
COUNT_PROVED = 20_000
CONNECTOR = "größe \U0001f600"


class OffsetRequest(NamedTuple):
    """Offsets of a request to a connector of some type."""

    sink: bool
    own: bool
    offsets: list[dict[str, Any]]

    def line(self) -> str:
        """Request as the Java harness reads it."""
        body = {"connector": CONNECTOR, "request": {"offsets": self.offsets}}
        return json.dumps(body | {"sink": self.sink, "own": self.own})


# --- random requests ----------------------------------------------------------------------------

NAMES = ("page", "db", "table", "topic", "partition", "cluster", "é", "Aa", "BB", "a", "offset")
SCALARS = (None, True, False, 0, -1, 7, 2**31, -(2**40), 2**63 - 1, 1.5, -0.0, 1e10, 1e-7, "", "k1")
TEXTS = ("ü", "\U0001f600", "x\x1f", 'q"\\/', "Aa", "BB")
NO_PRIMITIVES: tuple[Any, ...] = ([], [1, "x"], {}, {"x": None}, 2**63, -(2**64))
NUMBERS = (0, 1, 10, "0", "1", "10", "+1")
NO_NUMBERS = (" 1", "1.0", 1.0, None, True, [1, None], {"a": 1e10}, 2**31, 2**63, "٣", "x")


def requests(seed: str, count: int) -> Iterator[OffsetRequest]:
    """Requests of all sizes; one in five may have errors."""
    random = Random(seed)
    for _ in range(count):
        sink, own, wild = random.random() < 0.3, random.random() < 0.5, random.random() < 0.2
        draw_offset = _sink_offset if sink else _source_offset
        size = random.choice((1, 1, 2, 3, 4, 6, 9, 13, 25, 40))
        yield OffsetRequest(sink, own, [draw_offset(random, wild) for _ in range(size)])


def _source_offset(random: Random, wild: bool) -> dict[str, Any]:
    few = {"page": random.randrange(-3, 20)}
    partition = few if random.random() < 0.5 else _fields(random, wild)
    change = {"partition": partition, "offset": _fields(random, wild)}
    if random.random() < 0.2:
        del change["offset"]
    return change


def _fields(random: Random, wild: bool) -> dict[str, Any] | None:
    if random.random() < 0.1:
        return None
    names = random.sample(NAMES, random.choice((0, 1, 1, 2, 3, len(NAMES))))
    return {name: _value(random, wild) for name in names}


def _value(random: Random, wild: bool) -> Any:
    if wild and random.random() < 0.1:
        return random.choice(NO_PRIMITIVES)
    return random.choice((*SCALARS, *TEXTS))


def _sink_offset(random: Random, wild: bool) -> dict[str, Any]:
    partition = {
        "kafka_topic": random.choice(("t", "ü", 1, 1.5)),
        "kafka_partition": _number(random, wild),
    }
    if random.random() < 0.3:
        partition = {"more": random.choice(NO_PRIMITIVES), **partition}
    if wild and random.random() < 0.1:
        partition[random.choice(list(partition))] = None
    if wild and random.random() < 0.1:
        del partition["kafka_topic"]
    offset = None if random.random() < 0.2 else {"kafka_offset": _number(random, wild)}
    if wild and random.random() < 0.05:
        offset = {}
    return {"partition": None if wild and random.random() < 0.05 else partition, "offset": offset}


def _number(random: Random, wild: bool) -> Any:
    return random.choice(NO_NUMBERS if wild and random.random() < 0.1 else NUMBERS)


# --- the two answers ----------------------------------------------------------------------------


def kafkas(release: str, questions: list[OffsetRequest]) -> list[list[str]]:
    """Results of Kafka's classes for requests."""
    path = harness(REQUESTS, COMPILED_AGAINST), harness(), release_path(release)
    lines = (request.line() for request in questions)
    return line_answers("OffsetRequests", path, lines, *SHORT_LIVED)


def ours(release: str, request: OffsetRequest) -> list[str]:
    """Return our records or refusal for a request."""
    profile = Profile.of(release)
    config = {"offsets.storage.topic": "own"} if request.own else {}
    parts = fold([], profile), CONNECTOR, config, Context(profile=profile)
    changes = [OffsetChange(row["partition"], row.get("offset")) for row in request.offsets]
    if request.sink:
        parsed = SinkOffsets(*parts).requested(changes)
        if isinstance(parsed, Rejected):
            return [f"refused: {parsed.text}"]
        # The hook gets a map, so the order of offsets does not count; `_judge` sorts Kafka's, too.
        return sorted(_sink_text(partition or {}, offset) for partition, offset in parsed)
    source = SourceOffsets(*parts)
    requested_offsets = source.requested(changes)
    if isinstance(requested_offsets, Rejected):
        return [f"refused: {requested_offsets.text}"]
    shown = [
        f"hook: {value_text(partition)} {value_text(to)}" for partition, to in requested_offsets
    ]
    return shown + [
        _text(draft) for step in source.write(requested_offsets) for draft in step.records
    ]


def _sink_text(partition: Any, offset: Any) -> str:
    place = f"{partition['kafka_topic']}-{partition['kafka_partition']}"
    return f"hook: {place} {'null' if offset is None else offset['kafka_offset']}"


def _text(draft: Draft) -> str:
    value = "null" if draft.value is None else draft.value.decode()
    return f"{draft.topic}: {draft.key.decode()} {value}"


def _judge(release: str, count: int) -> None:
    questions = list(requests(SEED, count))
    for request, theirs in zip(questions, kafkas(release, questions), strict=True):
        expected = sorted(theirs) if request.sink else theirs
        assert ours(release, request) == expected, request.line()


@pytest.mark.java
@pytest.mark.parametrize("release", sampled(ASKED, "4.3.0"))
def test_requests_become_kafkas_records(release: str) -> None:
    """Five hundred random requests become the records that Kafka writes."""
    _judge(release, COUNT)


@pytest.mark.java
@pytest.mark.prove
@pytest.mark.parametrize("release", ASKED)
def test_requests_become_kafkas_records_proved(release: str) -> None:
    """Twenty thousand random requests become the records that Kafka writes."""
    _judge(release, COUNT_PROVED)


def test_requests_are_of_every_sort() -> None:
    """Some requests for each type of connector are refused, and some are not."""
    questions = list(requests("1", COUNT))
    refused = {
        (request.sink, ours("4.3.0", request)[0].startswith("refused")) for request in questions
    }
    assert refused == {(sink, wrong) for sink in (True, False) for wrong in (True, False)}
