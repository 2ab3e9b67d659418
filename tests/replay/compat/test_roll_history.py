"""Assessments of a recorded cluster that was rolled from 3.4 to 3.9 and back.

Each assessment reads the log before a change. The tests compare it with the later answers and
records of the workers.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controlplane.core.entry import Entry
from controlplane.core.order import before, in_order
from controlplane.core.releases.profiles import Profile
from controlplane.logs.dumps import read_dump
from controlplane.scenario.story import StoryStep, read_story
from replay.compat import (
    ClusterAssessment,
    ConnectorAssessment,
    ReleaseVerdict,
    RolloutMode,
    assess,
    roll,
)
from replay.compat.worker_views import ReleaseView

OLD, NEW = "3.4.1", "3.9.1"


class RollStep(NamedTuple):
    """Step of the story that starts the first worker of `goal`, or ends the last one of `start`."""

    step: int
    start: str
    goal: str
    observed: tuple[int, ...]
    """Observations after the step, until the next request."""
    done: bool
    """True if no worker of `start` is left."""


CHANGES = (
    RollStep(9, OLD, NEW, (10, 11), done=False),
    RollStep(20, NEW, OLD, (21, 22), done=False),
    RollStep(26, NEW, OLD, (27,), done=True),
    RollStep(30, OLD, NEW, (31, 32), done=False),
    RollStep(36, OLD, NEW, (37,), done=True),
)


@pytest.fixture(scope="module")
def story(histories: Path) -> dict[int, StoryStep]:
    """Steps of the story, by number."""
    steps = read_story(histories / "roll-3.4-3.9-3.4.story.jsonl")
    return {step.n: step for step in steps}


@pytest.fixture(scope="module")
def log(histories: Path) -> list[Entry]:
    """Every record of the cluster."""
    return in_order(read_dump(histories / "roll-3.4-3.9-3.4.log.jsonl").entries)


def predicted(log: list[Entry], story: dict[int, StoryStep], change: RollStep) -> ClusterAssessment:
    """Assessment of the log before a change."""
    earlier = list(before(log, story[change.step - 1].positions))
    assert earlier
    change_of = roll(Profile.of(change.start), Profile.of(change.goal), RolloutMode.ROLLING)
    return assess(earlier, change_of)


def view_of(assessed: ConnectorAssessment, release: str) -> ReleaseView:
    """Connector as one of the two releases reads it."""
    return next(view for view in assessed.views if view.release == release)


def answer(step: StoryStep, path: str) -> Any:
    """Recorded answer of a worker; None for any status but 200."""
    recorded = step.answers[path]
    return recorded.answer if recorded.status == 200 else None


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"step {change.step}")
def test_connectors_and_tasks_are_predicted(
    log: list[Entry], story: dict[int, StoryStep], change: RollStep
) -> None:
    """Every worker lists the predicted connectors with the predicted number of tasks."""
    assessment = predicted(log, story, change)
    for number in change.observed:
        step = story[number]
        views = [
            view_of(connector, step.release or "")
            for connector in assessment.assessed
            if connector.connector is not None
        ]
        names = [connector.connector for connector in assessment.assessed if connector.connector]
        listed = {name for name, view in zip(names, views, strict=True) if view.configured}
        assert {*answer(step, "/connectors")} == listed
        for name, view in zip(names, views, strict=True):
            tasks = answer(step, f"/connectors/{name}")["tasks"]
            assert len(tasks) == view.tasks


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"step {change.step}")
def test_statuses_are_predicted(
    log: list[Entry], story: dict[int, StoryStep], change: RollStep
) -> None:
    """During the change each worker shows a possible state; afterwards, the predicted one.

    Until the connector's new owner reports, a worker shows the old state. The possible states are
    the old one and the predicted states of both releases. A worker of 3.4 cannot
    show STOPPED.
    """
    assessment = predicted(log, story, change)
    for number in change.observed:
        step = story[number]
        for connector in assessment.assessed:
            view = view_of(connector, step.release or "")
            shown = answer(step, f"/connectors/{connector.connector}/status")
            state = None if shown is None else shown["connector"]["state"]
            if change.done:
                assert state == view.will_report
                assert {task["state"] for task in shown["tasks"]} <= {view.will_report}
                assert len(shown["tasks"]) == view.tasks
            else:
                possible = {view.reported, *(other.will_report for other in connector.views)}
                possible -= {"STOPPED"} if step.release == OLD else set()
                assert state in possible


def test_unassigned_is_predicted(log: list[Entry], story: dict[int, StoryStep]) -> None:
    """Workers write only predicted states of connectors; UNASSIGNED is among them."""
    states_seen: set[str] = set()
    for change in CHANGES:
        ends = (story[number].positions for number in (change.step - 1, change.observed[0]))
        earlier, later = (set(before(log, end)) for end in ends)
        for connector in predicted(log, story, change).assessed:
            key = f"status-connector-{connector.connector}".encode()
            written = [entry for entry in in_order(later - earlier) if entry.key == key]
            states = [json.loads(entry.value or b"{}")["state"] for entry in written]
            foreseen = {
                state for view in connector.views for state in (view.meanwhile, view.will_report)
            }
            assert {*states} <= foreseen
            states_seen.update(states)
    assert "UNASSIGNED" in states_seen


def test_the_stopped_connector_is_predicted(log: list[Entry], story: dict[int, StoryStep]) -> None:
    """A worker of 3.4 shows `pages` as RUNNING and no state of `born`, as predicted."""
    assessment = predicted(log, story, CHANGES[1])
    by_name = {connector.connector: view_of(connector, OLD) for connector in assessment.assessed}
    step = story[22]
    assert answer(step, "/connectors/born/status") is by_name["born"].reported is None
    shown = answer(step, "/connectors/pages/status")
    assert shown["connector"]["state"] == by_name["pages"].reported == "RUNNING"


def test_writes_of_the_older_worker_are_predicted(
    log: list[Entry], story: dict[int, StoryStep]
) -> None:
    """The assessment predicted the records that the older worker wrote for a pause and a resume."""
    assessment = predicted(log, story, CHANGES[1])
    (pages,) = (connector for connector in assessment.assessed if connector.connector == "pages")
    for written, number in zip(pages.writes, (28, 33), strict=True):
        step = story[number]
        assert step.path == f"/connectors/pages/{written.request}"
        offset = step.before["connect-configs"][0]
        (entry,) = (
            entry for entry in log if entry.topic == "connect-configs" and entry.offset == offset
        )
        (draft,) = written.records
        assert (entry.key, entry.value) == (draft.key, draft.value)
    paused, resumed = pages.writes
    assert (paused.newer.target, resumed.newer.target) == ("PAUSED", "STARTED")
    assert answer(story[32], "/connectors/pages/status")["connector"]["state"] == "PAUSED"


def test_the_refused_stop_is_predicted(log: list[Entry], story: dict[int, StoryStep]) -> None:
    """Both workers answered 404 to a stop while a worker of 3.4 was the leader."""
    assessment = predicted(log, story, CHANGES[0])
    assert (
        f"while both releases run, PUT /connectors/{{c}}/stop is answered {story[12].status} "
        f"if a worker of {OLD} receives the request, or handles it as the leader"
        in assessment.remarks
    )
    assert story[12].status == story[13].status


SITUATIONS = {
    9: {},
    20: {"pages": {1, 7}, "born": {1, 7, 17}},
    26: {"pages": {1, 7}, "born": {1, 7, 17}},
    30: {"pages": {3}, "born": {1, 17}},
    36: {"pages": {2}, "born": {1, 17}},
}
"""Situations by step and connector.

Both connectors are STOPPED; a 3.4 worker pauses and resumes `pages`.
"""


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"step {change.step}")
def test_each_stage_has_its_situations(
    log: list[Entry], story: dict[int, StoryStep], change: RollStep
) -> None:
    """Each stage of the roll has the situations that its requests caused."""
    assessment = predicted(log, story, change)
    numbers_by_connector = {
        connector.connector: {observation.situation.number for observation in connector.situations}
        for connector in assessment.assessed
        if connector.situations
    }
    assert numbers_by_connector == SITUATIONS[change.step]
    prepared = change.step == 30
    assert assessment.verdict is ReleaseVerdict.COMPATIBLE, (
        "steps after the change are no preparation"
    )
    assert [step.command for step in assessment.plan] == ["controlplane stop pages"] * prepared
