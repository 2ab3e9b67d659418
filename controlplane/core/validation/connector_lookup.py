"""Finds the connector of a config, or the worker's error if there is none.

Kafka: `isolation.Plugins#connectorClass`.
"""

from collections.abc import Iterable

from controlplane.core.java.json_values import value_text
from controlplane.core.plugins import CONNECTORS, Plugin
from controlplane.core.validation.result import BAD_REQUEST, CONNECT, ValidationFailure
from controlplane.core.validation.subject import ValidationSubject

_CLASS = "connector.class"
ABSTRACT = frozenset(
    f"org.apache.kafka.connect.{name}"
    for name in ("connector.Connector", "source.SourceConnector", "sink.SinkConnector")
)
"""Kafka's abstract connectors, which cannot be instantiated."""


def find_connector(subject: ValidationSubject) -> Plugin | ValidationFailure:
    """The connector of a config, or the worker's failure.

    A class that is taken on trust is a connector of the type `unknown`.
    """
    name = subject.config.get(_CLASS)
    if name is None:
        error = f"Connector config {value_text(dict(subject.config))} contains no connector type"
        return ValidationFailure(BAD_REQUEST, error)
    if not isinstance(name, str):  # Only a writer that is no worker can write such a config.
        return _missing(subject, f"The {_CLASS} {value_text(name)} is no text")
    if name in ABSTRACT or subject.path.class_named(name).defect is not None:
        return _missing(subject, "Instantiation error")
    plugins = subject.path.connector(name)
    if isinstance(plugins, Plugin):
        return plugins
    if subject.path.trusting:
        return Plugin(class_name=name)
    available = _plugin_descriptions(subject.path.of_kind(*CONNECTORS))
    if plugins:
        return _missing(
            subject,
            f"More than one connector matches alias {name}. Please use full package and class "
            f"name instead. Classes found: {available}",
        )
    return _missing(
        subject,
        f"Failed to find any class that implements Connector and which name matches {name}, "
        f"available connectors are: {available}",
    )


def _missing(subject: ValidationSubject, text: str) -> ValidationFailure:
    """Failure of the lookup, as the release classes it."""
    is_client_error = subject.profile.missing_class_is_client_error
    return ValidationFailure(BAD_REQUEST if is_client_error else CONNECT, text)


def _plugin_descriptions(plugins: Iterable[Plugin]) -> str:
    """Connectors as `PluginDesc.toString` formats them."""
    return ", ".join(
        f"PluginDesc{{klass=class {plugin.class_name}, name='{plugin.class_name}', "
        f"version='{plugin.version}', encodedVersion={plugin.version}, type={plugin.type}, "
        f"typeName='{plugin.type}', location='{plugin.location}'}}"
        for plugin in plugins
    )
