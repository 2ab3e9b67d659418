"""Digests after each record are those of a fold up to it; different states have different ones."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry
from controlplane.core.fold import Fold, fold
from controlplane.core.fold.config import ConfigRows
from controlplane.core.fold.record_fate import UNSEEN
from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.core.state import ConfigState
from replay.archive.archived_cluster import ArchivedCluster
from replay.engine.executors import SerialExecutor
from replay.engine.local_engine import LocalEngine, LocalOptions
from replay.timeline.config_digests import BYTES, RowHashes
from replay.timeline.passes import digests
from replay.timeline.work_shares import TimelineJob, TimelineQuery
from tests.conftest import PROVE, examples
from tests.laws.entries import logs
from tests.recorded_requests import recorded_entries
from tests.replay.archive.archives import archive

EXAMPLES = examples(5, proved=500)
PHASES = [*Phase] if PROVE else [Phase.explicit, Phase.reuse, Phase.generate]
CONFIGS = ("connect-configs",)


class SerialShares(SerialExecutor):
    """Runs several shares of a pass, one after the other."""

    def __init__(self, slots: int) -> None:
        self.slots = slots


def digests_by_record(
    cluster: ArchivedCluster, *, exactly_once: bool = False, slots: int = 1
) -> dict[tuple[str, int], str]:
    """Digests after each record, by release and offset."""
    readers = [profile for profile in PROFILES if profile.exactly_once_support or not exactly_once]
    plan = LocalEngine(cluster, LocalOptions(exactly_once, derived=False)).plan(None, readers)
    question = TimelineQuery(readers, exactly_once=exactly_once)
    return {
        (release, shared.after.position.offset): shared.digest
        for _, shared in digests(
            [TimelineJob(cluster, plan, question)], lambda _: None, SerialShares(slots)
        )
        for release in shared.profiles
    }


def config_digest(state: ConfigState) -> bytes:
    """Digest of a state, from all of its rows."""
    hashes = RowHashes()
    total = hashes.cell("offset", "", state.offset, None)
    total += hashes.cell("session_key", "", -1, state.session_key)
    for table in ConfigRows._fields:
        for name, value in getattr(state, table).items():
            total += hashes.row(table, name, value)
    return (total % (1 << 8 * BYTES)).to_bytes(BYTES)


GONE = [
    Entry("connect-configs", 0, 0, 1, b"task-a-0", b'{"properties":{"k":"v"}}'),
    Entry("connect-configs", 0, 1, 1, b"connector-a", None),
]
"""Case: from 3.4 on, a tombstone of an unknown connector removes its waiting task configs."""


FENCED = [
    Entry("connect-configs", 0, 0, 1, b"connector-g", b'{"properties":{}}'),
    Entry("connect-configs", 0, 1, 1, b"task-g-0", b'{"properties":{}}'),
    Entry("connect-configs", 0, 2, 1, b"commit-g", b'{"tasks":1}'),
    Entry("connect-configs", 0, 3, 1, b"connector-b", b'{"properties":{}}'),
    Entry("connect-configs", 0, 4, 1, b"connector-c", b"no JSON"),
    Entry("connect-configs", 0, 5, 1, b"tasks-fencing-g", b'{"task-count":1}'),
    Entry(
        "connect-configs",
        0,
        6,
        1,
        b"session-key",
        b'{"key":"AAAA","algorithm":"HmacSHA256","creation-timestamp":1}',
    ),
    Entry("connect-configs", 0, 7, 1, b"session-key", None),
    Entry("connect-configs", 0, 8, 1, b"connector-d", None),
]
"""Case for shares: keys that old releases do not know, and records without a connector."""


@pytest.mark.slow
@settings(max_examples=EXAMPLES, phases=PHASES)
@given(logs(40, CONFIGS), st.booleans(), st.integers(1, 3))
@example(log=GONE, exactly_once=False, slots=1)
@example(log=FENCED, exactly_once=False, slots=3)
def test_each_digest_is_that_of_a_fold_from_the_start(
    log: list[Entry], exactly_once: bool, slots: int
) -> None:
    """One pass, in any number of shares, gives the digests of every release after every record."""
    with TemporaryDirectory() as folder:
        digests_found = digests_by_record(
            archive(Path(folder), log), exactly_once=exactly_once, slots=slots
        )
    expected = {}
    for profile in PROFILES:
        if profile.exactly_once_support or not exactly_once:
            worker = Fold(profile, exactly_once=exactly_once)
            for entry in log:
                if worker.apply(entry) is not UNSEEN:
                    state = worker.snapshot().config
                    expected[profile.release, entry.offset] = config_digest(state).hex()
    assert digests_found == expected


def test_the_last_digest_of_a_recorded_cluster_is_that_of_a_fold(tmp_path: Path) -> None:
    """The digest after the last record equals that of a fold, for every release."""
    log = [entry for entry in recorded_entries("life-3.9") if entry.topic in CONFIGS]
    digests_found = digests_by_record(archive(tmp_path, log))
    for profile in PROFILES:
        expected = config_digest(fold(log, profile).config).hex()
        assert digests_found[profile.release, log[-1].offset] == expected


def test_states_that_differ_in_anything_have_other_digests() -> None:
    """States with another type of number, a waiting task or an empty set have other digests."""
    states = [
        ConfigState(),
        ConfigState(offset=1),
        ConfigState(connectors={"a": {"k": 1}}),
        ConfigState(connectors={"a": {"k": 1.0}}),
        ConfigState(connectors={"a": {"k": True}}),
        ConfigState(connectors={"a": {"k": "1"}}),
        ConfigState(connectors={"a": {"k": None}}),
        ConfigState(connectors={"a": {}}),
        ConfigState(applied={"a": {}}),
        ConfigState(tasks={"a": {}}),
        ConfigState(tasks={"a": {0: {}}}),
        ConfigState(tasks={"a": {1: {}}}),
        ConfigState(deferred={"a": {}}),
        ConfigState(deferred={"a": {0: {}}}),
        ConfigState(inconsistent={"a": True}),
        ConfigState(pending_fencing={"a": True}),
        ConfigState(connectors={"a": {"k": "\ud800"}}),
        ConfigState(connectors={"a": {"k": "\udfff"}}),
    ]
    assert len({config_digest(state) for state in states}) == len(states)


def test_order_does_not_change_the_digest() -> None:
    """The order of connectors and of config fields does not change the digest."""
    config, reordered = (
        {"k": "\ud800", "l": {"x": 1, "y": 2}},
        {"l": {"y": 2, "x": 1}, "k": "\ud800"},
    )
    assert config_digest(ConfigState(connectors={"a": config, "b": {"p": 1, "q": 2}})) == (
        config_digest(ConfigState(connectors={"b": {"q": 2, "p": 1}, "a": reordered}))
    )


def test_releases_that_agree_share_a_row(tmp_path: Path) -> None:
    """Releases have one row until they differ."""
    log = [
        Entry("connect-configs", 0, 0, 1, b"connector-a", b'{"properties":{}}'),
        Entry("connect-configs", 0, 1, 2, b"target-state-a", b'{"state":"STOPPED"}'),
    ]
    cluster = archive(tmp_path, log)
    readers = [Profile.of(release) for release in ("3.3", "3.4", "3.9")]
    plan = LocalEngine(cluster, LocalOptions(derived=False)).plan(None, readers)
    job = TimelineJob(cluster, plan, TimelineQuery(readers))
    releases = [shared.profiles for _, shared in digests([job], lambda _: None)]
    assert releases == [("3.3.2", "3.4.1", "3.9.2"), ("3.3.2", "3.4.1"), ("3.9.2",)]
