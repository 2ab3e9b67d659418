"""Replay of every history of a real cluster by a control plane, over HTTP.

Each request of each history is sent, in order, to `/compat/{release}` of the worker that got it.
Each observation is repeated, too. Status, answer, and the bytes of every record that our control
plane writes equal the recorded ones.
"""

from collections import Counter

import pytest

from controlplane.scenario.story import read_story
from tests.recorded_requests import HISTORIES
from tests.rest.stories import EXCEPTIONS, ComparedAnswer, HistoryReplay

pytestmark = pytest.mark.slow

COMPACTED_AWAY = {("compacted-3.9", 13)}
"""Requests whose record the recorded log lost by compaction."""

ANSWERS = {
    "aborted-3.9": (2, 64),
    "compacted-3.9": (15, 250),
    "exactly-once-3.9": (16, 190),
    "life-2.8": (35, 552),
    "life-3.4": (38, 552),
    "life-3.9": (81, 1088),
    "life-4.3": (79, 1068),
    "mirror-3.9": (23, 49),
    "odd-records-3.9": (4, 106),
    "roll-3.4-3.9-3.4": (9, 423),
}
"""Numbers of sent requests and of compared observations, by history."""


async def lived(history: str, *, until: int | None = None) -> list[ComparedAnswer]:
    """All answers of a history, or those up to a step; the last step is sent even if excepted."""
    answers = []
    async with HistoryReplay(history) as life:
        for step in read_story(HISTORIES / f"{history}.story.jsonl"):
            sent = step.n == until or (history, step.n) not in EXCEPTIONS
            answers += await life.take(step, sent=sent)
            if step.n == until:
                break
    return answers


@pytest.mark.parametrize("history", ANSWERS)
async def test_every_answer_equals_the_recorded_one(history: str) -> None:
    """Every answer equals the recorded one, and every written record has recorded bytes."""
    answers = await lived(history)
    differing = [answer for answer in answers if not answer.agrees]
    assert not differing, "\n".join(map(_difference_text, differing))
    unrecorded = {
        (history, answer.step.n): answer.unrecorded for answer in answers if answer.unrecorded
    }
    assert unrecorded.keys() == {place for place in COMPACTED_AWAY if place[0] == history}, (
        unrecorded
    )
    counts = Counter(answer.step.kind for answer in answers)
    assert (counts["request"], counts["observe"]) == ANSWERS[history]


@pytest.mark.parametrize(("history", "step"), EXCEPTIONS)
async def test_each_exception_is_needed(history: str, step: int) -> None:
    """Each excepted request really gets another answer."""
    *_, last = await lived(history, until=step)
    assert last.step.n == step
    assert not last.agrees


def test_no_history_is_left_out() -> None:
    """The table covers all histories, with all of their requests and answers."""
    stories = {path.name.removesuffix(".story.jsonl") for path in HISTORIES.glob("*.story.jsonl")}
    assert stories == {*ANSWERS}
    steps = [step for name in stories for step in read_story(HISTORIES / f"{name}.story.jsonl")]
    sent = sum(requests for requests, _ in ANSWERS.values())
    assert sum(step.kind == "request" for step in steps) == sent + len(EXCEPTIONS)
    assert sum(len(step.answers) for step in steps) == sum(
        observed for _, observed in ANSWERS.values()
    )


def _difference_text(answer: ComparedAnswer) -> str:
    return f"{answer.step.n} {answer.path}: {answer.ours} {answer.location}, not {answer.recorded}"
