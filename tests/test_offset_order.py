"""`/offsets` in the order of a real worker: its partitions, and their fields."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from controlplane.cli.verify.answer_diff import is_of_consumer_group
from controlplane.core.entry import batch_of
from controlplane.core.fold import Fold, fold
from controlplane.core.fold.bulk import load
from controlplane.core.order import before
from controlplane.core.releases.profiles import Profile
from controlplane.rest.endpoints.pure_requests import answer
from controlplane.rest.endpoints.reads import ReadInputs
from controlplane.scenario.story import StoryStep, read_story
from tests.recorded_requests import HISTORIES, plugins_of, recorded_entries
from tests.test_histories import EXACTLY_ONCE

LISTED = {
    "aborted-3.9": 7,
    "compacted-3.9": 17,
    "exactly-once-3.9": 20,
    "life-3.9": 73,
    "life-4.3": 63,
    "mirror-3.9": 2,
    "odd-records-3.9": 5,
    "roll-3.4-3.9-3.4": 16,
}
"""By history, answers that list source offsets."""


class OffsetsAnswer(NamedTuple):
    """A recorded answer to `/offsets`, and the worker that gave it."""

    step: StoryStep
    worker: str
    path: str
    offsets: list[Any]
    compacted: bool


def answers(name: str) -> Iterator[OffsetsAnswer]:
    """Every recorded answer that lists source offsets."""
    compacted = False
    for step in read_story(HISTORIES / f"{name}.story.jsonl"):
        compacted |= step.kind == "compacted"
        for path, response in step.answers.items():
            body = response.answer if isinstance(response.answer, dict) else {}
            offsets = body.get("offsets") if path.endswith("/offsets") else None
            if offsets and not is_of_consumer_group(response):
                yield OffsetsAnswer(step, step.worker or "", path, offsets, compacted)


@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("live", [False, True], ids=["loaded", "live"])
def test_offsets_are_listed_in_the_order_of_the_worker(name: str, live: bool) -> None:
    """The order is the same for a bulk read, as in `inspect`, and record by record."""
    releases = {}
    for step in read_story(HISTORIES / f"{name}.story.jsonl"):
        if step.release is not None:
            releases[step.worker] = step.release
    checked = 0
    for expected in answers(name):
        entries = list(
            before(recorded_entries(name, compacted=expected.compacted), expected.step.positions)
        )
        profile = Profile.of(releases[expected.worker])
        once = bool({"*", expected.worker} & EXACTLY_ONCE.get(name, set()))
        if live:
            state = fold(entries, profile, exactly_once=once)
        else:
            whole = Fold(profile, exactly_once=once)
            load(whole, [batch_of([entry]) for entry in entries])
            state = whole.snapshot()
        listed = answer(ReadInputs(state, plugins_of(name)), expected.path).body["offsets"]
        assert json.dumps(listed) == json.dumps(expected.offsets), (expected.step.n, expected.path)
        checked += 1
    assert checked == LISTED[name]
