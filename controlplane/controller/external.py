"""Actions of a plan outside of the logs, and questions of a decision.

On Kafka that is the admin client: consumer groups of sinks, transactional producers. An embedded
control plane has no Kafka behind it, and no workers but its own.
"""

from typing import Protocol

from msgspec import UNSET

from controlplane.core.plan import AdminOverrides, AlterGroup, AnyAction, GroupOffsets


class ExternalActionFailed(Exception):
    """A system outside of the log refused. The message is the worker's answer."""


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
        """No group has committed anything."""
        del group, admin
        return ()
