"""Effect of a plan: the state after it, and the assumptions that no cluster has confirmed."""

from collections.abc import Iterable, Iterator

import msgspec

from controlplane.core.entry import Entry
from controlplane.core.fold import Fold, TopicSnapshot
from controlplane.core.plan import AskHook, Draft, Plan
from controlplane.core.state import ClusterState, OffsetState
from controlplane.core.text.safe_text import count
from controlplane.core.topics.partitioner import draft_partition


def predicted_state(state: ClusterState, plan: Plan) -> ClusterState:
    """State after a plan. Only the topics that the plan writes to are folded."""
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
        offsets={
            **state.offsets,
            **{topic: after.offsets[topic] for topic in topics & {*after.offsets}},
        },
        ends={**state.ends, **after.ends},
        causes=after.causes,
        changed=after.changed,
        unreadable=after.unreadable,
        unreadable_counts={**state.unreadable_counts, **after.unreadable_counts},
    )


def _fold(state: ClusterState, topics: Iterable[str]) -> Fold:
    """A fold of these topics that continues from the state."""
    fold = Fold(state.profile, topics=state.topics, exactly_once=state.exactly_once)
    names = state.topics
    for topic in topics:
        # Positions and unreadable records are those of all topics; adopting them twice is harmless.
        facts = state.changed, state.causes, state.unreadable, state.unreadable_counts.get(topic, 0)
        match topic:
            case names.config:
                snapshot = TopicSnapshot(state.config, *facts)
            case names.status:
                snapshot = TopicSnapshot(state.status, *facts)
            case _:
                snapshot = TopicSnapshot(state.offsets.get(topic, OffsetState()), *facts)
        fold.adopt(topic, snapshot, ())
    return fold


def _entries(state: ClusterState, drafts: Iterable[Draft]) -> Iterator[Entry]:
    """The plan's records as entries, each appended to its partition; times are unknown (-1)."""
    ends = dict(state.ends)
    for draft in drafts:
        partition_key = draft.topic, draft_partition(draft, state)
        end = ends.get(partition_key, 0)
        ends[partition_key] = end + 1
        yield Entry(*partition_key, end, -1, draft.key, draft.value)


IMPORT_AGAIN = "`import` of that dump with --partitions {}=N sets the number"
"""Advice for a log that was imported from a dump: how to state a topic's number of partitions."""


def hook_assumption(question: AskHook) -> str:
    """Assumption that a connector's hook, which was not called, accepts the offsets."""
    return f"alterOffsets of {question.connector_class} accepts these offsets; it was not called"


def partition_assumptions(
    plan: Plan, state: ClusterState, topics: Iterable[str], advice: str = ""
) -> Iterator[str]:
    """Yield the assumption, per topic, that it has no more partitions than the log shows.

    A topic counts only if the plan writes a record to it without naming a partition. For such a
    record, Kafka's partitioner computes the partition from the number of partitions.

    `advice` explains how to state the number, with `{}` for the topic.
    """
    drafts = [draft for step in plan.steps for draft in step.records]
    partitioned_topics = {draft.topic for draft in drafts if draft.partition is None}
    for topic in sorted(partitioned_topics & {*topics}):
        partition_count = sum(other == topic for other, _ in state.ends)
        short = state.topics.short(topic)
        shown = count(partition_count, "partition")
        hint = f"; {advice.format(short)}" if advice else ""
        yield f"{topic} has {shown}, as many as the dump shows{hint}"
