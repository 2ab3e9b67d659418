"""The history of a connector ends in the state of the fold."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry, batch_of, by_partition
from controlplane.core.fold import Fold, fold
from controlplane.core.order import in_order
from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.core.state import Topics
from controlplane.core.topics.key_owners import key_filter, owner
from controlplane.core.views.diff import Aspect, diff
from controlplane.core.views.history import HistorySearch, history
from tests.conftest import FEWER_EXAMPLES
from tests.laws.entries import NAMES, logs, profiles

TOPICS = Topics()
AspectValues = dict[tuple[Aspect, str], Any]

STATUS = b'{"state":"RUNNING","worker_id":"w","generation":1}'
ACTIVE = b'{"topic":{"name":"t","connector":"c","task":0,"discoverTimestamp":1}}'
ODD_KEYS = [
    Entry("connect-configs", 0, 0, 1, b"connector-c", b'{"properties":{"a":"b"}}'),
    Entry("connect-configs", 0, 1, 2, b"task-c-+0--", b'{"properties":{"t":"0"}}'),
    Entry("connect-configs", 0, 2, 3, b"commit-c", b'{"tasks":1}'),
    Entry("connect-status", 0, 0, 4, b"status-task-c-+0", STATUS),
    Entry("connect-status", 0, 1, 5, b"status-topic-t:ZZZZZZZZZZc", ACTIVE),
    Entry("connect-configs", 0, 3, 6, b"connector-\xff", b'{"properties":{"a":"b"}}'),
]
"""Keys with odd meanings: edges 7 and 23 of docs/releases.md, and a name that is no UTF-8."""


def values_by_events(log: list[Entry], name: str, profile: Profile) -> AspectValues:
    """Final facts of a connector after every event of its history."""
    facts: AspectValues = {}
    for event in history(log, name, profile).events:
        if event.aspect not in (None, Aspect.SOURCE_OFFSET):
            facts[event.aspect, event.item] = event.after
    return {place: value for place, value in facts.items() if value not in (None, 0)}


def values_by_diff(log: list[Entry], name: str, profile: Profile) -> AspectValues:
    """State of the connector in a worker that has read the whole log."""
    return {
        (change.aspect, change.item): change.after
        for change in diff(fold([], profile), fold(log, profile))
        if change.connector == name and change.aspect is not Aspect.SOURCE_OFFSET
    }


@settings(max_examples=FEWER_EXAMPLES)
@given(logs(), st.sampled_from(NAMES), profiles)
def test_a_history_ends_in_the_fold(log: list[Entry], name: str, profile: Profile) -> None:
    """Records of other connectors do not change the result, not even for source offsets."""
    log = in_order(log)
    assert values_by_events(log, name, profile) == values_by_diff(log, name, profile)
    own = [entry for entry in log if owner(entry.topic, entry.key, TOPICS, profile) == name]
    differing = {change.connector for change in diff(fold(own, profile), fold(log, profile))}
    assert name not in differing


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.release)
@pytest.mark.parametrize("name", ["c", "\ufffd"])
def test_odd_keys_are_matched_to_their_connector(name: str, profile: Profile) -> None:
    """Keys with signs or dashes in task ids, odd separators or bad bytes keep their connector."""
    assert values_by_events(ODD_KEYS, name, profile) == values_by_diff(ODD_KEYS, name, profile)
    assert values_by_diff(ODD_KEYS, name, profile)


@settings(max_examples=FEWER_EXAMPLES)
@given(logs(), st.sampled_from(NAMES), profiles, st.integers(1, 4))
def test_batches_of_any_size_have_the_same_matches(
    log: list[Entry], name: str, profile: Profile, size: int
) -> None:
    """The search finds what a test of each record's key finds, in the one order."""
    log = in_order(log)
    search = HistorySearch(name, profile, TOPICS, exactly_once=False)
    for entries in by_partition(log).values():
        for first in range(0, len(entries), size):
            search.look_at(batch_of(entries[first : first + size]))
    hidden = Fold(profile, topics=TOPICS)
    assert [*search.matches()] == [
        entry
        for entry in log
        if owner(entry.topic, entry.key, TOPICS, profile) == name
        and not (entry.aborted and not hidden.sees_aborted(entry.topic))
    ]


SPELLINGS = [
    b'["c",{}]',
    b'["\\u0063",{}]',
    '["c",{}]'.encode("utf-16-be"),
    '["c",{}]'.encode("utf-32-le"),
    b'["\xc1\xa3",{}]',
]
"""Keys whose first element Jackson reads as `c`."""


@pytest.mark.parametrize("key", SPELLINGS)
def test_the_key_filter_knows_every_spelling(key: bytes) -> None:
    """A key of the connector passes, however its JSON spells the name; most others do not."""
    assert owner(TOPICS.offsets, key, TOPICS, Profile.of("3.9.1")) == "c"
    assert key_filter("c")(key)
    assert not key_filter("d")(b'["c",{}]')


@given(logs(), profiles)
def test_the_key_filter_leaves_out_no_owner(log: list[Entry], profile: Profile) -> None:
    """Each record passes the filter of the connector that its key names."""
    for entry in [*log, *ODD_KEYS]:
        name = owner(entry.topic, entry.key, TOPICS, profile)
        assert name is None or key_filter(name)(entry.key)
