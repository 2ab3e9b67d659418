"""Law: compaction, which keeps the last record of each key, changes no view in safe topics.

The status and offsets topics are safe in every release. The config topic is safe in some releases
only. A task set spans several keys. Two fixes made its fold depend on one more: the key of the
connector's config. This module lists those releases exactly. Kafka's own stores agree
(`tests/oracle`), and the history `compacted-3.9` shows both results on a real cluster.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core import views
from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.releases.profiles import KIP, PROFILES, RELEASES, Profile
from controlplane.core.state import ClusterState
from tests.core.logs import Pair, config, connector, read, tasks
from tests.laws.entries import logs, profiles


def compacted(log: Iterable[Entry], topics: Iterable[str]) -> list[Entry]:
    """The log after compaction of these topics; tombstones stay for a while."""
    log, topics = list(log), set(topics)
    last = {(entry.topic, entry.partition, entry.key): entry.offset for entry in log}
    return [
        entry
        for entry in log
        if entry.topic not in topics
        or last[entry.topic, entry.partition, entry.key] == entry.offset
    ]


class LifeStep(Enum):
    """Records that a cluster writes about one connector."""

    CREATE = "create"
    START_TASKS = "start tasks"
    PAUSE = "pause"
    STOP = "stop"
    RECONFIGURE = "reconfigure"
    RECONFIGURE_AND_START = "reconfigure, start tasks"
    DELETE = "delete"


def lived(steps: Iterable[tuple[str, LifeStep, int]]) -> list[Pair]:
    """The records that workers write for these steps; impossible steps are left out."""
    pairs: list[Pair] = []
    alive: set[str] = set()
    for number, (name, step, count) in enumerate(steps):
        if (step is LifeStep.CREATE) == (name in alive):
            continue
        changed = connector(name, version=str(number))
        match step:
            case LifeStep.CREATE:
                alive.add(name)
                pairs.append(changed)
            case LifeStep.START_TASKS:
                pairs += tasks(name, count)
            case LifeStep.PAUSE:
                pairs.append((f"target-state-{name}", '{"state":"PAUSED","state.v2":"PAUSED"}'))
            case LifeStep.STOP:
                stopped = '{"state":"PAUSED","state.v2":"STOPPED"}'
                pairs += [*tasks(name, 0), (f"target-state-{name}", stopped)]
            case LifeStep.RECONFIGURE:
                pairs.append(changed)
            case LifeStep.RECONFIGURE_AND_START:
                pairs += [changed, *tasks(name, count)]
            case LifeStep.DELETE:
                alive.discard(name)
                pairs += [(f"connector-{name}", None), (f"target-state-{name}", None)]
    return pairs


def shown_connectors(state: ClusterState) -> Any:
    """Configs, target states, tasks and their configs, as REST shows them."""
    return {
        name: (
            state.config.connectors[name],
            views.target(state, name),
            list(state.config.task_ids(name)),
            [views.task_configs(state, name)[task] for task in state.config.task_ids(name)],
        )
        for name in views.connectors(state)
    }


def lives(*without: LifeStep) -> st.SearchStrategy[list[tuple[str, LifeStep, int]]]:
    """Strategy for random lives of two connectors, without some steps."""
    steps = st.sampled_from([step for step in LifeStep if step not in without])
    return st.lists(st.tuples(st.sampled_from("ab"), steps, st.integers(0, 3)), max_size=25)


# A task set that is older than its connector's config is dropped (KAFKA-17719).
LOSES_RECONFIGURED = [profile for profile in PROFILES if profile.commit_needs_config]
# A task set of an earlier life comes back to a connector that has none yet (KAFKA-16838).
REVIVES_DELETED = [
    profile
    for profile in PROFILES
    if profile.removal_drops_tasks and not profile.commit_needs_config
]
LAWFUL = [
    profile
    for profile in PROFILES
    if profile not in LOSES_RECONFIGURED and profile not in REVIVES_DELETED
]


def legal(profile: Profile) -> LifeStep:
    """The step that shows a release's defect; without it, compaction changes no view."""
    return LifeStep.RECONFIGURE if profile.commit_needs_config else LifeStep.DELETE


@given(st.data(), profiles)
def test_compacting_the_config_topic_changes_no_view(data: st.DataObject, profile: Profile) -> None:
    """A release with a defect is tested without the step that shows it."""
    without = () if profile in LAWFUL else (legal(profile),)
    log = config(*lived(data.draw(lives(*without))))
    # A worker of 0.9 cannot read an empty task set at all.
    if profile.commit_needs_deferred:
        log = [entry for entry in log if entry.value != b'{"tasks":0}']
    after = compacted(log, ["connect-configs"])
    assert shown_connectors(fold(after, profile)) == shown_connectors(fold(log, profile))


@given(logs(), profiles)
def test_compacting_offsets_changes_no_offset(log: list[Entry], profile: Profile) -> None:
    """An offset is the value of its last record, in every release."""
    # The cleaner removes aborted records, and they supersede nothing.
    log = [entry for entry in log if not entry.aborted]
    after = compacted(log, ["connect-offsets", "own"])
    values = {t: dict(part.values) for t, part in fold(log, profile).offsets.items()}
    assert {t: dict(part.values) for t, part in fold(after, profile).offsets.items()} == values


RECONFIGURED = [
    ("a", LifeStep.CREATE, 0),
    ("a", LifeStep.START_TASKS, 2),
    ("a", LifeStep.RECONFIGURE, 0),
]
DELETED = [
    ("a", LifeStep.CREATE, 0),
    ("a", LifeStep.START_TASKS, 2),
    ("a", LifeStep.DELETE, 0),
    ("a", LifeStep.CREATE, 0),
]


def breaks(life: list[tuple[str, LifeStep, int]], profile: Profile) -> bool:
    """True if compaction changes the views of this release for such a life."""
    log = config(*lived(life))
    after = compacted(log, ["connect-configs"])
    return bool(shown_connectors(fold(after, profile)) != shown_connectors(fold(log, profile)))


def span(alike: list[Profile]) -> list[str]:
    """Every release that behaves like one of these profiles."""
    fields = [field for field in Profile.__struct_fields__ if field != "release"]
    rows = [[getattr(profile, field) for field in fields] for profile in alike]
    all_profiles = [(name, Profile.of(name)) for name in (*RELEASES, KIP)]
    return [
        name
        for name, profile in all_profiles
        if [getattr(profile, field) for field in fields] in rows
    ]


def test_compaction_loses_tasks_since_3_7_1() -> None:
    """KAFKA-17719 affects 3.7.1 and later, and our profile, which reads like the newest release."""
    losing = [profile for profile in PROFILES if breaks(RECONFIGURED, profile)]
    assert losing == LOSES_RECONFIGURED
    releases = span(losing)
    assert (releases[0], releases[-2], releases[-1]) == ("3.7.1", RELEASES[-1], KIP)
    assert releases[:-1] == list(RELEASES[RELEASES.index("3.7.1") :])


def test_compaction_revives_tasks_up_to_3_7_0() -> None:
    """KAFKA-16838 affects 2.5.1 to 3.7.0; earlier releases kept removed tasks in memory."""
    reviving = [profile for profile in PROFILES if breaks(DELETED, profile)]
    assert reviving == REVIVES_DELETED
    assert span(reviving) == list(RELEASES[RELEASES.index("2.5.1") : RELEASES.index("3.7.1")])


@pytest.mark.parametrize("release", ["3.7.1", "3.9", "4.3", "kip"])
def test_a_repeated_commit_survives_compaction(release: str) -> None:
    """If the tasks are committed again after each config, as `kip` does, no view changes."""
    life = [*RECONFIGURED, ("a", LifeStep.START_TASKS, 2)]
    log = config(*lived(life))
    after = compacted(log, ["connect-configs"])
    assert shown_connectors(read(after, release)) == shown_connectors(read(log, release))
