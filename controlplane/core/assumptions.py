"""Sentences about what a plan assumes of the world, where nobody was asked."""

from collections.abc import Iterable, Iterator

from controlplane.core.plan import AskHook, Plan
from controlplane.core.safe_text import count
from controlplane.core.state import ClusterState

IMPORT_AGAIN = "`import` of that dump with --partitions {}=N tells it"
"""Advice on how to tell the number of partitions of a copy of a dump."""


def of_hook(question: AskHook) -> str:
    """A hook that is believed instead of asked."""
    return f"alterOffsets of {question.connector_class} takes these offsets; it was not asked"


def of_partitions(
    plan: Plan, state: ClusterState, topics: Iterable[str], advice: str = ""
) -> Iterator[str]:
    """Numbers of partitions: `topics` may have more of them than the log shows.

    `advice` is how to tell the number, with `{}` for the topic.
    """
    drafts = [draft for step in plan.steps for draft in step.records]
    placed = {draft.topic for draft in drafts if draft.partition is None}
    for topic in sorted(placed & {*topics}):
        number = sum(one == topic for one, _ in state.ends)
        short = state.topics.short(topic)
        shown = count(number, "partition")
        told = f"; {advice.format(short)}" if advice else ""
        yield f"{topic} has {shown}, as many as the dump shows{told}"
