"""Settings in the environment, in every spelling that container images use for a worker.

- `CONTROLPLANE_GROUP_ID`: this project's own.
- `CONNECT_GROUP_ID`: Confluent's images, and images with the same convention. `_` is a dot, `__` an
  underscore, `___` a dash.
- `GROUP_ID`: Debezium's image has names without a prefix for some keys. These variables win over
  `CONNECT_` variables.
- `KAFKA_CONNECT_CONFIGURATION`: older images of Strimzi hold a whole file in it; later ones mount
  the file.
"""

import re
from collections.abc import Mapping

from controlplane.settings.sources import (
    OURS,
    SourcedValue,
    SourceValues,
    ValueSource,
    variable_values,
)

WORKER_FILE = "CONTROLPLANE_WORKER_PROPERTIES"
"""Variable with the path of a worker's file; the flag `--worker-properties` wins over it."""

_NOT_SETTINGS = {
    WORKER_FILE,
    *(
        f"CONTROLPLANE_{name}"
        for name in ("DEBUG", "FILE_MODE", "CLUSTER", "USER", "TOKEN", "CA_FILE")
    ),
}
"""Variables of the command line itself, which are no settings of a worker."""

_CONNECT = "CONNECT_"
_LOGGING = "CONNECT_LOG4J_"
"""Prefix of variables that images turn into log4j configuration."""

_DEBEZIUM = {
    "BOOTSTRAP_SERVERS": "bootstrap.servers",
    "GROUP_ID": "group.id",
    "CONFIG_STORAGE_TOPIC": "config.storage.topic",
    "OFFSET_STORAGE_TOPIC": "offset.storage.topic",
    "STATUS_STORAGE_TOPIC": "status.storage.topic",
    "KEY_CONVERTER": "key.converter",
    "VALUE_CONVERTER": "value.converter",
    "OFFSET_FLUSH_INTERVAL_MS": "offset.flush.interval.ms",
    "OFFSET_FLUSH_TIMEOUT_MS": "offset.flush.timeout.ms",
    "SHUTDOWN_TIMEOUT": "task.shutdown.graceful.timeout.ms",
    "REST_HOST_NAME": "rest.host.name",
    "REST_PORT": "rest.port",
    "ADVERTISED_HOST_NAME": "rest.advertised.host.name",
    "ADVERTISED_PORT": "rest.advertised.port",
}
_DEBEZIUM_NEEDS = ("CONFIG_STORAGE_TOPIC", "OFFSET_STORAGE_TOPIC")
"""Variables without which Debezium's image does not start. Without them, `GROUP_ID` has another
meaning."""

_STRIMZI = {
    "KAFKA_CONNECT_BOOTSTRAP_SERVERS": "bootstrap.servers",
    "KAFKA_CONNECT_PLUGIN_PATH": "plugin.path",
}
_STRIMZI_FILE = "KAFKA_CONNECT_CONFIGURATION"

_UNDERSCORES = re.compile("_{1,3}")
_BY_UNDERSCORES = (".", "_", "-")


def environment_values(variables: Mapping[str, str]) -> list[SourceValues]:
    """Return the values of the environment: one mapping per spelling, the strongest first.

    Raises:
        SettingsError: the text of a file in a variable is malformed.
    """
    return [
        _prefixed(variables, OURS),
        _debezium(variables),
        _values_by_key(variables, _STRIMZI),
        variable_values(_STRIMZI_FILE, variables.get(_STRIMZI_FILE, "")),
        _prefixed(variables, _CONNECT),
    ]


def key_of(name: str) -> str:
    """Return the key of a variable's suffix: `GROUP_ID` is `group.id`."""
    return _UNDERSCORES.sub(lambda run: _BY_UNDERSCORES[len(run.group()) - 1], name.lower())


def _prefixed(variables: Mapping[str, str], prefix: str) -> SourceValues:
    names = [name for name in variables if name.startswith(prefix)]
    keys = {
        name: key_of(name.removeprefix(prefix))
        for name in names
        if name not in _NOT_SETTINGS and not name.startswith(_LOGGING)
    }
    return _values_by_key(variables, keys)


def _debezium(variables: Mapping[str, str]) -> SourceValues:
    if not all(variables.get(name) for name in _DEBEZIUM_NEEDS):
        return {}
    return _values_by_key(variables, _DEBEZIUM)


def _values_by_key(variables: Mapping[str, str], keys: Mapping[str, str]) -> SourceValues:
    return {
        key: SourcedValue(variables[name], ValueSource("environment", name))
        for name, key in keys.items()
        if name in variables
    }
