"""Each of the nineteen situations is seen where it is, and not where it only seems to be."""

import pytest

from replay.compat.situations import SITUATIONS
from tests.replay.compat.pairs import INFO, PAIRS, assessed, observed_situations


def test_every_situation_has_a_rule_and_a_pair_of_logs() -> None:
    """The version matrix has nineteen situations, and each is covered."""
    assert {situation.number for situation in SITUATIONS} == set(PAIRS) == set(range(1, 20))


@pytest.mark.parametrize("number", PAIRS)
def test_a_situation_is_seen_once(number: int) -> None:
    """Each rule reports its situation for the right connector, with severity and records."""
    pair = PAIRS[number]
    (observation,) = observed_situations(pair, pair.planted, number)
    sighting = observation.sighting
    assert (observation.situation.name, sighting.connector) == (pair.name, pair.connector)
    assert sighting.severity is pair.severity
    assert sighting.evidence
    assert {*sighting.evidence} <= {entry.position for entry in pair.planted.entries}


@pytest.mark.parametrize("number", PAIRS)
def test_similar_logs_have_no_situation(number: int) -> None:
    """The similar log lacks the one fact that makes the situation."""
    pair = PAIRS[number]
    assert not observed_situations(pair, pair.alike, number)


@pytest.mark.parametrize("number", sorted({*PAIRS} - {5, 15}))
def test_releases_that_do_not_differ_in_it_see_nothing(number: int) -> None:
    """Between two releases that both know what the situation is about there is none.

    The fifth needs no difference: any start makes it happen. The fifteenth is between members.
    """
    pair = PAIRS[number]._replace(start="4.1", goal="4.3")
    assert not observed_situations(pair, pair.planted, number)


@pytest.mark.parametrize(
    "number", [case for case, pair in PAIRS.items() if pair.severity is not INFO]
)
def test_harmful_situations_have_steps(number: int) -> None:
    """A plan says what to do, and why."""
    pair = PAIRS[number]
    (observation,) = observed_situations(pair, pair.planted, number)
    assert observation.sighting.steps
    planned = {step.command: step.when for step in assessed(pair, pair.planted).plan}
    assert {
        step.command: step.when for step in observation.sighting.steps
    }.items() <= planned.items()
    assert observation.finding("lab").advice
