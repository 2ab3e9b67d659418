"""Recorded clusters' lives, repeated with running connectors.

A worker on a log in memory runs twins of the recorded connectors, and gets the recorded requests.
It writes the statuses, offsets and configs that the cluster wrote, and gives its answers.
`tests/worker/history_records.py` and the tables here name the exceptions.

Left out:

- `roll-3.4-3.9-3.4`: two workers at a time hand connectors over.
- `odd-records-3.9` after step 8: the connector whose target state another program has changed is
  resumed. Kafka's worker never runs its tasks again; this project's does.
- `compacted-3.9` after step 12: compaction has removed records of the later steps.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from controlplane.core.codec import decode_status
from controlplane.core.entry import Entry
from controlplane.core.records import ConnectorStatus, TaskStatus
from controlplane.core.releases.profiles import Profile
from controlplane.plane import Settings
from tests.conftest import sampled
from tests.recorded_requests import recorded_entries
from tests.rest.probes.comparison import differences
from tests.rest.probes.raw_requests import call
from tests.rest.probes.rows import RELEASE, rows
from tests.rest.probes.runtime import KEY
from tests.rest.stories import EXCEPTIONS
from tests.worker.history_life import HistoryLife, LivedEpisode, Tolerance, episodes
from tests.worker.history_records import ORDER, TOPICS, disorder, values_by_key
from tests.worker.recorded_connectors import recorded_classes
from tests.worker.worker_fixture import entries_in, running_classes, until_state

UNTIL = {"compacted-3.9": 12, "odd-records-3.9": 8}
"""Last step of a history that is lived in part."""

MEMBER_ORDER = "an offset is found whatever the order of its partition's members; Kafka shows null"
EAGER_FENCE = "a paused task fences its predecessor when it starts; Kafka's does when it resumes"
STOPPED_TASKS = "Kafka starts the tasks of a stopped connector, and ends them at once as UNASSIGNED"
NO_CONNECTOR = "active topics are removed with the other statuses of missing connectors"

DIFFERENT_ANSWERS: Mapping[tuple[str, str], str] = {
    (
        "life-3.9",
        "/connectors/gr%C3%B6%C3%9Fe%2F%C3%BCml%C3%A4ut%20%F0%9F%98%80%20%25%3B%2B/offsets",
    ): MEMBER_ORDER,
    ("odd-records-3.9", "/connectors?expand=status&expand=info"): STOPPED_TASKS,
    ("odd-records-3.9", "/connectors/pages/status"): STOPPED_TASKS,
    ("odd-records-3.9", "/connectors/pages/tasks/0/status"): STOPPED_TASKS,
    ("odd-records-3.9", "/connectors/pages/tasks/1/status"): STOPPED_TASKS,
}
"""Paths whose answer differs in each observation."""

MORE_RECORDS: Mapping[tuple[str, int, str], str] = {
    ("aborted-3.9", 9, "tasks-fencing-pages"): EAGER_FENCE,
    ("aborted-3.9", 9, "status-topic-aborted:connector-aborted"): NO_CONNECTOR,
}
"""Records that our worker alone writes, by step and key."""

FEWER_RECORDS: Mapping[tuple[str, int, str], str] = {
    ("odd-records-3.9", 6, "status-task-pages-0"): STOPPED_TASKS,
    ("odd-records-3.9", 6, "status-task-pages-1"): STOPPED_TASKS,
}
"""Records that the cluster alone wrote, by step and key."""


class HistoryExtent(NamedTuple):
    """Numbers of sent requests, observed answers, and recorded records."""

    requests: int
    answers: int
    statuses: int
    offsets: int


EXTENTS = {
    "aborted-3.9": HistoryExtent(2, 64, 57, 21),
    "compacted-3.9": HistoryExtent(10, 26, 62, 24),
    "exactly-once-3.9": HistoryExtent(16, 190, 63, 97),
    "life-2.8": HistoryExtent(35, 552, 125, 33),
    "life-3.4": HistoryExtent(38, 552, 136, 33),
    "life-3.9": HistoryExtent(81, 1088, 198, 56),
    "life-4.3": HistoryExtent(79, 1068, 215, 56),
    "mirror-3.9": HistoryExtent(23, 49, 33, 8),
    "odd-records-3.9": HistoryExtent(3, 34, 39, 25),
}


def tolerance_of(history: str, step: int) -> Tolerance:
    """Differences that the tables allow at a step."""
    return Tolerance(
        sent=(history, step) not in EXCEPTIONS,
        answers={path for name, path in DIFFERENT_ANSWERS if name == history},
        additional_keys=_keys_at(MORE_RECORDS, history, step),
        missing_keys=_keys_at(FEWER_RECORDS, history, step),
    )


def _keys_at(records: Iterable[tuple[str, int, str]], history: str, step: int) -> set[str]:
    return {key for name, number, key in records if (name, number) == (history, step)}


async def lived(history: str, folder: Path) -> list[LivedEpisode]:
    """Replay all episodes; the first one with other records than the cluster's fails the test."""
    done = []
    async with HistoryLife(history, folder) as life:
        for episode in episodes(history, until=UNTIL.get(history)):
            step = episode.step
            done.append(await life.live(episode, tolerance_of(history, step.n)))
            heading = f"{step.n} {step.kind} {step.method} {step.path}"
            assert not done[-1].unequal, "\n".join([heading, *done[-1].unequal])
    return done


@pytest.mark.slow
@pytest.mark.parametrize(
    "history", sampled(EXTENTS, *(EXTENTS.keys() - {"life-2.8", "life-3.4", "life-4.3"}))
)
async def test_a_cluster_writes_and_answers_the_same_again(history: str, tmp_path: Path) -> None:
    """Each step gives the records of each connector, task, topic and offset, and the answers."""
    done = await lived(history, tmp_path)
    check_answers(history, done)
    check_order(done)
    check_generations(done)
    assert extent(done) == EXTENTS[history]
    steps = [(lived_episode, lived_episode.episode.step.n) for lived_episode in done]
    additional = {(history, step, key) for each, step in steps for key in each.additional_keys}
    missing = {(history, step, key) for each, step in steps for key in each.missing_keys}
    assert additional == {place for place in MORE_RECORDS if place[0] == history}
    assert missing == {place for place in FEWER_RECORDS if place[0] == history}


def check_answers(history: str, done: Iterable[LivedEpisode]) -> None:
    """Check that exactly the answers of the table differ."""
    observed = (
        path
        for lived_episode in done
        for step in lived_episode.episode.observations
        for path in step.answers
    )
    expected = [path for path in observed if (history, path) in DIFFERENT_ANSWERS]
    assert [path for lived_episode in done for path in lived_episode.differences] == expected


def check_order(done: Iterable[LivedEpisode]) -> None:
    """Effects follow their causes here and in the recording, where both have the records."""
    for lived_episode in done:
        profile = release_of(lived_episode)
        recorded = [
            entry
            for entry in lived_episode.episode.recorded
            if (entry.key or b"").decode() not in lived_episode.tolerance.missing_keys
        ]
        assert disorder(recorded, profile) == [], "the cluster does not keep this order"
        assert disorder(lived_episode.ours, profile) == []


def check_generations(done: Iterable[LivedEpisode]) -> None:
    """Check that a worker keeps one generation, and that a later worker has a higher one."""
    lives: list[set[int]] = []
    for lived_episode in done:
        if lived_episode.episode.step.kind == "start":
            lives.append(set())
        if lived_episode.episode.step.kind in {"start", "request", "stop"}:
            lives[-1] |= generations(lived_episode.ours, release_of(lived_episode))
    assert {len(life) for life in lives if life} == {1}
    assert all(max(before) < min(after) for before, after in pairwise(filter(None, lives)))


def generations(entries: Iterable[Entry], profile: Profile) -> set[int]:
    """Generations of the statuses among these records."""
    statuses = (entry for entry in entries if entry.topic == TOPICS.status)
    records = [decode_status(entry.key, entry.value, profile) for entry in statuses]
    reports = [record for record in records if isinstance(record, ConnectorStatus | TaskStatus)]
    return {report.status.generation for report in reports if report.status is not None}


def release_of(lived_episode: LivedEpisode) -> Profile:
    """Release of an episode's worker; the newest if no worker runs."""
    return Profile.of(lived_episode.episode.step.release or "kip")


def extent(done: Iterable[LivedEpisode]) -> HistoryExtent:
    """Numbers of compared items, by kind."""
    done = [*done]
    topics = Counter(
        entry.topic for lived_episode in done for entry in lived_episode.episode.recorded
    )
    sent = [
        lived_episode
        for lived_episode in done
        if lived_episode.episode.step.kind == "request" and lived_episode.tolerance.sent
    ]
    return HistoryExtent(
        requests=len(sent),
        answers=sum(
            len(step.answers)
            for lived_episode in done
            for step in lived_episode.episode.observations
        ),
        statuses=topics[TOPICS.status],
        offsets=topics.total() - topics[TOPICS.status] - topics[TOPICS.config],
    )


# --- a connector that cannot start --------------------------------------------------------------


async def test_the_restart_of_a_connector_whose_start_throws_answers_500(tmp_path: Path) -> None:
    """The recorded worker's answer; the log has FAILED, UNASSIGNED and FAILED again."""
    created, restarted = (row for row in rows() if row.n in {43, 1031})
    classes, settings = recorded_classes(tmp_path), Settings(profile=RELEASE)
    async with running_classes(classes, settings=settings) as worker:
        app, prefix = worker.plane.app, f"/compat/{RELEASE}"
        await call(app, created, prefix, KEY)
        await until_state(worker, "broken", "FAILED")
        answer = await call(app, restarted, prefix, KEY)
        assert answer.status == 500
        assert differences(restarted, answer, documentation=False) == []
        await until_state(worker, "broken", "FAILED")
        statuses = values_by_key(await entries_in(worker.plane.log, TOPICS.status))
    values = statuses[TOPICS.status, "status-connector-broken"]
    assert [value["state"] for value in values] == ["FAILED", "UNASSIGNED", "FAILED"]


# --- the comparison can fail --------------------------------------------------------------------

ENTRIES = [entry for entry in recorded_entries("life-3.9") if entry.key != b"session-key"]


@pytest.mark.parametrize(
    "key",
    [b"status-connector-pages", b"status-task-pages-0", b"commit-pages", b'["pages",{"page":7}]'],
)
def test_a_lost_record_is_noticed(key: bytes) -> None:
    """The comparison finds a missing record of a connector, task or offset."""
    lost = next(entry for entry in ENTRIES if entry.key == key)
    left = [entry for entry in ENTRIES if entry is not lost]
    assert values_by_key(left) != values_by_key(ENTRIES)


def test_a_reversed_log_is_noticed() -> None:
    """A cluster whose records run backwards breaks each rule of the order."""
    backwards = [episode.recorded[::-1] for episode in episodes("life-3.9")]
    profile = Profile.of("3.9.1")
    broken = {rule[1:] for entries in backwards for rule in disorder(entries, profile)}
    assert broken == {*ORDER}
