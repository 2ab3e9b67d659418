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


def connector(view: ConnectorView, profile: Profile) -> dict[str, Any]:
    """A connector as `ConnectorInfo`: name, config, tasks, type if the release has it."""
    shown: dict[str, Any] = {"name": view.name, "config": view.config}
    shown["tasks"] = [{"connector": view.name, "task": task} for task in view.tasks]
    return shown | ({"type": view.type} if profile.rest_type else {})


def status(view: StatusView, profile: Profile) -> dict[str, Any]:
    """A status as `ConnectorStateInfo`: name, connector, tasks, type if the release has it."""
    shown: dict[str, Any] = {"name": view.name}
    shown["connector"] = report(view.connector, profile)
    shown["tasks"] = [{"id": task, **report(last, profile)} for task, last in view.tasks.items()]
    return shown | ({"type": view.type} if profile.rest_type else {})


def report(reported: Status, profile: Profile) -> dict[str, Any]:
    """A reported state as `AbstractState`; an empty trace is omitted."""
    shown: dict[str, Any] = {"state": reported.state.value, "worker_id": reported.worker_id}
    if profile.status_version:
        shown["version"] = reported.version
    return shown | ({"trace": reported.trace} if reported.trace else {})


def plugin(entry: Plugin, kind: str) -> dict[str, Any]:
    """A plugin as `PluginInfo`; an undefined version is omitted."""
    shown = {"class": entry.class_name, "type": kind}
    return shown | ({} if entry.version == UNDEFINED_VERSION else {"version": entry.version})


def key(info: KeyInfo, profile: Profile) -> dict[str, Any]:
    """A definition as `ConfigKeyInfo`; some releases have `order_in_group` instead of `order`."""
    shown: dict[str, Any] = msgspec.structs.asdict(info) | {"dependents": list(info.dependents)}
    if not profile.rest_order_in_group:
        return shown
    order = shown.pop("order")
    names = list(shown)
    before = names[: names.index("group") + 1]
    placed = {name: shown[name] for name in before} | {"order_in_group": order}
    return placed | shown  # a dict keeps the position of its keys


def validation(result: Validation, profile: Profile) -> dict[str, Any]:
    """A validated config as `ConfigInfos`: every key with its definition, value and errors."""
    return {
        "name": result.name,
        "error_count": result.error_count,
        "groups": list(result.groups),
        "configs": [_config(info, profile) for info in result.configs],
    }


def _config(info: ConfigInfo, profile: Profile) -> dict[str, Any]:
    """`ConfigInfo`: a key and its value."""
    value = info.value
    return {
        "definition": None if info.definition is None else key(info.definition, profile),
        "value": {
            "name": value.name,
            "value": value.value,
            "recommended_values": list(value.recommended_values),
            "errors": list(value.errors),
            "visible": value.visible,
        },
    }
