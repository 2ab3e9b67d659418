"""Histories of real clusters, lived once more with running connectors.

A worker on a log in memory runs twins of the recorded connectors, and gets the recorded requests.
It writes the statuses, offsets and configs that the cluster wrote, and gives its answers, except
for what `tests/worker/history_records.py` and the tables here name.

Left out are the histories that one worker with such connectors cannot live: MirrorMaker's
connectors (`mirror-3.9`), a group of workers (`roll-3.4-3.9-3.4`), and logs that foreign hands or
the log cleaner have changed (`odd-records-3.9`, `aborted-3.9`, `compacted-3.9`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from controlplane.core.codec import decode_status
from controlplane.core.entry import Entry
from controlplane.core.records import ConnectorStatus, TaskStatus
from controlplane.core.releases.profiles import Profile
from controlplane.scenario.story import read_story
from tests.recorded_requests import HISTORIES
from tests.rest.stories import EXCEPTIONS
from tests.worker.history_life import Episode, HistoryLife, LivedEpisode, episodes
from tests.worker.history_records import TOPICS, disorder, values_by_key

MEMBER_ORDER = "an offset is found whatever the order of its partition's members; Kafka shows null"

DIFFERENT_ANSWERS: Mapping[tuple[str, str], str] = {
    (
        "life-3.9",
        "/connectors/gr%C3%B6%C3%9Fe%2F%C3%BCml%C3%A4ut%20%F0%9F%98%80%20%25%3B%2B/offsets",
    ): MEMBER_ORDER,
}
"""Observed paths whose answer differs in each observation."""


class HistoryCounts(NamedTuple):
    """Extent of a history."""

    requests: int
    answers: int
    """Answers to observations."""
    statuses: int
    """Status records of the cluster, with repetitions."""
    offsets: int


HISTORIES_LIVED = {
    "life-3.9": HistoryCounts(0, 0, 0, 0),
    "life-4.3": HistoryCounts(0, 0, 0, 0),
    "life-3.4": HistoryCounts(0, 0, 0, 0),
    "life-2.8": HistoryCounts(0, 0, 0, 0),
    "exactly-once-3.9": HistoryCounts(0, 0, 0, 0),
}


def story_of(history: str) -> list[Episode]:
    """The episodes of a history."""
    return episodes(read_story(HISTORIES / f"{history}.story.jsonl"))


async def lived(history: str, folder: Path) -> list[LivedEpisode]:
    """A whole history. Requests that a healthy cluster answers otherwise are not sent."""
    excepted = {path for name, path in DIFFERENT_ANSWERS if name == history}
    async with HistoryLife(history, folder) as life:
        done = []
        for episode in story_of(history):
            sent = (history, episode.step.n) not in EXCEPTIONS
            one = await life.live(episode, sent=sent, excepted=excepted)
            assert one.same_records, shown(one)
            done.append(one)
        return done


@pytest.mark.slow
@pytest.mark.parametrize("history", HISTORIES_LIVED)
async def test_statuses_and_offsets_are_those_of_the_cluster(history: str, tmp_path: Path) -> None:
    """Step by step: the same records for each connector, task, topic and offset; same answers."""
    done = await lived(history, tmp_path)
    excepted = {path for name, path in DIFFERENT_ANSWERS if name == history}
    observed = [path for one in done for step in one.episode.observations for path in step.answers]
    expected = [path for path in observed if path in excepted]
    assert [path for one in done for path in one.differences] == expected
    for one in done:
        profile = Profile.of(release_of(history))
        assert disorder(one.recorded, profile) == [], "the rule is wrong"
        assert disorder(one.ours, profile) == []
    assert never_falling(generations([entry for one in done for entry in one.ours], profile))
    sent = [one for one in done if one.episode.step.kind == "request"]
    written = [entry.topic for one in done for entry in one.recorded]
    statuses = written.count(TOPICS.status)
    offsets = len(written) - statuses - written.count(TOPICS.config)
    print(HistoryCounts(len(sent), len(observed), statuses, offsets))


def release_of(history: str) -> str:
    """The release of a history's workers."""
    return next(one.step.release or "" for one in story_of(history))


def generations(entries: list[Entry], profile: Profile) -> list[int]:
    """The generations of all statuses, in order."""
    records = [
        decode_status(entry.key, entry.value, profile)
        for entry in entries
        if entry.topic == TOPICS.status
    ]
    reports = [one for one in records if isinstance(one, ConnectorStatus | TaskStatus)]
    return [one.status.generation for one in reports if one.status is not None]


def never_falling(numbers: list[int]) -> bool:
    """True if each number is at least as high as the one before."""
    return numbers == sorted(numbers)


def shown(one: LivedEpisode) -> str:
    """The keys whose values differ."""
    recorded, ours = values_by_key(one.recorded), values_by_key(one.ours)
    lines = [
        f"{key}: {ours.get(key)}, not {recorded.get(key)}"
        for key in sorted({*recorded, *ours})
        if recorded.get(key) != ours.get(key)
    ]
    step = one.episode.step
    return "\n".join([f"{step.n} {step.kind} {step.method} {step.path}", *lines])
