"""Recorded clusters: every answer of a real worker follows from its log, to the field."""

from pathlib import Path

import pytest

from controlplane.cli.verify.verify_command import split_by_compaction
from controlplane.core.entry import Entry
from controlplane.core.plugins import Plugins, parse_catalogue
from controlplane.logs.dumps import read_dump
from controlplane.scenario.story import (
    RecordedAnswer,
    StoryStep,
    StoryVerdict,
    Verifier,
    read_story,
)

ANSWERS = {
    "aborted-3.9": 64,
    "compacted-3.9": 196,
    "exactly-once-3.9": 190,
    "life-2.8": 552,
    "life-3.4": 552,
    "life-3.9": 1067,
    "life-4.3": 1047,
    "mirror-3.9": 49,
    "odd-records-3.9": 106,
    "roll-3.4-3.9-3.4": 423,
}
"""By history, the answers that follow from its log alone: 4,246."""

BEFORE_COMPACTION = 54
"""Answers of a worker that had read `compacted-3.9` before it was compacted."""

BEYOND = {"life-3.9": 21, "life-4.3": 21}
"""Number of offset answers about sinks, which lie in consumer groups: 42."""

EXACTLY_ONCE = {"aborted-3.9": {"w2"}, "exactly-once-3.9": {"*"}}
"""Workers that ran with exactly-once support."""


@pytest.fixture(scope="module")
def plugins(histories: Path) -> Plugins:
    """The connector classes that were installed on the recorded clusters."""
    return parse_catalogue((histories / "catalogue.json").read_bytes())


def entries_of(histories: Path, name: str) -> list[Entry]:
    """The records of a log, all of them."""
    dump = read_dump(histories / f"{name}.log.jsonl")
    assert not dump.problems
    return dump.entries


def verified(histories: Path, name: str, plugins: Plugins, entries: list[Entry]) -> StoryVerdict:
    """Comparison of a story's answers with its log, except for those before compaction."""
    steps = read_story(histories / f"{name}.story.jsonl")
    compacted = any(step.kind == "compacted" for step in steps)
    exactly_once = frozenset(EXACTLY_ONCE.get(name, ()))
    verifier = Verifier(entries, plugins, exactly_once=exactly_once)
    return verifier.verify(split_by_compaction(steps)[1] if compacted else steps)


@pytest.mark.parametrize("name", ANSWERS)
def test_every_answer_follows_from_the_log(name: str, histories: Path, plugins: Plugins) -> None:
    """Every answer of every observation is given exactly; sinks' offsets are counted apart."""
    verdict = verified(histories, name, plugins, entries_of(histories, name))
    assert verdict.differences == []
    assert (verdict.compared, verdict.beyond) == (ANSWERS[name], BEYOND.get(name, 0))


def test_answers_before_compaction_follow_from_the_log_before_it(
    histories: Path, plugins: Plugins
) -> None:
    """A worker keeps the records that it has read: compaction shows only after a restart."""
    before = entries_of(histories, "compacted-3.9.before")
    after = entries_of(histories, "compacted-3.9")
    united = {entry.position: entry for entry in [*before, *after]}
    old, _ = split_by_compaction(read_story(histories / "compacted-3.9.story.jsonl"))
    verdict = Verifier(list(united.values()), plugins).verify(old)
    assert verdict.differences == []
    assert verdict.compared == BEFORE_COMPACTION


def test_every_recorded_answer_is_accounted_for(histories: Path) -> None:
    """The counts above are those of the stories: no answer is left out."""
    stories = [read_story(path) for path in sorted(histories.glob("*.story.jsonl"))]
    recorded = sum(len(step.answers) for steps in stories for step in steps)
    assert (sum(ANSWERS.values()), sum(BEYOND.values())) == (4246, 42)
    assert recorded == 4246 + BEFORE_COMPACTION + 42


def test_a_lost_record_is_noticed(histories: Path, plugins: Plugins) -> None:
    """The comparison can fail: answers differ if life-3.9 lacks one task commit."""
    entries = entries_of(histories, "life-3.9")
    lost = next(entry for entry in reversed(entries) if entry.key == b"commit-orders")
    verdict = verified(
        histories, "life-3.9", plugins, [entry for entry in entries if entry is not lost]
    )
    assert "/connectors/orders/tasks" in {difference.path for difference in verdict.differences}


@pytest.mark.parametrize("path", ["offsets", "/offsets"])
def test_a_path_without_a_connector_is_compared(path: str, plugins: Plugins) -> None:
    """A story of a stranger may have any path; the fold answers it like a worker."""
    recorded = RecordedAnswer(200, {"offsets": []})
    step = StoryStep(n=1, kind="observe", release="3.9.1", answers={path: recorded})
    verdict = Verifier([], plugins).verify([step])
    assert (verdict.compared, len(verdict.differences)) == (1, 1)
