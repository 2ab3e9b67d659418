"""Records that workers write, and the settings of their readers, from Kafka's own classes.

Only running workers write these records. `tests/core/test_matrix_records.py` has those that we
write, too.
"""

from typing import Any

import pytest

from controlplane.core.releases.profiles import Profile
from tests.conftest import sampled
from tests.oracle.edges_of_classes import FALLBACK, ISOLATION, SAFELY
from tests.oracle.worker_writes import writing_answers

ASKED = (
    *("0.9.0.1", "0.10.0.1", "0.10.1.0", "2.5.0", "2.5.1", "3.2.2", "3.3.2", "3.4.1", "3.6.2"),
    *("3.7.0", "3.7.1", "3.8.1", "4.3.0"),
)

TESTED = ("0.9.0.1", "0.10.0.1", "0.10.1.0", "3.2.2", "3.4.1", "3.7.0", "3.7.1", "4.3.0")
"""Releases of `make test`: the oldest, the newest, and one for each value of `ROWS`."""

ROWS: dict[tuple[str, ...], dict[str, Any]] = {
    # `DistributedHerder#updateDeletedTaskStatus`: the status of a deleted task (KAFKA-8869).
    ("vanished",): {"0.9": None, "2.5.1": ["a-1 DESTROYED"]},
    # `AbstractHerder#taskConfigsChanged` if only the connector config has changed (KAFKA-9228).
    # Older releases compare task configs within a method that needs a running worker.
    ("rewritten",): {"0.9": None, "3.6.0": "not again", "3.7.1": "again"},
    # `KafkaStatusBackingStore.CacheEntry`, asked by a worker of generation 2 before `putSafe`.
    ("safely", "nothing"): {"0.9": None, "0.10.0": "refuses", "0.10.1": "writes"},
    ("safely", "own, of generation 3"): {"0.9": None, "0.10.0": "writes"},
    ("safely", "another's, of generation 1"): {"0.9": None, "0.10.0": "writes"},
    ("safely", "another's, of generation 2"): {"0.9": None, "0.10.0": "writes"},
    ("safely", "another's, of generation 3"): {"0.9": None, "0.10.0": "refuses"},
}


def kafkas_answer(release: str, path: tuple[str, ...]) -> Any:
    """Kafka's answer; None if the release has no such class or method."""
    answer: Any = writing_answers(release)
    for step in path:
        answer = None if answer is None else answer.get(step)
    return answer


@pytest.mark.java
@pytest.mark.parametrize("release", sampled(ASKED, *TESTED))
@pytest.mark.parametrize("path", ROWS, ids=", ".join)
def test_workers_write_as_expected(path: tuple[str, ...], release: str) -> None:
    """The expected value is that of the span to which the release belongs."""
    profile = Profile.of(release)
    spans = [value for since, value in ROWS[path].items() if profile.within(since, None)]
    assert kafkas_answer(release, path) == spans[-1]


@pytest.mark.java
@pytest.mark.parametrize("release", ["3.4.1", "3.7.1", "4.3.0"])
@pytest.mark.parametrize("question", [*FALLBACK, *ISOLATION], ids=lambda question: question.log)
def test_workers_read_as_ours(question: Any, release: str) -> None:
    """Kafka's classes have an answer, and ours is the same."""
    answer = question.kafka(writing_answers(release))
    assert answer is not None
    assert answer == question.ours(Profile.of(release))


def test_the_kip_falls_back() -> None:
    """Under `kip`, a connector without an own offset gets the worker's, as in KIP-618."""
    kip = Profile.of("kip")
    assert [question.ours(kip) for question in FALLBACK if question.ours] == [
        "the worker's offset"
    ] * 2


@pytest.mark.java
def test_questions_without_a_topic_have_no_answer() -> None:
    """A release without an own offsets topic, or without a status topic, has no answer."""
    assert FALLBACK[0].kafka(writing_answers("3.2.2")) is None
    assert SAFELY[0].kafka(writing_answers("0.9.0.1")) is None
