"""Identity of a task, and the services that source and sink tasks have in common."""

from typing import NamedTuple

from controlplane.connect.source import ResolvedConfig


class TaskIdentity(NamedTuple):
    """Connector and number of a task."""

    connector: str
    number: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.number}"


class TaskServices:
    """Identity and config of a running task, for its author."""

    def __init__(self, identity: TaskIdentity, config: ResolvedConfig) -> None:
        self._identity = identity
        self._config = config

    @property
    def connector(self) -> str:
        """Name of the connector, as in the REST API."""
        return self._identity.connector

    @property
    def number(self) -> int:
        """Number of the task, from 0."""
        return self._identity.number

    @property
    def config(self) -> ResolvedConfig:
        """A copy of the task's config."""
        return dict(self._config)
