"""Settings of the topics that a worker creates, from its properties file (KIP-605)."""

from collections.abc import Mapping

import msgspec

from controlplane.logs.kafka.log import TopicDefaults
from controlplane.settings import Configuration, WorkerSettings

_STORES = {"config": "config.storage.", "offsets": "offset.storage.", "status": "status.storage."}
"""Prefix of the settings for each topic, by the field of `Topics`."""

_COMMANDS = "command.storage."
"""Prefix of the settings that concern the command topic alone."""

_MIN_LAG = "min.compaction.lag.ms"
"""Time in which the brokers may not compact a record."""

COMMANDS_KEPT_MS = 30 * 24 * 60 * 60 * 1_000
"""Time in which a new command topic keeps both records of a command: its acceptance and its end.

They have the same key, so compaction removes the first one. After that, the command is missing in
`GET /commands`, and its idempotency key is forgotten at the next start. An embedded log keeps them
for the same time (`RetentionSettings.commands_ms`)."""

_NO_TOPIC_CONFIGS = ("topic", "partitions", "replication.factor", "file.filename")
"""Settings that are no configs of the topic, without their prefix (`_STORES`, `_COMMANDS`).

Other settings with such a prefix are configs of the topic: `config.storage.retention.ms`."""


def new_topic_defaults(configuration: Configuration) -> dict[str, TopicDefaults]:
    """Return the settings of new topics, by topic.

    The command topic gets the config topic's settings, then those of `command.storage.*`. It keeps
    records for `COMMANDS_KEPT_MS`, unless a setting has another time, or the brokers refuse it.

    Raises:
        SettingsError: a setting is invalid.
    """
    worker = configuration.settings(WorkerSettings)
    replicas = {
        "config": worker.config_storage_replication_factor,
        "offsets": worker.offset_storage_replication_factor,
        "status": worker.status_storage_replication_factor,
    }
    defaults = {
        getattr(worker.topics, role): TopicDefaults(
            replication_factor=replicas[role], configs=_configs(configuration, prefix)
        )
        for role, prefix in _STORES.items()
    }
    of_config = defaults[worker.topics.config]
    commands = msgspec.structs.replace(
        of_config,
        configs={**of_config.configs, **_configs(configuration, _COMMANDS)},
        optional={_MIN_LAG: str(COMMANDS_KEPT_MS)},
    )
    return defaults | {worker.topics.commands: commands}


def _configs(configuration: Configuration, prefix: str) -> Mapping[str, str]:
    """Return the topic configs among the worker's settings with this prefix."""
    configs = {
        key.removeprefix(prefix): value.text
        for key, value in configuration.values.items()
        if key.startswith(prefix)
    }
    return {key: text for key, text in configs.items() if key not in _NO_TOPIC_CONFIGS}
