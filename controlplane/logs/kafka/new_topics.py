"""Settings of the topics that a worker creates, from its properties file (KIP-605)."""

from collections.abc import Mapping

from controlplane.logs.kafka.log import TopicDefaults
from controlplane.settings import Configuration, WorkerSettings

_STORES = {"config": "config.storage.", "offsets": "offset.storage.", "status": "status.storage."}
"""Prefix of the settings for each topic, by the field of `Topics`."""

_NO_TOPIC_CONFIGS = ("topic", "partitions", "replication.factor", "file.filename")
"""Settings with such a prefix that are not configs of the topic (the prefix left out)."""


def new_topic_defaults(configuration: Configuration) -> dict[str, TopicDefaults]:
    """Return the settings of new topics, by topic; the command topic gets the config topic's.

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
    return defaults | {worker.topics.commands: defaults[worker.topics.config]}


def _configs(configuration: Configuration, prefix: str) -> Mapping[str, str]:
    """Return the topic configs among the worker's settings with this prefix."""
    configs = {
        key.removeprefix(prefix): value.text
        for key, value in configuration.values.items()
        if key.startswith(prefix)
    }
    return {key: text for key, text in configs.items() if key not in _NO_TOPIC_CONFIGS}
