"""Laws of snapshots: a restored fold that reads the rest equals the fold of the whole log."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry, batch_of
from controlplane.core.fold import Fold, fold
from controlplane.core.fold.bulk import load
from controlplane.core.fold.flat_values import flat, unflat
from controlplane.core.fold.snapshot_codec import DamagedSnapshot, SnapshotDecoder, freeze, kind_of
from controlplane.core.order import in_order, rank_entries
from controlplane.core.releases.profiles import PROFILES, Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.logs.dumps import read_dump
from tests.conftest import FEWER_EXAMPLES
from tests.core.logs import Pair, offsets
from tests.laws.entries import TOPICS, logs, profiles


def thawed(frozen: Fold) -> Fold:
    """Fold restored from another one's snapshots, topic by topic, through bytes."""
    begun = Fold(frozen.profile, exactly_once=frozen.exactly_once, trace=frozen.trace)
    ends: dict[str, dict[int, int]] = {}
    for (topic, partition), end in frozen.snapshot().ends.items():
        ends.setdefault(topic, {})[partition] = end
    for topic, parts in ends.items():
        thawing = SnapshotDecoder(frozen.topics, topic)
        for piece in freeze(frozen.topic_snapshot(topic)):
            thawing.add(piece)
        begun.adopt(topic, thawing.part(), [parts.get(n, 0) for n in range(max(parts) + 1)])
    return begun


def plain(state: ClusterState) -> Any:
    """Fields of a state, without ends of 0, which mean an unread topic."""
    ends = {place: end for place, end in state.ends.items() if end}
    fields = {name: getattr(state, name) for name in state.__struct_fields__}
    return fields | {"ends": ends}


few = st.lists(st.sampled_from(TOPICS), min_size=1, max_size=2, unique=True)
"""Topics of a log: with few topics, records interact more often."""

few_topics = few.flatmap(lambda among: logs(among=among))


@settings(max_examples=FEWER_EXAMPLES)
@given(few_topics, profiles, st.booleans(), st.booleans(), st.data())
def test_a_restored_fold_continues_to_the_same_state(
    log: list[Entry], profile: Profile, exactly_once: bool, trace: bool, data: st.DataObject
) -> None:
    """fold(prefix) → bytes → fold, then the rest = fold(all): every table, in its order."""
    at = data.draw(st.integers(0, len(log)))
    begun = Fold(profile, exactly_once=exactly_once, trace=trace)
    begun.apply_all(log[:at])
    resumed = thawed(begun)
    assert plain(resumed.snapshot()) == plain(begun.snapshot())
    resumed.apply_all(log[at:])
    whole = Fold(profile, exactly_once=exactly_once, trace=trace)
    whole.apply_all(log)
    assert plain(resumed.snapshot()) == plain(whole.snapshot())
    assert resumed.unreadable_count == whole.unreadable_count


@given(few_topics, profiles, st.booleans(), st.data())
def test_a_bulk_load_behind_a_snapshot_gives_the_same_state(
    log: list[Entry], profile: Profile, exactly_once: bool, data: st.DataObject
) -> None:
    """A bulk load after a snapshot gives the state of folding everything in order."""
    at = data.draw(st.integers(0, len(log)))
    early = {ranked_entry.entry.position for ranked_entry in rank_entries(log)[:at]}
    begun = Fold(profile, exactly_once=exactly_once)
    begun.apply_all(in_order(entry for entry in log if entry.position in early))
    resumed = thawed(begun)
    load(resumed, [batch_of([entry]) for entry in log if entry.position not in early])
    slow, fast = fold(in_order(log), profile, exactly_once=exactly_once), resumed.snapshot()
    assert (fast.config, fast.status, fast.commands) == (slow.config, slow.status, slow.commands)
    assert {topic: part for topic, part in fast.offsets.items() if part.values or part.hidden} == {
        topic: part for topic, part in slow.offsets.items() if part.values or part.hidden
    }
    assert plain(fast)["ends"] == plain(slow)["ends"]


@pytest.mark.parametrize("release", ["kip", "3.9", "2.8"])
def test_recorded_clusters_come_back(histories: Path, release: str) -> None:
    """Snapshots of recorded clusters restore the same state, half-way and at the end."""
    for path in sorted(histories.glob("*.log.jsonl")):
        log = in_order(read_dump(path).entries)
        begun = Fold(Profile.of(release))
        for half in (log[: len(log) // 2], log[len(log) // 2 :]):
            begun.apply_all(half)
            assert plain(thawed(begun).snapshot()) == plain(begun.snapshot())


ONE, ANOTHER = b'["a",{"p":1}]', b'["a",{"p":1 }]'
"""Two spellings of one offset key."""


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.release)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([(ONE, None)], [(ONE, b"{}")]),
        ([(ONE, None)], [(ANOTHER, b"{}")]),
        ([(ONE, b"{}")], [(ONE, None)]),
        ([(ONE, b"{}")], [(ANOTHER, None)]),
        ([(ONE, b"{}"), (ANOTHER, b"{}")], [(ONE, None), (ANOTHER, b"{}")]),
        ([(ONE, None), (ANOTHER, b"{}")], [(ANOTHER, None), (ONE, b"{}")]),
    ],
)
def test_offsets_restored_from_a_snapshot_can_change(
    profile: Profile, before: list[Pair], after: list[Pair]
) -> None:
    """Removed offsets return and present ones are removed, under either spelling."""
    log = offsets(*before, *after)
    begun = Fold(profile)
    begun.apply_all(log[: len(before)])
    resumed = thawed(begun)
    load(resumed, [batch_of([entry]) for entry in log[len(before) :]])
    assert resumed.snapshot().offsets == fold(log, profile).offsets


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    # Half of a surrogate pair, and an integer beyond 64 bits.
    | st.sampled_from(["\ud800", "a\udfff", 2**63, -(2**63), -(2**63) - 1, 2**64, -(2**200)]),
    lambda members: st.lists(members) | st.dictionaries(st.text() | st.integers(), members),
)


@settings(max_examples=FEWER_EXAMPLES)
@given(json_values)
def test_a_flat_value_comes_back(value: Any) -> None:
    """A value survives `flat`, MessagePack and `unflat` unchanged."""
    tokens = msgspec.msgpack.decode(msgspec.msgpack.encode(flat(value)))
    assert repr(unflat(tokens)) == repr(value)


@given(st.binary(max_size=60), st.sampled_from(["connect-configs", "connect-offsets", "own"]))
def test_foreign_bytes_raise_only_damaged_snapshot(piece: bytes, topic: str) -> None:
    """Decoding any bytes gives a piece or `DamagedSnapshot`, never another error."""
    with suppress(DamagedSnapshot):
        SnapshotDecoder(Topics(), topic).add(piece)


@pytest.mark.parametrize(
    "content",
    [
        ("connectors", False, [["a"]]),
        ("connectors", False, {"a": {}}),
        ("connectors", True, [["list", 1]]),
        ("connectors", True, [["nothing", 1]]),
        ("connectors", True, [["list"]]),
        ("connectors", True, [["text", b"\xff"]]),
        ("connectors", True, []),
        ("targets", False, [["a", "FUTURE"]]),
        ("hidden", False, []),
        ("offset", False, "1"),
        (1, False, []),
        (),
    ],
)
def test_foreign_pieces_of_a_config_part_are_refused(content: Any) -> None:
    """Well-formed pieces that no snapshot has are refused."""
    with pytest.raises(DamagedSnapshot):
        SnapshotDecoder(Topics(), "connect-configs").add(msgspec.msgpack.encode(content))


def test_a_kind_contains_every_input_of_folding() -> None:
    """A snapshot's kind contains release, isolation, tracing and the topic's part.

    Equal folds have equal kinds.
    """
    base_fold = Fold(Profile.of("3.9"))
    others = [
        Fold(Profile.of("3.4")),
        Fold(Profile.of("3.9"), exactly_once=True),
        Fold(Profile.of("3.9"), trace=True),
        Fold(msgspec.structs.replace(Profile.of("3.9"), fencing=False)),
        Fold(Profile.of("3.9"), topics=Topics(config="c", status="connect-configs")),
    ]
    kinds = {kind_of(fold, "connect-configs") for fold in [base_fold, *others]}
    assert len(kinds) == 6
    assert kind_of(Fold(Profile.of("3.9")), "connect-configs") in kinds
    roles = {
        kind_of(base_fold, topic) for topic in ("connect-configs", "connect-offsets", "own", "x")
    }
    assert len(roles) == 3
