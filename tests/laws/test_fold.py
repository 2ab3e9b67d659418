"""Laws of the fold: they hold for every log and every profile."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.entry import Entry, batch_of
from controlplane.core.fold import FateKind, Fold, fold
from controlplane.core.fold.bulk import load
from controlplane.core.order import ends_at, in_order, rank_entries
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.core.views.diff import diff
from controlplane.core.views.hazards import hazards
from controlplane.rest.endpoints.pure_requests import answer, every_path, reachable
from controlplane.rest.endpoints.reads import ReadInputs
from tests.conftest import FEWER_EXAMPLES
from tests.laws.entries import logs, profiles, statuses


def facts_of(state: ClusterState) -> Any:
    """Facts of a state, without the bookkeeping of their origin."""
    return state.config, state.status, dict(state.offsets), state.commands


def bookkeeping(state: ClusterState) -> Any:
    """Bookkeeping of a state: the positions read, and the records that changed each fact."""
    return state.ends, state.changed, state.causes


@given(logs(), profiles, st.booleans(), st.data())
def test_folding_a_prefix_and_the_rest_is_folding_all(
    log: list[Entry], profile: Profile, exactly_once: bool, data: st.DataObject
) -> None:
    """fold(prefix) then rest = fold(all); a published snapshot never changes."""
    at = data.draw(st.integers(0, len(log)))
    worker = Fold(profile, exactly_once=exactly_once)
    worker.apply_all(log[:at])
    midway = worker.snapshot()
    before = repr(midway)
    worker.apply_all(log[at:])
    assert repr(midway) == before
    assert worker.snapshot() == fold(log, profile, exactly_once=exactly_once)
    assert midway == fold(log[:at], profile, exactly_once=exactly_once)


@given(logs(), profiles)
def test_ignored_records_change_only_the_position(log: list[Entry], profile: Profile) -> None:
    """Invalid records leave the state unchanged, except for the config topic's offset."""
    worker = Fold(profile)
    for entry in log:
        before = worker.snapshot()
        outcome = worker.apply(entry)
        after = worker.snapshot()
        assert after.ends[entry.topic, entry.partition] == entry.offset + 1
        if outcome.kind is FateKind.ACCEPTED or entry.topic in ("connect-offsets", "own"):
            continue
        offset = after.config.offset
        config = msgspec.structs.replace(before.config, offset=offset)
        assert after.config == config
        assert offset in (before.config.offset, entry.offset + 1)
        assert facts_of(after)[1:] == facts_of(before)[1:]


@given(logs() | statuses(), profiles, st.booleans())
def test_loading_in_bulk_is_folding_in_order(
    log: list[Entry], profile: Profile, exactly_once: bool
) -> None:
    """The bulk load and the fold record by record give the same state."""
    slow = fold(in_order(log), profile, exactly_once=exactly_once)
    fast = Fold(profile, exactly_once=exactly_once)
    load(fast, [batch_of([entry]) for entry in log])
    loaded = fast.snapshot()
    assert facts_of(loaded) == facts_of(slow)
    assert bookkeeping(loaded) == bookkeeping(slow)
    assert loaded.unreadable.items() <= slow.unreadable.items()


@settings(max_examples=FEWER_EXAMPLES)
@given(logs(), st.randoms())
def test_the_order_is_the_same_however_a_log_is_read(log: list[Entry], random: Any) -> None:
    """Any interleaving of partitions gives the same order; within a partition offsets ascend."""
    parts: dict[tuple[str, int], list[Entry]] = {}
    for entry in log:
        parts.setdefault((entry.topic, entry.partition), []).append(entry)
    mixed = []
    while parts:
        place = random.choice(sorted(parts))
        mixed.append(parts[place].pop(0))
        if not parts[place]:
            del parts[place]
    ordered = in_order(log)
    assert in_order(mixed) == ordered
    assert in_order(ordered) is ordered


@given(logs(), st.data())
def test_a_moment_is_a_prefix_of_the_order(log: list[Entry], data: st.DataObject) -> None:
    """A cut contains everything up to its record and nothing after it, in every partition."""
    if not log:
        return
    last = data.draw(st.sampled_from(log))
    moment = f"{last.topic}@{last.partition}:{last.offset}"
    ends = ends_at([batch_of([entry]) for entry in log], moment, Topics())
    ranked = rank_entries(log)
    at = next(ranked_entry for ranked_entry in ranked if ranked_entry.entry is last)
    for ranked_entry in ranked:
        inside = ranked_entry.offset < ends[ranked_entry.topic][ranked_entry.partition]
        assert inside is (ranked_entry[:4] <= at[:4])


@settings(max_examples=FEWER_EXAMPLES)
@given(logs(), profiles)
def test_a_state_does_not_differ_from_itself(log: list[Entry], profile: Profile) -> None:
    """diff(a, a) is empty; a difference between two releases has an existing cause."""
    state = fold(log, profile, trace=True)
    assert diff(state, fold(log, profile, trace=True)) == []
    places = {entry.position for entry in log}
    for change in diff(state, fold(log, Profile.of("kip"), trace=True)):
        assert change.cause in places


@settings(max_examples=FEWER_EXAMPLES)
@given(logs(), profiles, st.booleans())
def test_every_question_has_an_answer(
    log: list[Entry], profile: Profile, exactly_once: bool
) -> None:
    """Views, answers and hazards raise for no log."""
    state = fold(log, profile, exactly_once=exactly_once)
    for path in reachable(every_path(state), profile):
        assert answer(ReadInputs(state), path).status
    hazards(log, profile, exactly_once=exactly_once)


def test_bulk_load_agrees_about_two_spellings_of_a_key() -> None:
    """Bulk load and fold agree about one source partition with two spellings of its key."""
    other, key = b'["a",{"p":1 }]', b'["a",{"p":1}]'
    log = [
        Entry("connect-offsets", 0, 0, 5, other, None),
        Entry("connect-offsets", 1, 0, 3, other, b"{}"),
        Entry("connect-offsets", 2, 0, 9, key, b'{"o":1}'),
    ]
    fast = Fold(Profile.of("4.3"))
    load(fast, [batch_of([entry]) for entry in log])
    assert facts_of(fast.snapshot()) == facts_of(fold(in_order(log), Profile.of("4.3")))
