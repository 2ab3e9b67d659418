"""The report of a disagreement has the smallest log that shows it."""

from collections.abc import Sequence

from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.scenario.folds import FoldTask
from tests.replay.spark.smallest_log import disagreement, question_code, smallest


def ask(*offsets: int) -> FoldTask:
    """Question about a log with these offsets."""
    entries = tuple(Entry("connect-configs", 0, offset, offset, b"k", None) for offset in offsets)
    return FoldTask(entries, Profile.of("3.4"), Topics(), exactly_once=False)


class Rounds:
    """Disagreement about every log that has these offsets; counts its calls."""

    def __init__(self, *needed: int) -> None:
        self.rounds = 0
        self._needed = {*needed}

    def __call__(self, asks: Sequence[FoldTask]) -> list[str]:
        self.rounds += 1
        held = [{entry.offset for entry in question.entries} for question in asks]
        return ["one says so" if self._needed <= offsets else "" for offsets in held]


def test_the_smallest_log_is_minimal() -> None:
    """Few calls of `differ` find the smallest log, wherever its records lie.

    At least one record remains, even if the folds disagree about every log.
    """
    for needed in [(0,), (63,), (7, 50), (0, 31, 32, 63), tuple(range(5))]:
        wrong = Rounds(*needed)
        assert smallest(ask(*range(64)), wrong) == ask(*needed)
        assert wrong.rounds < 40
    assert len(smallest(ask(*range(5)), Rounds()).entries) == 1


def test_the_log_is_printed_only_after_a_disagreement() -> None:
    """Only a disagreement has a text: the smallest log as Python code, and the difference."""
    asks = [ask(1, 2), ask(1, 2, 3, 4)]
    assert disagreement(asks, Rounds(9)) == ""
    text, _, why = disagreement(asks, Rounds(3)).rpartition("\n")
    assert (text, why) == (question_code(ask(3)), "one says so")
    assert eval(text.replace("exactly_once", "Topics(), exactly_once")) == ask(3)
