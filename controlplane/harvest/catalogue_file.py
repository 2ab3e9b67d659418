"""The catalogue file of a harvest.

Kafka's own plugins are listed by their classes. Their documentation is stored apart, by scope: a
definition that classes share (`connector`, `producer`), or one class. Plugins that are not Kafka's
own, or that differ from what Kafka released, are listed with all their settings.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.plugins import CONNECTORS, ClassPath, KafkaPlugins, Plugin, Plugins
from controlplane.core.plugins.catalogue import UNDEFINED_VERSION
from controlplane.core.plugins.descriptions import scope_of
from controlplane.core.releases.profiles import Profile
from controlplane.harvest.harvest_result import Harvest, HarvestedPlugin

_FIELDS = (
    *("type", "required", "default", "valid", "importance", "documentation", "group", "order"),
    *("width", "display_name", "dependents"),
)
"""Fields of a setting in the file."""

_FACTS = tuple(name for name in _FIELDS if name not in {"valid", "documentation"})
"""Fields by which settings of a known plugin are compared; a worker returns no validators."""

_SECRET = "[hidden]"  # noqa: S105 - a placeholder
_DEFAULTS = ConfigKey(name="", type="STRING")
"""Setting whose fields have their default values; such fields are left out of the file."""


def catalogue_text(harvest: Harvest, own: KafkaPlugins, profile: Profile) -> str:
    """Text of the catalogue file: a line per plugin, and a line per documented setting."""
    content = catalogue(harvest, own, profile)
    plugins = ",\n  ".join(json.dumps(entry) for entry in content["plugins"])
    documentation = json.dumps(content["documentation"], indent=1)
    return (
        f'{{"harvested": {json.dumps(content["harvested"])},\n'
        f' "plugins": [\n  {plugins}],\n'
        f' "documentation": {documentation}}}\n'
    )


def catalogue(harvest: Harvest, own: KafkaPlugins, profile: Profile) -> dict[str, Any]:
    """Content of the catalogue file as JSON data: `harvested`, `plugins`, `documentation`."""
    path = all_known(own, profile)
    documentation = {
        scope: {key.name: key.documentation for key in keys}
        for scope, keys in harvest.definitions.items()
    }
    entries: dict[tuple[str, str | None], dict[str, Any]] = {}
    for plugin in harvest.plugins:
        own_plugin = known_plugin(plugin.class_name, plugin.type, path)
        # One entry describes a class of Kafka's own, even if the class is a plugin of several
        # types.
        entries[plugin.class_name, plugin.type if own_plugin is None else None] = _entry(
            plugin, own_plugin, path
        )
        if own_plugin is not None and plugin.keys is not None:
            scopes = _scopes(own_plugin, path)
            for key in plugin.keys:
                if key.name in scopes:
                    documentation.setdefault(scopes[key.name], {})[key.name] = key.documentation
    return {
        "harvested": {"release": harvest.release},
        "plugins": list(entries.values()),
        "documentation": {scope: texts for scope, texts in documentation.items() if texts},
    }


def all_known(own: KafkaPlugins, profile: Profile) -> ClassPath:
    """Plugins and definitions of Kafka in the profile's release."""
    return Plugins(own.plugins, own).at(profile)


def known_plugin(class_name: str, kind: str, path: ClassPath) -> Plugin | None:
    """Kafka's own plugin with this class; of this type if the class has several."""
    named = path.named(class_name)
    same = [plugin for plugin in named if plugin.type == kind]
    return next(iter(same or named), None)


def _scopes(own_plugin: Plugin, path: ClassPath) -> Mapping[str, str]:
    """Scope of each setting of one of Kafka's plugins, by the setting's name."""
    kinds = ("connector", own_plugin.type) if own_plugin.type in CONNECTORS else ()
    scopes: dict[str, str] = {}
    for scope in (*kinds, *own_plugin.extends):
        scopes.update((key.name, scope) for key in path.definition(scope))
    return scopes | {key.name: scope_of(own_plugin.class_name) for key in own_plugin.config or ()}


def _entry(plugin: HarvestedPlugin, own_plugin: Plugin | None, path: ClassPath) -> dict[str, Any]:
    version = plugin.version or UNDEFINED_VERSION
    entry: dict[str, Any] = {"class": plugin.class_name}
    if own_plugin is None:
        entry["type"] = plugin.type
    if version != (UNDEFINED_VERSION if own_plugin is None else own_plugin.version):
        entry["version"] = version
    if plugin.keys is None:
        return entry
    if own_plugin is None:
        return entry | {"config": [_setting_entry(key, key.valid) for key in plugin.keys]}
    if list(map(_facts, plugin.keys)) == list(map(_facts, path.keys_of(own_plugin) or ())):
        return entry
    words = _valid_values(own_plugin, path)
    config = [_setting_entry(key, words.get(key.name, key.valid)) for key in plugin.keys]
    return entry | {"extends": [], "config": config}


def _valid_values(own_plugin: Plugin, path: ClassPath) -> Mapping[str, tuple[str, ...]]:
    """Descriptions of valid values, by setting.

    They come from all plugins that extend the same definitions as this plugin.
    """
    alike = [
        plugin for plugin in path.plugins if plugin.extends and plugin.extends == own_plugin.extends
    ]
    keys = (key for plugin in (*alike, own_plugin) for key in path.keys_of(plugin) or ())
    return {key.name: key.valid for key in keys}


def _facts(key: ConfigKey) -> Sequence[Any]:
    shown = [getattr(key, name) for name in _FACTS]
    if key.type == "PASSWORD" and key.default is not None:
        shown[_FACTS.index("default")] = _SECRET
    return (key.name, *shown)


def _setting_entry(key: ConfigKey, valid: tuple[str, ...]) -> dict[str, Any]:
    """Setting for the file: fields with default values are left out."""
    fields = {name: getattr(key, name) for name in _FIELDS} | {"valid": valid}
    if fields["display_name"] == key.name:
        fields["display_name"] = ""
    entry = {
        name: value
        for name, value in fields.items()
        if name == "type" or value != getattr(_DEFAULTS, name)
    }
    return {"name": key.name, **entry}
