"""Recorded answers of real workers, compared with our answers over HTTP."""

from typing import NamedTuple

import httpx
import pytest

from controlplane.scenario.story import RecordedAnswer, StoryStep, read_story, same
from tests.rest.served_history import HISTORIES, served, vector


class WorkerLife(NamedTuple):
    """A worker of a recorded cluster."""

    history: str
    worker: str
    exactly_once: bool = False


LIVES = (
    WorkerLife("life-2.8", "w1"),
    WorkerLife("life-3.4", "w1"),
    WorkerLife("life-3.9", "w1"),
    WorkerLife("life-4.3", "w1"),
    WorkerLife("roll-3.4-3.9-3.4", "old1"),
    WorkerLife("roll-3.4-3.9-3.4", "old2"),
    WorkerLife("roll-3.4-3.9-3.4", "new1"),
    WorkerLife("compacted-3.9", "w1"),
    WorkerLife("compacted-3.9", "w2"),
    WorkerLife("mirror-3.9", "w1"),
    WorkerLife("odd-records-3.9", "w1"),
    WorkerLife("odd-records-3.9", "w2"),
    WorkerLife("aborted-3.9", "w1"),
    WorkerLife("aborted-3.9", "w2", exactly_once=True),
    WorkerLife("exactly-once-3.9", "w1", exactly_once=True),
    WorkerLife("exactly-once-3.9", "w2", exactly_once=True),
)


def last_observation(life: WorkerLife) -> StoryStep:
    """The last step at which this worker was asked for everything."""
    steps = read_story(HISTORIES / f"{life.history}.story.jsonl")
    return [step for step in steps if step.answers and step.worker == life.worker][-1]


async def ask(client: httpx.AsyncClient, path: str, as_of: str) -> RecordedAnswer:
    """Get a path as of a moment; return the answer in the form of a recorded one."""
    mark = "&" if "?" in path else "?"
    response = await client.get(f"{path}{mark}as_of={as_of}")
    is_json = response.text.startswith(("{", "["))
    return RecordedAnswer(response.status_code, response.json() if is_json else response.text)


@pytest.mark.parametrize("life", LIVES, ids=lambda life: f"{life.history}-{life.worker}")
async def test_answers_equal_those_of_real_workers(life: WorkerLife) -> None:
    """Our HTTP answers `as_of` the end of a recorded worker equal its last recorded answers.

    The offsets of sinks are not compared: they lie in consumer groups, not in the log.
    """
    step = last_observation(life)
    moment = vector(step.positions)
    assert step.release is not None
    async with served(life.history, step.release, exactly_once=life.exactly_once) as client:
        differing = {}
        for path, recorded in step.answers.items():
            ours = await ask(client, path, moment)
            beyond = "consumer group" in str(ours.answer)
            if not beyond and not same(recorded, ours):
                differing[path] = recorded, ours
    assert differing == {}


@pytest.mark.parametrize("release", ["2.8.2", "3.4.1", "3.9.1", "4.3.0"])
async def test_profile_answers_as_its_release(release: str) -> None:
    """`profile=` answers as that release, whatever the dialect of the service."""
    line = release[:3]
    step = last_observation(WorkerLife(f"life-{line}", "w1"))
    async with served(f"life-{line}", "kip") as client:
        for path in ("/connectors", "/connectors/pages", "/connectors/pages/status"):
            response = await client.get(f"{path}?profile={release}")
            assert same(step.answers[path], RecordedAnswer(response.status_code, response.json()))
