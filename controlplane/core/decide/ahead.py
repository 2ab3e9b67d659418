"""What will be known once the records of a plan have been read, if nobody writes in between."""

from collections.abc import Iterable, Iterator

import msgspec

from controlplane.core.entry import Entry
from controlplane.core.evolve import Fold, Part
from controlplane.core.partitioner import partition_of
from controlplane.core.plan import Draft, Plan
from controlplane.core.state import ClusterState, OffsetState


def ahead(state: ClusterState, plan: Plan) -> ClusterState:
    """The state after a plan. Only the topics that it writes to are folded on."""
    drafts = [draft for step in plan.steps for draft in step.records]
    topics = {draft.topic for draft in drafts}
    if not topics:
        return state
    fold = _fold(state, topics)
    fold.apply_all(_entries(state, drafts))
    after = fold.snapshot()
    names = state.topics
    return msgspec.structs.replace(
        state,
        config=after.config if names.config in topics else state.config,
        status=after.status if names.status in topics else state.status,
        offsets={**state.offsets, **{one: after.offsets[one] for one in topics & {*after.offsets}}},
        ends={**state.ends, **after.ends},
        causes=after.causes,
        changed=after.changed,
        unreadable=after.unreadable,
        unreadable_counts={**state.unreadable_counts, **after.unreadable_counts},
    )


def _fold(state: ClusterState, topics: Iterable[str]) -> Fold:
    """A fold that knows these topics, and goes on where the state ends."""
    fold = Fold(state.profile, topics=state.topics, exactly_once=state.exactly_once)
    names = state.topics
    for topic in topics:
        # Which record made what is told with the first part, for all of them.
        known = state.changed, state.causes, state.unreadable, state.unreadable_counts.get(topic, 0)
        match topic:
            case names.config:
                part = Part(state.config, *known)
            case names.status:
                part = Part(state.status, *known)
            case _:
                part = Part(state.offsets.get(topic, OffsetState()), *known)
        fold.adopt(topic, part, ())
    return fold


def _entries(state: ClusterState, drafts: Iterable[Draft]) -> Iterator[Entry]:
    """The records as they will lie in the log, each at the end of its partition."""
    ends = dict(state.ends)
    for draft in drafts:
        place = draft.topic, place_of(draft, state)
        end = ends.get(place, 0)
        ends[place] = end + 1
        yield Entry(*place, end, -1, draft.key, draft.value)


def place_of(draft: Draft, state: ClusterState) -> int:
    """The partition that a record goes to."""
    if draft.partition is not None:
        return draft.partition
    return partition_of(draft.key, sum(topic == draft.topic for topic, _ in state.ends))
