"""Sentences about what a plan assumes, where the answer was not asked for."""

from collections.abc import Iterable, Iterator

from controlplane.core.plan import AskHook, Plan
from controlplane.core.state import ClusterState
from controlplane.core.text.safe_text import count

IMPORT_AGAIN = "`import` of that dump with --partitions {}=N tells it"
"""Advice on how to state the number of partitions of a topic that a dump was copied from."""


def hook_assumption(question: AskHook) -> str:
    """Assumption that a hook accepts the offsets, made without calling it."""
    return f"alterOffsets of {question.connector_class} takes these offsets; it was not asked"


def partition_assumptions(
    plan: Plan, state: ClusterState, topics: Iterable[str], advice: str = ""
) -> Iterator[str]:
    """Assumptions that `topics` have no more partitions than the log shows.

    `advice` explains how to state the number, with `{}` for the topic.
    """
    drafts = [draft for step in plan.steps for draft in step.records]
    placed = {draft.topic for draft in drafts if draft.partition is None}
    for topic in sorted(placed & {*topics}):
        number = sum(one == topic for one, _ in state.ends)
        short = state.topics.short(topic)
        shown = count(number, "partition")
        hint = f"; {advice.format(short)}" if advice else ""
        yield f"{topic} has {shown}, as many as the dump shows{hint}"
