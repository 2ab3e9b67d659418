"""Failure of a scenario: place, step, difference, disagreeing folds, and one line of advice."""

from collections.abc import Sequence
from typing import Any

import msgspec

from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.scenario.folds import Folds, FoldTask, Refold, bulk
from controlplane.scenario.run import play_all, report
from controlplane.scenario.scenario_file import parse
from tests.scenario.playback import reported

STORY = """\
cluster w1@3.7 w2@3.4 w3@3.7
----
ok

given config
connector-orders     {"properties":{}}
task-orders-0        {"properties":{}}
task-orders-1        {"properties":{}}
commit-orders        {"tasks":2}
target-state-orders  {"state":"PAUSED","state.v2":"STOPPED"}
commit-orders        {"tasks":0}
----
config@0..5

view connectors
----
connector   tasks  3.4 (w2)  3.7 (w1 w3)
orders      0      PAUSED    STOPPED

given config
target-state-orders  {"state":"PAUSED"}
----
config@6

view connectors
----
connector   tasks  3.4 (w2)  3.7 (w1 w3)
orders      0      PAUSED    PAUSED
"""


def forgetful(entries: Sequence[Entry], profile: Profile, **settings: Any) -> ClusterState:
    """Fold that ignores `state.v2`."""
    blind = msgspec.structs.replace(profile, target_state_v2=False)
    return fold(entries, blind, **settings)


def first_wins(entries: Sequence[Entry], profile: Profile, **settings: Any) -> ClusterState:
    """Fold that takes the first record of a key instead of the last."""
    kept = {entry.key: entry for entry in reversed(entries)}
    return fold(sorted(kept.values(), key=lambda entry: entry.offset), profile, **settings)


def test_equal_output_gives_no_report() -> None:
    """All steps print the expected output, and both folds agree."""
    assert reported(STORY) == ""


def test_a_wrong_main_fold_is_reported() -> None:
    """The report shows the main fold's row, and below it the second fold's, which is right."""
    folds = Folds(forgetful, {"spark": fold})
    assert (
        reported(STORY, folds)
        == """\
x.scenario:15: view connectors
     connector   tasks  3.4 (w2)  3.7 (w1 w3)
    -orders      0      PAUSED    STOPPED
    +orders      0      PAUSED    PAUSED
    +orders      0      PAUSED    STOPPED   <-- via spark

if every change is wanted, run `make scenarios-rewrite`, then read `git diff`"""
    )


def test_a_wrong_second_fold_is_reported() -> None:
    """Later steps still run, so that one cause shows all of its effects."""
    folds = Folds(fold, {"bulk": bulk, "spark": first_wins})
    assert (
        reported(STORY, folds)
        == """\
x.scenario:15: view connectors
     connector   tasks  3.4 (w2)  3.7 (w1 w3)
     orders      0      PAUSED    STOPPED
    +orders      2      PAUSED    STOPPED   <-- via spark

x.scenario:25: view connectors
     connector   tasks  3.4 (w2)  3.7 (w1 w3)
     orders      0      PAUSED    PAUSED
    +orders      2      PAUSED    STOPPED   <-- via spark

if every change is wanted, run `make scenarios-rewrite`, then read `git diff`"""
    )


class CountingFold:
    """Batch fold that counts its calls."""

    def __init__(self, refold: Refold) -> None:
        self.batches: list[Sequence[FoldTask]] = []
        self._refold = refold

    def __call__(self, asks: Sequence[FoldTask]) -> list[ClusterState]:
        self.batches.append(asks)
        return [
            self._refold(ask.entries, ask.profile, topics=ask.topics, exactly_once=ask.exactly_once)
            for ask in asks
        ]


def test_a_batch_fold_runs_once_for_all_scenarios() -> None:
    """A batch fold runs once, for every log and reader; its states are compared like others."""
    scenarios = [parse(STORY, "x.scenario"), parse(STORY, "y.scenario")]
    spark = CountingFold(first_wins)
    played = play_all(scenarios, Folds(batch={"spark": spark}))
    assert [len(asks) for asks in spark.batches] == [2 * 2]
    expected = reported(STORY, Folds(fold, {"bulk": bulk, "spark": first_wins}))
    shown = [report(*pair) for pair in zip(scenarios, played, strict=True)]
    assert shown == [expected, expected.replace("x.scenario", "y.scenario")]
    assert play_all(scenarios, Folds(batch={"spark": CountingFold(fold)})) == play_all(scenarios)


def empty(entries: Sequence[Entry], profile: Profile, **settings: Any) -> ClusterState:
    """Fold that has read no record."""
    return fold(entries[:0], profile, **settings)


def test_a_row_of_one_fold_is_reported() -> None:
    """The report has the second fold's row, with `(none)` if that fold lacks it."""
    assert "    +orders      (none)  (none)    (none)   <-- via spark" in reported(
        STORY, Folds(fold, {"spark": empty})
    )
    assert "    +orders      0      PAUSED    STOPPED   <-- via spark" in reported(
        STORY, Folds(empty, {"spark": fold})
    )


def test_disagreement_cannot_be_expected() -> None:
    """A file fails even if its expected output has the line of a second fold."""
    line = "orders      0      PAUSED    STOPPED\n"
    doubtful = STORY.replace(line, f"{line}orders      2      PAUSED    STOPPED   <-- via spark\n")
    folds = Folds(fold, {"spark": first_wins})
    assert reported(doubtful, folds).startswith("x.scenario:15: view connectors\n     connector")
