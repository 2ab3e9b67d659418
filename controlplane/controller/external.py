"""Actions of a plan outside of the logs, and questions of a decision.

On Kafka that is the admin client: consumer groups of sinks, transactional producers. An embedded
control plane has no Kafka behind it, and no workers but its own.
"""

from typing import Protocol

from controlplane.core.plan import AlterGroup, AnyAction, GroupOffsets


class ExternalActionFailed(Exception):
    """Something outside refused. The message is what a worker answers then."""


class ExternalActions(Protocol):
    """The world beyond the logs."""

    async def perform(self, action: AnyAction) -> None:
        """Do it. It may have been done before; then nothing more happens.

        Raises:
            ExternalActionFailed: it cannot be done.
        """
        ...

    async def group_offsets(self, group: str) -> GroupOffsets:
        """Committed offsets of a consumer group; empty if there is no such group.

        Raises:
            ExternalActionFailed: it cannot be asked.
        """
        ...


class Alone:
    """No Kafka, no other workers: there are no groups, and nobody to be fenced or restarted."""

    async def perform(self, action: AnyAction) -> None:
        """Nothing is there, so all but setting a group's offsets is done already."""
        if isinstance(action, AlterGroup) and action.put:
            raise ExternalActionFailed(
                f"Failed to alter consumer group offsets for connector {action.connector}: this "
                "control plane has no Kafka cluster in which a sink could consume"
            )

    async def group_offsets(self, group: str) -> GroupOffsets:
        """No group has committed anything."""
        del group
        return ()
