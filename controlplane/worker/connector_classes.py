"""Connector classes that may run here."""

from collections.abc import Iterable, Mapping
from typing import Any

from controlplane.connect.errors import ConnectError
from controlplane.connect.sink import Sink, SinkConnector
from controlplane.connect.source import Source, SourceConnector
from controlplane.core.plugins import Plugin, Plugins
from controlplane.plugins import catalogued, described

AnyConnectorClass = type[Source | Sink | SourceConnector | SinkConnector]


class ConnectorClasses:
    """Classes by the names that configs use: module and class, or the name of a Java twin."""

    def __init__(
        self,
        classes: Iterable[AnyConnectorClass] = (),
        twins: Mapping[str, AnyConnectorClass] | None = None,
    ) -> None:
        self._classes: dict[str, AnyConnectorClass] = {
            class_name(connector): connector for connector in classes
        }
        self._twins = dict(twins or {})

    def named(self, name: str) -> AnyConnectorClass:
        """Return the class with this name.

        Raises:
            ConnectError: it cannot run here.
        """
        found = self._classes.get(name) or self._twins.get(name)
        if found is None:
            raise ConnectError(
                f"Failed to find any class that implements Connector and which name matches {name}"
            )
        return found

    def plugins(self) -> Plugins:
        """Return these classes as plugins of a control plane, beside Kafka's own."""
        return catalogued(more=self.described())

    def described(self) -> list[Plugin]:
        """Return a plugin for each class."""
        return [described(connector) for connector in self._classes.values()]


def class_name(connector: type) -> str:
    """Return the name by which configs call a class."""
    return f"{connector.__module__}.{connector.__qualname__}"


def connector_class(config: Mapping[str, Any]) -> str:
    """Return the class that a config names."""
    return str(config.get("connector.class") or "")
