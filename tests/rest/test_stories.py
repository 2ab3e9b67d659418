"""Every history of a real cluster, lived once more by a control plane that is asked over HTTP.

Each request of each history is sent, in order, beneath `/compat/{release}` of the worker that was
asked; each observation asks for the same again. Status and answer are those recorded, and so are
the bytes of every record that our control plane writes for the requests in between.
"""

from collections import Counter

import pytest

from controlplane.scenario.story import read_story
from tests.recorded_requests import HISTORIES
from tests.rest.stories import EXCEPTIONS, ComparedAnswer, HistoryReplay

COMPACTED_AWAY = {("compacted-3.9", 13)}
"""Requests of which the recorded log has lost a record; it would hold the one that is written."""

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
"""By history, how many requests are sent, and how many answers are looked at besides."""


async def lived(history: str, *, until: int | None = None) -> list[ComparedAnswer]:
    """All answers of a history; or up to a step, which is then sent though it be an exception."""
    answers = []
    async with HistoryReplay(history) as life:
        for step in read_story(HISTORIES / f"{history}.story.jsonl"):
            sent = step.n == until or (history, step.n) not in EXCEPTIONS
            answers += await life.take(step, sent=sent)
            if step.n == until:
                break
    return answers


@pytest.mark.parametrize("history", ANSWERS)
async def test_every_answer_is_given_again(history: str) -> None:
    """Every answer is the recorded one, and every record that is written has recorded bytes."""
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
async def test_exceptions_are_some(history: str, step: int) -> None:
    """Each excepted step is really answered differently."""
    *_, last = await lived(history, until=step)
    assert last.step.n == step
    assert not last.agrees


def test_no_history_is_left_out() -> None:
    """All stories there are, and all of their requests and answers."""
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
