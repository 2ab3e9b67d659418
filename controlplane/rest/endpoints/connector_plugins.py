"""Plugins and validation of configs: `/connector-plugins` (KIP-26, KIP-769).

Kafka: `ConnectorPluginsResource`, `AbstractHerder#connectorPluginConfig`.
"""

import re
from collections.abc import Iterator
from typing import Any

from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.context import Context
from controlplane.core.plugins import CONNECTORS, ClassPath, Plugin
from controlplane.core.plugins.class_names import simple_name
from controlplane.core.releases.profiles import Profile
from controlplane.core.validation import ValidationFailure
from controlplane.core.validation import validate as validated
from controlplane.core.validation.connector_lookup import ABSTRACT
from controlplane.core.validation.plugin_versions import version_default
from controlplane.core.validation.result import BAD_REQUEST, key_info
from controlplane.rest import bodies
from controlplane.rest.endpoints import entities
from controlplane.rest.endpoints.reads import ReadInputs
from controlplane.rest.errors import OK, Answer, BadRequest, NotFound, RequestFailed, RestError
from controlplane.rest.requests import Query

KINDS = ("sink", "source", "transformation", "predicate", "converter", "header_converter")
"""Kinds of plugins in the order of the listing; connectors are the first two."""

_TOOLS = "org.apache.kafka.connect.tools."
"""Plugins for Kafka's own tests."""

_INTERNAL = "org.apache.kafka.connect.runtime."
"""Package of plugins that only Connect itself creates."""


# --- list of plugins ----------------------------------------------------------------------------


def listed(reading: ReadInputs) -> Any:
    """`GET /connector-plugins`: connectors, and all other plugins with `connectorsOnly=false`."""
    profile = reading.state.profile
    path = reading.plugins.at(profile)
    plugins = _of_kinds(path, profile, connectors_only=_connectors_only(reading.query))
    return [
        entities.plugin(plugin, _kind_of(plugin, path, profile))
        for plugin in plugins
        if not plugin.class_name.startswith((_TOOLS, _INTERNAL))
    ]


def _connectors_only(query: Query) -> bool:
    """Read `connectorsOnly` as a primitive Java boolean; if missing or empty, it is true."""
    return (query.get("connectorsOnly", [""])[0] or "true").lower() == "true"


def _of_kinds(path: ClassPath, profile: Profile, *, connectors_only: bool) -> Iterator[Plugin]:
    if not profile.rest_all_plugins:
        yield from path.of_kind("sink", "source")
        return
    for kind in KINDS[:2] if connectors_only else KINDS:
        yield from path.of_kind(kind)


def _kind_of(plugin: Plugin, path: ClassPath, profile: Profile) -> str:
    """Return a plugin's kind. Some releases know only the first kind of a class that has two."""
    if not profile.rest_kinds_by_class:
        return plugin.type
    kinds = {entry.type for entry in path.named(plugin.class_name)}
    return next(kind for kind in KINDS if kind in kinds)


# --- keys of a plugin ---------------------------------------------------------------------------


def definitions(reading: ReadInputs, name: str) -> Any:
    """`GET /connector-plugins/{plugin}/config`: the plugin's keys, with Connect's own.

    Raises:
        RestError: there is no such plugin, or not in the requested version (KIP-891).
    """
    profile = reading.state.profile
    version = reading.query.get("version", [None])[0] if profile.versioned_plugins else None
    if version is not None and version.startswith(("[", "(")) and not _RANGES.fullmatch(version):
        raise BadRequest(f"Invalid version specification: {version}")
    path = reading.plugins.at(profile)
    plugin = _named(name, path, profile)
    _check_version(plugin, version)
    return [entities.key(key_info(key), profile) for key in _keys(plugin, path, profile)]


_RANGES = re.compile(r"[\[(][^\[\]()]*[\])](,[\[(][^\[\]()]*[\])])*")
"""Version ranges in Maven's notation."""


def _named(name: str, path: ClassPath, profile: Profile) -> Plugin:
    """Return the plugin with a class name or an alias."""
    full_name = path.full_name(name)
    if full_name in ABSTRACT or full_name.startswith(_INTERNAL) or path.nested(full_name):
        raise RequestFailed("Instantiation error")
    for plugin in path.named(full_name):
        return plugin
    kind = _other_kind(name, profile)
    if kind is None:
        raise NotFound(f"Unknown plugin {name}.")
    shown = f"type {kind}" if profile.rest_kinds_by_class else f"class {name}"
    raise BadRequest(
        f"Invalid plugin {shown}. Valid types are sink, source, converter, header_converter, "
        "transformation, predicate."
    )


def _check_version(plugin: Plugin, version: str | None) -> None:
    """Refuse a version that the plugin lacks. A range is assumed to match, as in a config."""
    if version in {None, "latest", plugin.version} or _RANGES.fullmatch(version or ""):
        return
    raise BadRequest(
        f"Plugin {plugin.class_name} not found that matches the version range "
        f"[{version},{version}], available versions: [{plugin.version}]"
    )


def _keys(plugin: Plugin, path: ClassPath, profile: Profile) -> Iterator[ConfigKey]:
    """Yield the plugin's own keys first; they win over Connect's keys of the same name."""
    own = {key.name: key for key in path.definition_of(plugin).keys}
    yield from own.values()
    if plugin.type in CONNECTORS and profile.rest_framework_keys:
        framework = path.connector_definition(plugin.type, version_default(plugin, profile))
        yield from (key for key in framework.keys if key.name not in own)


_PROVIDER, _POLICY = "configprovider", "connector_client_config_override_policy"
_CONFIGS = "org.apache.kafka.common.config.provider"
_POLICIES = "org.apache.kafka.connect.connector.policy"

_SUFFIXES = {_PROVIDER: "ConfigProvider", _POLICY: "ConnectorClientConfigOverridePolicy"}

_OTHERS = tuple(
    Plugin(class_name=f"{package}.{name}{_SUFFIXES[kind]}", type=kind, since=since)
    for package, kind, name, since in (
        (_CONFIGS, _PROVIDER, "File", None),
        (_CONFIGS, _PROVIDER, "Directory", None),
        (_CONFIGS, _PROVIDER, "EnvVar", "3.5.0"),
        (_POLICIES, _POLICY, "All", None),
        (_POLICIES, _POLICY, "None", None),
        (_POLICIES, _POLICY, "Principal", None),
        (_POLICIES, _POLICY, "Allowlist", "4.2.0"),
    )
)
"""Plugins that only a worker's own settings name, never a connector config. Connect refuses to list
their keys (`BadRequest`)."""


def _other_kind(name: str, profile: Profile) -> str | None:
    """Return the kind of a plugin that connector configs do not name; None if there is none."""
    for plugin in _OTHERS:
        if plugin.as_of(profile) is not None and name in _names(plugin, profile):
            return plugin.type
    return None


def _names(plugin: Plugin, profile: Profile) -> set[str]:
    """Return the class and its aliases; before 3.6, config providers had no aliases."""
    if plugin.type == _PROVIDER and profile.rest_kinds_by_class:
        return {plugin.class_name}
    simple = simple_name(plugin.class_name)
    return {plugin.class_name, simple, simple.removesuffix(_SUFFIXES[plugin.type])}


# --- validation of a config ---------------------------------------------------------------------


def validate(config: bodies.RequestConfig, name: str, context: Context) -> Answer:
    """`PUT /connector-plugins/{plugin}/config/validate`: every key with its value and errors.

    The config alone selects the connector class. The class only has to end with the name in the
    path; the suffix `Connector` is ignored in both.

    Raises:
        RestError: the config cannot be validated.
    """
    included = config.get("connector.class")
    if included is not None and not _plain(included).endswith(_plain(name)):
        raise BadRequest(f"Included connector type {included} does not match request type {name}")
    validation = validated(config, context)
    if isinstance(validation, ValidationFailure):
        raise _failed(validation, context.profile)
    return Answer(OK, entities.validation(validation, context.profile))


def _plain(name: str) -> str:
    """Return a name without the suffix that aliases omit."""
    return name.removesuffix("Connector") or name


def _failed(failure: ValidationFailure, profile: Profile) -> RestError:
    """Return the error of a failed validation; some releases answer all failures with 500."""
    if profile.rest_failure_wrapped:
        return RequestFailed(f"{failure.thrown}: {failure.text}")
    return (
        BadRequest(failure.text) if failure.thrown == BAD_REQUEST else RequestFailed(failure.text)
    )
