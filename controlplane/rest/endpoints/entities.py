"""JSON of the views, as Connect writes them (`org.apache.kafka.connect.runtime.rest.entities`)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from controlplane.core.plugins import Plugin
from controlplane.core.plugins.catalogue import UNDEFINED_VERSION
from controlplane.core.records import Status, Target
from controlplane.core.releases.profiles import Profile
from controlplane.core.validation.result import ConfigInfo, KeyInfo, Validation
from controlplane.core.views import ConnectorView, StatusView

TARGETS: Mapping[Target, str] = MappingProxyType(
    {Target.STARTED: "RUNNING", Target.PAUSED: "PAUSED", Target.STOPPED: "STOPPED"}
)
"""Names of the target states in a request's `initial_state` (KIP-980)."""


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
    """`AbstractState`: omits an empty trace."""
    shown: dict[str, Any] = {"state": reported.state.value, "worker_id": reported.worker_id}
    if profile.status_version:
        shown["version"] = reported.version
    return shown | ({"trace": reported.trace} if reported.trace else {})


def plugin(found: Plugin, kind: str) -> dict[str, Any]:
    """`PluginInfo`: omits an undefined version."""
    shown = {"class": found.class_name, "type": kind}
    return shown | ({} if found.version == UNDEFINED_VERSION else {"version": found.version})


def key(info: KeyInfo, profile: Profile) -> dict[str, Any]:
    """`ConfigKeyInfo`."""
    shown: dict[str, Any] = msgspec.structs.asdict(info) | {"dependents": list(info.dependents)}
    if not profile.rest_order_in_group:
        return shown
    order = shown.pop("order")
    names = list(shown)
    before = names[: names.index("group") + 1]
    placed = {name: shown[name] for name in before} | {"order_in_group": order}
    return placed | shown  # a dict keeps the position of its keys


def validation(found: Validation, profile: Profile) -> dict[str, Any]:
    """`ConfigInfos`."""
    return {
        "name": found.name,
        "error_count": found.error_count,
        "groups": list(found.groups),
        "configs": [_config(one, profile) for one in found.configs],
    }


def _config(one: ConfigInfo, profile: Profile) -> dict[str, Any]:
    """`ConfigInfo`: a key and its value."""
    value = one.value
    return {
        "definition": None if one.definition is None else key(one.definition, profile),
        "value": {
            "name": value.name,
            "value": value.value,
            "recommended_values": list(value.recommended_values),
            "errors": list(value.errors),
            "visible": value.visible,
        },
    }
