"""Actions of a plan outside of the logs, and questions of a decision.

On Kafka that is the admin client: consumer groups of sinks, transactional producers. An embedded
control plane has no Kafka behind it, and no workers but its own.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

from msgspec import UNSET

from controlplane.core.context import Context
from controlplane.core.decide.sink_offsets import admin_overrides, group_of
from controlplane.core.entry import TopicPartition
from controlplane.core.plan import AdminOverrides, AlterGroup, AnyAction, GroupOffsets
from controlplane.core.records import Properties
from controlplane.core.views.group_progress import GroupProgress, LogEnd, group_progress

STILL_ACTIVE = (
    "Failed to {verb} consumer group offsets for connector {connector} either because its tasks "
    "haven't stopped completely yet or the connector was resumed before the request to {verb} its "
    "offsets could be successfully completed. If the connector is in a stopped state, this "
    "operation can be safely retried. If it doesn't eventually succeed, the Connect cluster may "
    "need to be restarted to get rid of the zombie sink tasks."
)
"""Kafka's words for a group that still has members (`Worker#alterSinkConnectorOffsets`)."""


class ExternalActionFailed(Exception):
    """A system outside of the log refused.

    `answer` is the worker's answer, `cause` what a worker only logs; the message has both.
    """

    def __init__(self, answer: str, cause: str = "") -> None:
        super().__init__(f"{answer}: {cause}" if answer and cause else answer or cause)
        self.answer = answer or cause
        self.cause = cause if answer else ""


class ExternalActions(Protocol):
    """Systems outside of the log: consumer groups, producers, other workers."""

    async def perform(self, action: AnyAction) -> None:
        """Perform an action. If it was done before, nothing more happens.

        Raises:
            ExternalActionFailed: it cannot be done.
        """
        ...

    async def group_offsets(self, group: str, admin: AdminOverrides = UNSET) -> GroupOffsets:
        """Committed offsets of a consumer group; empty if there is no such group.

        `admin`: overrides of the connector, which may select another cluster.

        Raises:
            ExternalActionFailed: its offsets cannot be read.
        """
        ...


@runtime_checkable
class HasLogEnds(Protocol):
    """External systems that also know the ends of partitions, and so the lag of a group."""

    async def log_ends(
        self, partitions: Iterable[TopicPartition], admin: AdminOverrides = UNSET
    ) -> Mapping[TopicPartition, LogEnd]:
        """Ends of partitions, as far as they are known.

        Raises:
            ExternalActionFailed: no broker answers.
        """
        ...


async def sink_progress(
    name: str, config: Properties, context: Context, outside: ExternalActions
) -> GroupProgress:
    """Ask for the committed offsets of a sink's group, and for the ends of their partitions.

    Raises:
        ExternalActionFailed: the group cannot be asked. Missing ends are no failure.
    """
    group, admin = group_of(name, config, context), admin_overrides(config)
    offsets = await outside.group_offsets(group, admin)
    ends: Mapping[TopicPartition, LogEnd] = {}
    if isinstance(outside, HasLogEnds):
        ends = await outside.log_ends(
            [(topic, partition) for topic, partition, _ in offsets], admin
        )
    return group_progress(group, offsets, ends)


class Alone:
    """No Kafka and no other workers: no group to read, no producer or worker to reach."""

    async def perform(self, action: AnyAction) -> None:
        """Do nothing; setting the offsets of a group fails."""
        if isinstance(action, AlterGroup) and action.put:
            raise ExternalActionFailed(
                f"Failed to alter consumer group offsets for connector {action.connector}: this "
                "control plane has no Kafka cluster in which a sink could consume"
            )

    async def group_offsets(self, group: str, admin: AdminOverrides = UNSET) -> GroupOffsets:
        """Return no offsets: without a Kafka cluster no group has committed any."""
        del group, admin
        return ()
