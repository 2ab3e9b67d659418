"""Settings of a control plane, from a worker's settings.

    settings = plane_settings_of_file(Path("connect-distributed.properties"), profile="3.9")
    async with ControlPlane.open("sqlite:///state.db", settings) as plane: ...

An embedding program has its own flags and environment, so `plane_settings_of_file` reads only the
file. `plane_settings` takes any configuration.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec

from controlplane.controller import CommandLimits
from controlplane.core.releases.profiles import KIP
from controlplane.plane import Partitions, Settings
from controlplane.projection.limits import FollowerLimits
from controlplane.projection.upkeep import UpkeepSettings
from controlplane.settings import Configuration, WorkerSettings
from controlplane.settings.prefixes import CONTROLLER, FOLLOWER, UPKEEP
from controlplane.settings.sources import file_values
from controlplane.settings.worker_settings import BROKERS_DEFAULT, decision_settings


def plane_settings_of_file(
    path: Path, variables: Mapping[str, str] = MappingProxyType({}), *, profile: str = KIP
) -> Settings:
    """Read the settings from a worker's `.properties` file; missing keys have their defaults.

    `variables`: values for `${env:…}` in the file. Unknown keys are ignored; `controlplane config
    --worker-properties FILE --all` lists them. `profile`: the release, which a worker's file does
    not contain.

    Raises:
        SettingsError: the file cannot be read, or a value in it is invalid.
    """
    return plane_settings(Configuration(file_values(path), variables=variables), profile=profile)


def plane_settings(
    configuration: Configuration, *, profile: str = KIP, on_kafka: bool = False
) -> Settings:
    """Build the settings of a control plane that follows this release.

    `on_kafka`: the log is in Kafka, so a partition count of -1 is the brokers' default.

    Raises:
        SettingsError: a value is invalid.
    """
    worker = configuration.settings(WorkerSettings)
    return Settings(
        profile=profile,
        worker=configuration.make(WorkerSettings, decision_settings),
        administered=worker.admin_listeners is None,
        topics=worker.topics,
        partitions=_partitions(worker, on_kafka=on_kafka),
        exactly_once=worker.exactly_once,
        limits=configuration.settings(CommandLimits, CONTROLLER),
        follower=configuration.settings(FollowerLimits, FOLLOWER),
        upkeep=configuration.settings(UpkeepSettings, UPKEEP),
        catalogue=worker.plugins_catalogue,
        trust_unknown_classes=worker.plugins_trust_unknown,
    )


def with_brokers(settings: Settings, bootstrap: str) -> Settings:
    """Return the settings with these brokers (`host:port,…`); an empty text changes nothing."""
    if not bootstrap:
        return settings
    worker = msgspec.structs.replace(settings.worker, bootstrap_servers=bootstrap)
    return msgspec.structs.replace(settings, worker=worker)


def _partitions(worker: WorkerSettings, *, on_kafka: bool) -> Partitions:
    """Return the partition counts of new topics; in an embedded log, -1 is Connect's default."""
    default = Partitions()
    offsets, status = worker.offset_storage_partitions, worker.status_storage_partitions
    if on_kafka:
        return Partitions(offsets=offsets, status=status)
    return Partitions(
        offsets=default.offsets if offsets == BROKERS_DEFAULT else offsets,
        status=default.status if status == BROKERS_DEFAULT else status,
    )
