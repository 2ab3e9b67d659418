"""What a worker's file tells a control plane that is part of another program.

    settings = Settings(**told_to_plane(Path("connect-distributed.properties")), profile="3.9")

Such a program has no flags, and its environment is its own: the file alone is asked.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypedDict

from controlplane.core.context import Worker
from controlplane.core.state import Topics
from controlplane.settings.configuration import Configuration
from controlplane.settings.sources import told_by_file
from controlplane.settings.worker import WorkerSettings, deciding


class ToldToPlane(TypedDict):
    """Fields of `plane.Settings`. The others are no worker's: release, limits, upkeep."""

    worker: Worker
    topics: Topics
    exactly_once: bool


def told_to_plane(path: Path, variables: Mapping[str, str] = MappingProxyType({})) -> ToldToPlane:
    """What decides, of a worker's `.properties` file; what it leaves out is Kafka's default.

    `variables` are those that `${env:…}` in the file may ask for. Keys that mean nothing are
    passed over; `controlplane config --worker FILE --all` shows them.

    Raises:
        SettingsError: the file cannot be read, or a value in it cannot be used.
    """
    configuration = Configuration(told_by_file(path), variables=variables)
    settings = configuration.settings(WorkerSettings)
    return ToldToPlane(
        worker=configuration.make(WorkerSettings, deciding),
        topics=settings.topics,
        exactly_once=settings.exactly_once,
    )
