"""Each of the nineteen situations is reported for its log, and not for a similar log."""

import pytest

from replay.compat.situations import SITUATIONS
from tests.replay.compat.pairs import INFO, PAIRS, assessed, observed_situations


def test_every_situation_has_a_rule_and_a_pair_of_logs() -> None:
    """Each of the nineteen situations has a rule and a pair of logs."""
    assert {situation.number for situation in SITUATIONS} == set(PAIRS) == set(range(1, 20))


@pytest.mark.parametrize("number", PAIRS)
def test_a_situation_is_seen_once(number: int) -> None:
    """Each rule reports its situation once: connector, severity and records are right."""
    pair = PAIRS[number]
    (observation,) = observed_situations(pair, pair.planted, number)
    sighting = observation.sighting
    assert (observation.situation.name, sighting.connector) == (pair.name, pair.connector)
    assert sighting.severity is pair.severity
    assert sighting.evidence
    assert {*sighting.evidence} <= {entry.position for entry in pair.planted.entries}


@pytest.mark.parametrize("number", PAIRS)
def test_similar_logs_have_no_situation(number: int) -> None:
    """The rule does not report its situation for the similar log."""
    pair = PAIRS[number]
    assert not observed_situations(pair, pair.alike, number)


@pytest.mark.parametrize("number", sorted({*PAIRS} - {5, 15}))
def test_releases_that_do_not_differ_have_no_situation(number: int) -> None:
    """If both releases behave alike in the point of a situation, the situation is not reported.

    Situation 5 is exempt: the start of a worker of any release causes it. Situation 15 is exempt:
    workers of one release differ if only some have exactly-once support.
    """
    pair = PAIRS[number]._replace(start="4.1", goal="4.3")
    assert not observed_situations(pair, pair.planted, number)


@pytest.mark.parametrize(
    "number", [case for case, pair in PAIRS.items() if pair.severity is not INFO]
)
def test_harmful_situations_have_steps(number: int) -> None:
    """A harmful situation has advice, and the plan of the release change has its steps."""
    pair = PAIRS[number]
    (observation,) = observed_situations(pair, pair.planted, number)
    assert observation.sighting.steps
    planned = {step.command: step.when for step in assessed(pair, pair.planted).plan}
    assert {
        step.command: step.when for step in observation.sighting.steps
    }.items() <= planned.items()
    assert observation.finding("lab").advice
