"""What a control plane is told, as a worker is told its settings.

    settings = told_to_plane(Path("connect-distributed.properties"), profile="3.9")
    async with ControlPlane.open("sqlite:///state.db", settings) as plane: ...

A program that embeds a plane has flags of its own, and so is its environment: there the file alone
is asked. `plane_settings` takes whatever was told, by whomever.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from controlplane.controller import Limits
from controlplane.core.profiles import KIP
from controlplane.follower import Limits as FollowerLimits
from controlplane.plane import Partitions, Settings
from controlplane.settings import Configuration, WorkerSettings
from controlplane.settings.parts import CONTROLLER, FOLLOWER, UPKEEP
from controlplane.settings.sources import told_by_file
from controlplane.settings.worker import BROKERS_DEFAULT, deciding
from controlplane.upkeep import UpkeepSettings


def told_to_plane(
    path: Path, variables: Mapping[str, str] = MappingProxyType({}), *, profile: str = KIP
) -> Settings:
    """The settings in a worker's `.properties` file; what it leaves out has its default.

    `variables` are those that `${env:…}` in the file may ask for. Keys that mean nothing are
    passed over; `controlplane config --worker-properties FILE --all` shows them. No worker tells
    its release, so it is told here.

    Raises:
        SettingsError: the file cannot be read, or a value in it cannot be used.
    """
    return plane_settings(Configuration(told_by_file(path), variables=variables), profile=profile)


def plane_settings(configuration: Configuration, *, profile: str = KIP) -> Settings:
    """The settings of a control plane that reads and writes as this release.

    Raises:
        SettingsError: a value cannot be used.
    """
    worker = configuration.settings(WorkerSettings)
    return Settings(
        profile=profile,
        worker=configuration.make(WorkerSettings, deciding),
        administered=worker.admin_listeners is None,
        topics=worker.topics,
        partitions=_partitions(worker),
        exactly_once=worker.exactly_once,
        limits=configuration.settings(Limits, CONTROLLER),
        follower=configuration.settings(FollowerLimits, FOLLOWER),
        upkeep=configuration.settings(UpkeepSettings, UPKEEP),
        catalogue=worker.plugins_catalogue,
        trust_unknown_classes=worker.plugins_trust_unknown,
    )


def _partitions(worker: WorkerSettings) -> Partitions:
    """With how many partitions topics are made. There is no broker whose default could count."""
    usual = Partitions()
    offsets, status = worker.offset_storage_partitions, worker.status_storage_partitions
    return Partitions(
        offsets=usual.offsets if offsets == BROKERS_DEFAULT else offsets,
        status=usual.status if status == BROKERS_DEFAULT else status,
    )
