"""Environment of actors: what all connectors of a worker share."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from controlplane.core.commands import PublishTasks
from controlplane.core.plan import Outcome, Rejected
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState
from controlplane.notices import Notices
from controlplane.worker.drivers.connector_drivers import ConnectorDriver, ConnectorRequests
from controlplane.worker.lifecycle.assignment import Assignment
from controlplane.worker.lifecycle.config_reloads import ConfigReloads
from controlplane.worker.lifecycle.statuses import StatusWriter
from controlplane.worker.lifecycle.task_instance import TaskInstance
from controlplane.worker.metrics.startups import WorkerStartups
from controlplane.worker.settings import RuntimeSettings


class Factory(Protocol):
    """Makes the parts of connectors and tasks from their configs."""

    def connector(
        self, name: str, config: Mapping[str, Any], requests: ConnectorRequests
    ) -> ConnectorDriver:
        """Return the driver of a connector; it resolves the references in the config itself.

        Raises:
            ConnectError: its class cannot be used.
        """
        ...

    def version(self, config: Mapping[str, Any]) -> str | None:
        """Return the version of a connector's class for its statuses; None: it has none."""
        ...

    def published_configs(
        self, config: Mapping[str, Any], configs: Sequence[Mapping[str, str | None]]
    ) -> Sequence[Mapping[str, str | None]]:
        """Return task configs as they are stored.

        They have the task's class, a sink's topics, and references instead of resolved values.
        """
        ...

    async def prepare_tasks(self, name: str, config: Mapping[str, Any]) -> None:
        """Make ready for a new set of tasks. With exactly-once support, fence older tasks first.

        Raises:
            ConnectError: older tasks cannot be fenced, or a config provider fails.
            LogError: the log cannot be read.
        """
        ...

    async def resolved(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return settings of a connector with their references resolved.

        Raises:
            ConnectError: a provider fails.
        """
        ...

    def forget(self, name: str) -> None:
        """Drop what is kept for a deleted connector."""
        ...

    async def task(
        self, name: str, number: int, assignment: Assignment, *, paused: bool
    ) -> TaskInstance:
        """Begin a task.

        Raises:
            Exception: it cannot be made.
        """
        ...


class ActorEnvironment(NamedTuple):
    """Environment that all actors of a worker share."""

    factory: Factory
    statuses: StatusWriter
    state: Callable[[], ClusterState]
    publish: Callable[[PublishTasks], Awaitable[Outcome | Rejected]]
    settings: RuntimeSettings
    notices: Notices
    profile: Profile
    startups: WorkerStartups
    reloads: ConfigReloads
