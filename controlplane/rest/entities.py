"""Views as Connect spells them on the wire (`org.apache.kafka.connect.runtime.rest.entities`)."""

from typing import Any

from controlplane.core.profiles import Profile
from controlplane.core.records import Status
from controlplane.core.views import ConnectorView, StatusView


def connector(found: ConnectorView, profile: Profile) -> dict[str, Any]:
    """`ConnectorInfo`."""
    shown: dict[str, Any] = {"name": found.name, "config": found.config}
    shown["tasks"] = [{"connector": found.name, "task": task} for task in found.tasks]
    return shown | ({"type": found.type} if profile.rest_type else {})


def status(found: StatusView, profile: Profile) -> dict[str, Any]:
    """`ConnectorStateInfo`."""
    shown: dict[str, Any] = {"name": found.name}
    shown["connector"] = report(found.connector, profile)
    shown["tasks"] = [{"id": task, **report(one, profile)} for task, one in found.tasks.items()]
    return shown | ({"type": found.type} if profile.rest_type else {})


def report(reported: Status, profile: Profile) -> dict[str, Any]:
    """`AbstractState`: without a trace where there is none."""
    shown: dict[str, Any] = {"state": reported.state.value, "worker_id": reported.worker_id}
    if profile.status_version:
        shown["version"] = reported.version
    return shown | ({"trace": reported.trace} if reported.trace else {})
