"""Descriptions of settings, separate from their definitions.

Answers show them as `documentation`. Each belongs to a scope: a definition of Kafka's (`connector`,
`producer`, …) or the class of a plugin.
"""

from collections.abc import Iterable, Mapping

import msgspec

from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.plugins.catalogue import KafkaPlugins, decoded

Descriptions = Mapping[str, Mapping[str, str]]
"""Descriptions by scope, then by name of the setting."""


def parse_descriptions(text: bytes) -> Descriptions:
    """Read the descriptions of a JSON file.

    Raises:
        CatalogueError: the text is no JSON object of objects of strings.
    """
    return decoded(text, dict[str, dict[str, str]])


def scope_of(class_name: str) -> str:
    """Scope of a plugin's own settings.

    `$Key` and `$Value`, the two classes of a transformation, share theirs.
    """
    outer, _, inner = class_name.rpartition("$")
    return outer if inner in {"Key", "Value"} else class_name


def with_descriptions(own: KafkaPlugins, descriptions: Descriptions) -> KafkaPlugins:
    """Replace descriptions of Kafka's own plugins and definitions; other settings keep theirs."""
    plugins = (
        msgspec.structs.replace(
            plugin, config=_described(plugin.config, descriptions.get(scope_of(plugin.class_name)))
        )
        for plugin in own.plugins
    )
    definitions = {
        scope: _described(keys, descriptions.get(scope)) or ()
        for scope, keys in own.definitions.items()
    }
    return KafkaPlugins(tuple(plugins), definitions)


def _described(
    keys: Iterable[ConfigKey] | None, texts: Mapping[str, str] | None
) -> tuple[ConfigKey, ...] | None:
    if keys is None:
        return None
    return tuple(_with_text(key, (texts or {}).get(key.name)) for key in keys)


def _with_text(key: ConfigKey, text: str | None) -> ConfigKey:
    return key if text is None else msgspec.structs.replace(key, documentation=text)
