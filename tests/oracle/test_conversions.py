"""Comparison of our converters, validation and projection with Kafka's own, on random questions.

Both directions of every converter: bytes, values and schemas must be equal, and refusals must have
Kafka's message. `conversion_deviations` lists the intended differences.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

import pytest

from tests.conftest import SEED
from tests.oracle.conversion_answers import ConversionAnswer, kafkas_answers, our_answer
from tests.oracle.conversion_cases import ConversionQuestion, questions
from tests.oracle.conversion_deviations import DEVIATIONS, Deviation, comparable, deviation

COUNT = 4_400
COUNT_PROVED = 220_000
CHUNK = 22_000


def _judge(questions: Iterable[ConversionQuestion]) -> None:
    """Fail with the shortest question that has different answers."""
    questions = list(questions)
    wrong: list[str] = []
    for question, theirs in zip(questions, kafkas_answers(questions), strict=True):
        ours = our_answer(question)
        kafkas, own = comparable(theirs), comparable(ours)
        if kafkas != own and deviation(question, theirs, ours) is None:
            wrong.append(f"{question}\nKafka: {kafkas}\n ours: {own}")
    assert not wrong, f"{len(wrong)} of {len(questions)}: {min(wrong, key=len)}"


@pytest.mark.java
def test_conversions_are_kafkas() -> None:
    """Thousands of random conversions give Kafka's results."""
    _judge(questions(SEED, COUNT))


@pytest.mark.java
@pytest.mark.prove
@pytest.mark.parametrize("part", range(COUNT_PROVED // CHUNK))
def test_conversions_are_kafkas_proved(part: int) -> None:
    """Each part of hundreds of thousands of conversions gives Kafka's results."""
    _judge(questions(f"{SEED}/{part}", CHUNK))


@pytest.fixture(scope="module")
def answers_to_examples() -> Mapping[str, ConversionAnswer]:
    """Kafka's answers to the examples of all deviations, by reason."""
    answers = kafkas_answers(row.example for row in DEVIATIONS)
    return {row.reason: theirs for row, theirs in zip(DEVIATIONS, answers, strict=True)}


@pytest.mark.java
@pytest.mark.parametrize("row", DEVIATIONS, ids=lambda row: row.reason)
def test_examples_of_deviations_differ(
    row: Deviation, answers_to_examples: Mapping[str, ConversionAnswer]
) -> None:
    """The example of a deviation has different answers, for this reason."""
    theirs = answers_to_examples[row.reason]
    ours = our_answer(row.example)
    assert comparable(theirs) != comparable(ours) or row.is_of_old_jdks
    assert deviation(row.example, theirs, ours) == row.reason


def test_questions_are_of_every_sort() -> None:
    """Each kind of question gets values and errors; simple headers need no errors."""
    sorts = Counter(
        (
            question["op"],
            question.get("class", "").rpartition(".")[2],
            "error" in our_answer(question),
        )
        for question in questions("1", COUNT)
    )
    for op, converter in (
        *(("encode", "JsonConverter"), ("decode", "JsonConverter"), ("validate", "")),
        *(("project", ""), ("encode", "SimpleHeaderConverter"), ("encode", "StringConverter")),
        *(("encode", "LongConverter"), ("decode", "LongConverter")),
    ):
        is_total = converter == "SimpleHeaderConverter"
        assert sorts[op, converter, False] > 4
        assert is_total or sorts[op, converter, True] > 4
