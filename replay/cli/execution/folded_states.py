"""States as commands print them: digests and rows, made in processes or in Spark's tasks."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from controlplane.core.state import ClusterState, Topics
from replay.cluster_problem import ClusterProblem, attempted
from replay.engine.plans.read_plan import ReadPlan
from replay.engine.query import StateQuery
from replay.engine.states.order_marks import OrderMarks
from replay.engine.states.state_digest import digest
from replay.engine.states.state_rows import ConnectorRow, UnreadableCounts, rows, unreadable
from replay.fleet.cluster_summaries import FleetQuestion
from replay.progress import Advance


class PrintedState(NamedTuple):
    """State of one release: its digest, and the rows of its connectors."""

    release: str
    exactly_once: bool
    digest: str
    unreadable: UnreadableCounts
    topics: Topics
    connectors: list[ConnectorRow]


class StateAnswer(NamedTuple):
    """States of one cluster, one per release."""

    cluster: str
    plan: ReadPlan
    states: list[PrintedState]


def answer_of(query: StateQuery, connectors: Sequence[str], advance: Advance) -> StateAnswer:
    """Fold a query, and make the rows of the selected connectors; without a selection, of all.

    Raises:
        ArchiveCorrupt: a file is missing or damaged.
    """
    local, plan, profiles = query
    reduced = local.reduced(plan, profiles, advance)
    marks = OrderMarks(plan, list(zip(plan.busy, reduced, strict=True)))
    states = local.states_of(plan, profiles, reduced)
    return StateAnswer(
        plan.cluster, plan, [_printed(plan, each, connectors, marks) for each in states]
    )


def _printed(
    plan: ReadPlan, state: ClusterState, connectors: Sequence[str], marks: OrderMarks
) -> PrintedState:
    connector_rows = list(rows(plan.cluster, state, connectors))
    of_each = marks.of(state.profile, [row.connector for row in connector_rows])
    return PrintedState(
        state.profile.release,
        state.exactly_once,
        digest(state),
        unreadable(state),
        state.topics,
        [
            msgspec.structs.replace(row, order_dependent=of_each.get(row.connector, ()))
            for row in connector_rows
        ],
    )


class StateAnswerTask(msgspec.Struct, frozen=True):
    """Task: open, plan and fold one cluster, and make its rows."""

    question: FleetQuestion
    connectors: tuple[str, ...]

    def __call__(self, cluster: str) -> Iterator[StateAnswer | ClusterProblem]:
        """Yield the states of a cluster, or its problem."""
        yield attempted(cluster, lambda: self._answer(cluster))

    def _answer(self, cluster: str) -> StateAnswer:
        answer = answer_of(self.question.query(cluster), self.connectors, lambda _: None)
        return answer._replace(plan=answer.plan.brief)


def answers_here(
    queries: Sequence[StateQuery], connectors: Sequence[str], advance: Advance
) -> Iterator[StateAnswer | ClusterProblem]:
    """Answer planned queries in this process, holding the states of one cluster at a time."""
    for query in queries:
        answer = partial(answer_of, query, connectors, advance)
        yield attempted(query.plan.cluster, answer)
