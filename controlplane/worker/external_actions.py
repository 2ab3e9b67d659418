"""External actions of a worker's control plane.

The worker itself restarts its connectors and tasks. The clients of its tasks execute the other
actions: they change consumer groups, fence producers, and write source offsets.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import UNSET

from controlplane.connect.errors import ConnectError
from controlplane.controller.external import ExternalActionFailed, remote_reader
from controlplane.core.entry import TopicPartition
from controlplane.core.plan import (
    AdminOverrides,
    AlterGroup,
    AnyAction,
    AskRemoteOffsets,
    DeleteGroup,
    FenceProducers,
    GroupOffsets,
    RestartInstances,
    WriteOffsets,
)
from controlplane.core.records import Properties
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import OffsetState
from controlplane.core.views.group_progress import LogEnd
from controlplane.worker.config_resolver import ConfigResolver, resolved_in_thread
from controlplane.worker.connector_classes import (
    ConnectorClasses,
)
from controlplane.worker.data_topics.clients import ClientActions

RestartCallback = Callable[[RestartInstances], Awaitable[None]]
"""Restarts a connector or tasks of this worker."""


class WorkerActions:
    """Performs external actions for the control plane of a worker (`ExternalActions`).

    An action may contain client settings of a connector. They may have references to config
    providers, such as `${file:…}`. This class replaces the references by their values first.
    """

    def __init__(
        self, clients: ClientActions, resolver: ConfigResolver, classes: ConnectorClasses
    ) -> None:
        self._clients = clients
        self._resolver = resolver
        self._classes = classes
        self.restart: RestartCallback | None = None
        """None until the worker runs."""

    async def perform(self, action: AnyAction) -> None:
        """Restart instances of this worker, or perform the action with the clients of tasks.

        Raises:
            ExternalActionFailed: the connector cannot be started, or the action fails.
        """
        if not isinstance(action, RestartInstances):
            with self._private():
                await self._clients.perform(await self._resolved_action(action))
        elif self.restart is not None:
            await self.restart(action)

    async def _resolved_action(self, action: AnyAction) -> AnyAction:
        """Return an action whose client settings have their references resolved."""
        if isinstance(action, WriteOffsets | FenceProducers) and action.clients is not UNSET:
            clients = await self._resolved(action.clients)
            action = msgspec.structs.replace(action, clients=clients)
        if isinstance(action, AlterGroup | DeleteGroup | FenceProducers):
            admin = await self._resolved_overrides(action.admin)
            action = msgspec.structs.replace(action, admin=admin)
        return action

    async def group_offsets(self, group: str, admin: AdminOverrides = UNSET) -> GroupOffsets:
        """Committed offsets of a consumer group."""
        with self._private():
            return await self._clients.group_offsets(group, await self._resolved_overrides(admin))

    @property
    def reads_remote(self) -> bool:
        """True if sources may have offsets on other clusters than the worker's."""
        return remote_reader(self._clients) is not None

    async def remote_offsets(self, question: AskRemoteOffsets, profile: Profile) -> OffsetState:
        """Offsets of a source on the cluster of its producer.

        Raises:
            ExternalActionFailed: they cannot be read.
        """
        reader = remote_reader(self._clients)
        assert reader is not None, "see `reads_remote`"
        with self._private():
            clients = await self._resolved(question.clients)
            resolved_question = msgspec.structs.replace(question, clients=clients)
            return await reader.remote_offsets(resolved_question, profile)

    async def log_ends(
        self, partitions: Iterable[TopicPartition], admin: AdminOverrides = UNSET
    ) -> Mapping[TopicPartition, LogEnd]:
        """End of each partition, or the reason why it is unknown."""
        with self._private():
            ends = await self._clients.log_ends(partitions, await self._resolved_overrides(admin))
        return {
            partition: end._replace(reason=self.excerpt(end.reason))
            for partition, end in ends.items()
        }

    # --- configs (`HasConfigValues`) ------------------------------------------------------------

    def resolved_config(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a connector's config with its references resolved; runs in the calling thread.

        Raises:
            ExternalActionFailed: a provider fails.
        """
        try:
            return self._resolver.resolved(config).config
        except ConnectError as failure:
            raise ExternalActionFailed("", str(failure)) from failure

    def excerpt(self, text: str) -> str:
        """Return a text without the values of config providers; omit the middle of a long text."""
        return self._resolver.excerpt(text)

    async def _resolved_overrides(self, admin: AdminOverrides) -> AdminOverrides:
        return UNSET if admin is UNSET else await self._resolved(admin)

    async def _resolved(self, settings: Properties) -> Properties:
        """Return client settings with their references resolved."""
        try:
            return {**await resolved_in_thread(self._resolver, settings)}
        except ConnectError as failure:
            raise ExternalActionFailed("", str(failure)) from failure

    @contextmanager
    def _private(self) -> Iterator[None]:
        """Hide the values of config providers in a failure: its text may quote client settings."""
        try:
            yield
        except ExternalActionFailed as failure:
            answer, cause = self.excerpt(failure.answer), self.excerpt(failure.cause)
            raise ExternalActionFailed(answer, cause) from None
