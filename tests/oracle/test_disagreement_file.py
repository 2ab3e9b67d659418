"""A disagreement becomes a scenario that expects the answer of Kafka's classes."""

import asyncio
import re
from collections.abc import Sequence
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.releases.profiles import KIP, PROFILES, Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.scenario.folds import Folds
from controlplane.scenario.run import play, read, report
from tests.conftest import examples
from tests.oracle.case import Case
from tests.oracle.comparable_answers import typed
from tests.oracle.comparison import Differences, LogDisagreement, disagreements, shrunk
from tests.oracle.disagreement_file import kafkas_reader, keep, our_reader, views
from tests.oracle.kafka import KafkaOracle
from tests.oracle.kafkas_state import untyped
from tests.oracle.logs import cases
from tests.oracle.our_answer import of_fold

LOGS = examples(15, proved=1_000)

SEARCHED = 2_000
"""Number of logs to search for a disagreement about one fact: few differ in one fact alone."""

RELEASES = [profile for profile in PROFILES if profile.release != KIP]


@pytest.mark.parametrize("profile", RELEASES, ids=lambda profile: profile.release)
def test_an_answer_can_be_viewed(profile: Profile) -> None:
    """A view of Kafka's answer prints the same as a view of the state with that answer."""
    for drawn in islice(cases(f"kept/{profile.release}"), LOGS):
        entries = drawn.visible_entries
        answer = kafkas_reader(of_fold(Case(entries), profile), entries, profile)
        ours = our_reader(entries, profile)
        release = profile.release
        assert views(release, entries, answer) == views(release, entries, ours)


def test_values_travel_with_their_types() -> None:
    """`1`, `1.0` and `true` stay distinct."""
    value = {"a": [True, 1, 1.0, -0.0, None, "x", {"boolean": 1}], "double": {"b": False}}
    assert repr(untyped(typed(value))) == repr(value)


class MistakenFold:
    """A fold that reads as another release than the worker's."""

    def __init__(self, release: str) -> None:
        self.profile = Profile.of(release)

    def __call__(
        self,
        entries: Sequence[Entry],
        profile: Profile,  # noqa: ARG002 - ignoring the profile is the defect
        *,
        topics: Topics | None = None,
        exactly_once: bool = False,
    ) -> ClusterState:
        """Return the state as the other release reads it."""
        return fold(entries, self.profile, topics=topics, exactly_once=exactly_once)


TOMBSTONE = """\
# This output is that of Kafka 3.4.1. Our fold gave another one.
#
# The oracle found the log with the seed 1/3.4.1/12, and reduced it.

cluster w1@3.4.1
----
ok

given offsets
(empty)  ∅
----
offsets@0

view offsets
----
(none)
"""


@cache
def smallest_disagreement(release: str, wrong: str, about: str) -> LogDisagreement:
    """The first disagreement about this fact, with a fold of the wrong release, made smaller."""
    profile = Profile.of(wrong)
    with KafkaOracle(release) as oracle:
        disagreement = next(
            disagreement
            for disagreement in disagreements(oracle, f"1/{release}", SEARCHED, profile)
            if next(iter(disagreement.differences)).startswith(about)
        )
    return shrunk(disagreement, profile)


def kept_scenario(folder: Path, release: str, wrong: str, about: str) -> Path:
    """The scenario of this disagreement."""
    return keep(smallest_disagreement(release, wrong, about), folder, Profile.of(wrong))


@pytest.mark.java
@pytest.mark.parametrize(
    ("release", "wrong", "about"),
    [
        ("3.4.1", "3.3.2", "offsets.data"),
        pytest.param("3.9.1", "3.4.1", "config.connectorTargetStates", marks=pytest.mark.prove),
        pytest.param("3.9.1", "3.4.1", "config.connectorTaskCounts", marks=pytest.mark.prove),
        pytest.param("3.9.1", "3.5.2", "status.tasks", marks=pytest.mark.prove),
        pytest.param("2.8.2", "3.9.1", "record", marks=pytest.mark.prove),
    ],
)
def test_a_broken_fold_leaves_a_scenario_that_it_fails(
    tmp_path: Path, release: str, wrong: str, about: str
) -> None:
    """The broken fold fails the scenario, and the right one passes it."""
    file = kept_scenario(tmp_path / "scenarios", release, wrong, about)
    assert re.fullmatch(rf"{re.escape(release)}-1-\d+\.scenario", file.name)
    scenario = read(file)
    assert report(scenario, asyncio.run(play(scenario))) == ""
    assert report(scenario, asyncio.run(play(scenario, Folds(MistakenFold(wrong), {}))))


@pytest.mark.java
def test_a_difference_without_a_view_is_listed(tmp_path: Path) -> None:
    """A difference in reading by batches has no view: the file lists its parts."""
    entries = (Entry("connect-offsets", 0, 3, 0, b"k", b"v"),)
    differs: Differences = {"offsets.data": ([], [["6b", "76"]])}
    disagreement = LogDisagreement("3.9.1", "1/3.9.1/5", Case(entries, batch=(2,)), differs)
    file = keep(disagreement, tmp_path)
    assert file.name == "3.9.1-1-5.scenario"
    assert file.read_text("utf-8").splitlines()[3:7] == [
        "# No view shows these differences:",
        "#   offsets.data",
        "#     Kafka  []",
        "#     fold   [['6b', '76']]",
    ]
    scenario = read(file)
    assert report(scenario, asyncio.run(play(scenario))) == ""


@pytest.mark.java
def test_the_file_has_origin_log_and_view(tmp_path: Path) -> None:
    """The log is the smallest, and the view shows the difference."""
    file = kept_scenario(tmp_path, "3.4.1", "3.3.2", "offsets.data")
    assert file.read_text("utf-8") == TOMBSTONE
