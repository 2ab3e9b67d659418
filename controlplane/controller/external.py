"""Actions of a plan outside of the logs, and the group offsets that a decision reads.

On Kafka, the admin client performs them on consumer groups and transactional producers. An embedded
control plane has no Kafka cluster and no workers other than its own.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import UNSET

from controlplane.core.context import Context
from controlplane.core.decide.sink_offsets import admin_overrides, group_of
from controlplane.core.decide.source_offsets import missing_remote
from controlplane.core.entry import TopicPartition
from controlplane.core.plan import (
    AdminOverrides,
    AlterGroup,
    AnyAction,
    AskRemoteOffsets,
    GroupOffsets,
    WriteOffsets,
)
from controlplane.core.records import Properties
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, OffsetState
from controlplane.core.text.override_refusal import override_refusal
from controlplane.core.topics.remote_offsets import with_remote
from controlplane.core.validation.override_policy import SINK_OFFSET_CLIENTS
from controlplane.core.views.group_progress import GroupProgress, LogEnd, group_progress

STILL_ACTIVE = (
    "Failed to {verb} consumer group offsets for connector {connector} either because its tasks "
    "haven't stopped completely yet or the connector was resumed before the request to {verb} its "
    "offsets could be successfully completed. If the connector is in a stopped state, this "
    "operation can be safely retried. If it doesn't eventually succeed, the Connect cluster may "
    "need to be restarted to get rid of the zombie sink tasks."
)
"""Kafka's message for a group that still has members (`Worker#alterSinkConnectorOffsets`)."""


class ExternalActionFailed(Exception):
    """A system outside of the log refused an action or a read.

    `answer`: the text that a worker answers. `cause`: the text that it only logs. The message has
    both.
    """

    def __init__(self, answer: str, cause: str = "") -> None:
        super().__init__(f"{answer}: {cause}" if answer and cause else answer or cause)
        self.answer = answer or cause
        self.cause = cause if answer else ""


class OverridesForbidden(ExternalActionFailed):
    """The worker's policy forbids client settings of a connector. Its answer is Kafka's message."""


class HasGroups(Protocol):
    """Reader of consumer groups."""

    async def group_offsets(self, group: str, admin: AdminOverrides = UNSET) -> GroupOffsets:
        """Committed offsets of a consumer group; empty if there is no such group.

        `admin`: overrides of the connector, which may select another cluster.

        Raises:
            ExternalActionFailed: its offsets cannot be read.
        """
        ...


class ExternalActions(HasGroups, Protocol):
    """Systems outside of Connect's topics: consumer groups, producers, other workers."""

    async def perform(self, action: AnyAction) -> None:
        """Perform an action; repeating it has no further effect.

        Raises:
            ExternalActionFailed: the action is refused, or the system cannot be reached.
        """
        ...


@runtime_checkable
class HasLogEnds(Protocol):
    """External actions that also read the ends of partitions, from which a group's lag follows."""

    async def log_ends(
        self, partitions: Iterable[TopicPartition], admin: AdminOverrides = UNSET
    ) -> Mapping[TopicPartition, LogEnd]:
        """End of each partition, or the reason why it is unknown.

        Partitions that do not exist may be left out.

        Raises:
            ExternalActionFailed: no broker answers.
        """
        ...


@runtime_checkable
class HasRemoteOffsets(Protocol):
    """External actions that also read offsets of sources on the cluster of their producer."""

    @property
    def reads_remote(self) -> bool:
        """False: no other cluster is read; only the offsets in the log are known."""
        ...

    async def remote_offsets(self, question: AskRemoteOffsets, profile: Profile) -> OffsetState:
        """Offsets in the topic; empty if there is no such topic.

        Raises:
            ExternalActionFailed: they cannot be read.
        """
        ...


@runtime_checkable
class HasConfigValues(Protocol):
    """External actions that also know the values of config providers (KIP-297).

    Both methods are called in the thread of a connector's hook.
    """

    def resolved_config(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a connector's config with its references resolved.

        Raises:
            ExternalActionFailed: a provider fails.
        """
        ...

    def excerpt(self, text: str) -> str:
        """Return a text without the values of config providers; omit the middle of a long text."""
        ...


def remote_reader(outside: ExternalActions) -> HasRemoteOffsets | None:
    """Return the reader of offsets on other clusters; None: they are not read."""
    return outside if isinstance(outside, HasRemoteOffsets) and outside.reads_remote else None


def known_policy(context: Context) -> Context:
    """Return the context for reads of a sink's offsets; an unset override policy becomes All.

    The release's default may be stricter than the policy of the workers that run the sink.
    """
    if context.worker.override_policy is not None:
        return context
    worker = msgspec.structs.replace(context.worker, override_policy="All")
    return msgspec.structs.replace(context, worker=worker)


async def sink_offsets(
    state: ClusterState, name: str, context: Context, outside: HasGroups
) -> GroupOffsets:
    """Read the committed offsets of a sink's group.

    Raises:
        OverridesForbidden: the worker's policy forbids the connector's client settings.
        ExternalActionFailed: the offsets cannot be read.
    """
    config = _config(state, name)
    forbidden = override_refusal(config, SINK_OFFSET_CLIENTS, context)
    if forbidden is not None:
        raise OverridesForbidden(forbidden)
    return await outside.group_offsets(group_of(name, config, context), admin_overrides(config))


async def with_remote_offsets(
    state: ClusterState, name: str, context: Context, outside: ExternalActions
) -> ClusterState:
    """Return the state with a source's offsets on the cluster of its producer.

    The state is unchanged if they are on the worker's cluster, or if nothing can read them.

    Raises:
        ExternalActionFailed: the offsets cannot be read.
    """
    config = state.config.connectors.get(name)
    question = config and missing_remote(state, name, config, context)
    reader = remote_reader(outside)
    if not question or reader is None:
        return state
    offsets = await reader.remote_offsets(question, state.profile)
    return with_remote(state, question.topic, offsets)


async def sink_progress(
    state: ClusterState, name: str, context: Context, outside: HasGroups
) -> GroupProgress:
    """Read the committed offsets of a sink's group, and the ends of their partitions.

    Raises:
        OverridesForbidden: the worker's policy forbids the connector's client settings.
        ExternalActionFailed: the offsets cannot be read. Missing ends are no failure.
    """
    offsets = await sink_offsets(state, name, context, outside)
    config = _config(state, name)
    group, admin = group_of(name, config, context), admin_overrides(config)
    ends: Mapping[TopicPartition, LogEnd] = {}
    if isinstance(outside, HasLogEnds):
        ends = await outside.log_ends(
            [(topic, partition) for topic, partition, _ in offsets], admin
        )
    return group_progress(group, offsets, ends)


def _config(state: ClusterState, connector: str) -> Properties:
    """Return the config of a connector; empty if there is no such connector."""
    return state.config.connectors.get(connector, {})


class NoExternalSystems:
    """External actions without a Kafka cluster and without other workers (`ExternalActions`)."""

    async def perform(self, action: AnyAction) -> None:
        """Do nothing.

        Raises:
            ExternalActionFailed: the action sets offsets of a group, or writes a source's offsets
                to a Kafka cluster.
        """
        if isinstance(action, WriteOffsets):
            raise ExternalActionFailed(
                f"Failed to write the offsets of connector {action.connector}: this control plane "
                "has no Kafka cluster"
            )
        # A removal succeeds, because there are no offsets.
        if isinstance(action, AlterGroup) and action.put:
            raise ExternalActionFailed(
                f"Failed to alter consumer group offsets for connector {action.connector}: this "
                "control plane has no Kafka cluster"
            )

    async def group_offsets(self, group: str, admin: AdminOverrides = UNSET) -> GroupOffsets:
        """Return no offsets, even if a worker of an embedded log has stored some in the log."""
        del group, admin
        return ()
