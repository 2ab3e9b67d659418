"""What is told about a Connect cluster: the names of its topics, exactly-once support, brokers.

It comes from flags or from a worker's `.properties` file, of which only what a reader and a fold
need is looked at. The file is read as Java reads it: what a worker starts with is what is seen.
"""

from pathlib import Path
from typing import NamedTuple

import msgspec

from controlplane.properties import Properties, SettingsError, parse_properties, read_properties
from controlplane.security import KafkaSecurity, kafka_security

__all__ = [
    "KafkaSecurity",
    "SettingsError",
    "WorkerProperties",
    "WorkerSettings",
    "parse_properties",
    "read_worker_properties",
]


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a fold must know of a worker. The defaults are the names in Kafka's sample file."""

    config_topic: str = "connect-configs"
    offset_topic: str = "connect-offsets"
    status_topic: str = "connect-status"
    commands_topic: str = "connect-commands"
    group_id: str = "connect-cluster"
    exactly_once: bool = False
    """`exactly.once.source.support=enabled` (KIP-618): only committed records are read."""

    @property
    def topics(self) -> tuple[str, str, str]:
        """The three topics that are Connect's own: config, offset, status."""
        return (self.config_topic, self.offset_topic, self.status_topic)


class WorkerProperties(NamedTuple):
    """All that is taken out of a worker's file; `bootstrap` is None where the file has none."""

    settings: WorkerSettings
    bootstrap: str | None
    security: KafkaSecurity


_SUPPORT = ("DISABLED", "PREPARING", "ENABLED")


def read_worker_properties(path: Path) -> WorkerProperties:
    """Settings, brokers and security in a worker's, or any client's, `.properties` file.

    Relative paths in it are relative to the current directory, as for Java.

    Raises:
        SettingsError: the file cannot be read, or a setting in it cannot be used.
    """
    try:
        found = read_properties(path)
        return WorkerProperties(
            worker_settings(found), found.text("bootstrap.servers"), kafka_security(found)
        )
    except SettingsError as failure:
        raise SettingsError(f"{path}: {failure}") from None


def worker_settings(found: Properties) -> WorkerSettings:
    """The fold's part of a worker's properties; what is missing has its default."""
    usual = WorkerSettings()
    support = found.choice("exactly.once.source.support", _SUPPORT, "DISABLED")
    return WorkerSettings(
        config_topic=found.text("config.storage.topic") or usual.config_topic,
        offset_topic=found.text("offset.storage.topic") or usual.offset_topic,
        status_topic=found.text("status.storage.topic") or usual.status_topic,
        group_id=found.text("group.id") or usual.group_id,
        exactly_once=support == "ENABLED",
    )
