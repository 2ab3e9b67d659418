"""Connector classes that may run here."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from controlplane.connect.errors import ConnectError
from controlplane.connect.sink import Sink, SinkConnector
from controlplane.connect.source import Source, SourceConnector
from controlplane.connect.transforms import (
    PREDICATES,
    TRANSFORMATIONS,
    Predicate,
    Transformation,
)
from controlplane.core.plugins import Plugins
from controlplane.plugins import described, kafkas_own

AnyConnectorClass = type[Source | Sink | SourceConnector | SinkConnector]


class ConnectorClasses:
    """Classes by the names that configs use: module and class, or the name of a Java class.

    A twin is a Python class that replaces a Java class, under the name of that class.
    """

    def __init__(
        self,
        classes: Iterable[AnyConnectorClass] = (),
        named: Mapping[str, AnyConnectorClass] | None = None,
        others: Iterable[type[Transformation | Predicate]] = (),
    ) -> None:
        others = [*others]
        self._transformations = dict(TRANSFORMATIONS) | {
            class_name(other): other for other in others if issubclass(other, Transformation)
        }
        self._predicates = dict(PREDICATES) | {
            class_name(other): other for other in others if issubclass(other, Predicate)
        }
        self._classes: dict[str, AnyConnectorClass] = dict(named or {})
        self._classes |= {class_name(connector): connector for connector in classes}

    @property
    def is_empty(self) -> bool:
        """True without any connector: nothing can run."""
        return not self._classes

    def named(self, name: str) -> AnyConnectorClass:
        """Return the class with this name.

        Raises:
            ConnectError: no class of this name can run here.
        """
        connector = self._classes.get(name) or self._by_alias(name)
        if connector is None:
            raise ConnectError(
                f"Failed to find any class that implements Connector and which name matches {name}"
            )
        return connector

    def transformation(self, name: str) -> type[Transformation]:
        """Return the transformation with this name or simple name.

        Raises:
            ConnectError: no class of this name can run here.
        """
        return _named(name, self._transformations, "transformation")

    def predicate(self, name: str) -> type[Predicate]:
        """Return the predicate with this name or simple name.

        Raises:
            ConnectError: no class of this name can run here.
        """
        return _named(name, self._predicates, "predicate")

    def _by_alias(self, name: str) -> AnyConnectorClass | None:
        """Return the only class with this simple name, with or without `Connector` at its end."""
        fitting = [
            connector
            for full_name, connector in self._classes.items()
            if full_name.rpartition(".")[2] in {name, f"{name}Connector"}
        ]
        return fitting[0] if len(fitting) == 1 else None

    def plugins(self) -> Plugins:
        """Return these classes as the connectors of a worker, with Kafka's other plugins.

        A twin of one of Kafka's connectors is listed with Kafka's definition. It is listed for
        every release, even if Kafka has moved the original to another jar.
        """
        own = kafkas_own()
        of_kafka = {
            plugin.class_name: msgspec.structs.replace(plugin, until=None) for plugin in own.plugins
        }
        listed = [
            of_kafka[name] if name in of_kafka else described(connector)
            for name, connector in self._classes.items()
        ]
        ours = {**self._transformations, **self._predicates}
        listed += [described(other) for name, other in ours.items() if name not in of_kafka]
        return Plugins(listed, own, running_here=True)


_AnyPlugin = TypeVar("_AnyPlugin")


def _named(name: str, classes: Mapping[str, _AnyPlugin], kind: str) -> _AnyPlugin:
    """Return the class with this name or simple name.

    Raises:
        ConnectError: there is none.
    """
    for full_name, plugin in classes.items():
        if name in {full_name, full_name.rpartition(".")[2]}:
            return plugin
    raise ConnectError(
        f"The {kind} {name} cannot run here: plugin.path must name a Python module with it"
    )


def class_name(connector: type) -> str:
    """Return the name by which configs call a class; a twin has the name of its Java class."""
    java_name: str | None = getattr(connector, "java_name", None)
    if java_name is not None:
        return java_name
    return f"{connector.__module__}.{connector.__qualname__}"


def connector_class(config: Mapping[str, Any]) -> str:
    """Return the class that a config names."""
    return str(config.get("connector.class") or "")
