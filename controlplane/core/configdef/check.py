"""A config, held against a definition: what is under every key, and what is wrong with it.

Kafka: `ConfigDef.validateAll`, `ConfigDef.embed`.
"""

from collections.abc import Iterable, Sequence

from controlplane.core.configdef.checked import Findings
from controlplane.core.configdef.definition import Definition
from controlplane.core.configdef.keys import ConfigKey
from controlplane.core.configdef.values import FindClass
from controlplane.core.java import string_order
from controlplane.core.records import Properties


def check(definition: Definition, config: Properties, find: FindClass) -> Findings:
    """Every key of a definition, in its order, and what is wrong with the config."""
    findings = dict(definition.untold)  # most keys are absent from most configs
    told = (look for name in config if (look := definition.looks.get(name)) is not None)
    for look in (*definition.open_looks, *told):
        findings[look.key.name] = look.at(config, find)
    return findings


def groups(keys: Iterable[ConfigKey]) -> list[str]:
    """The groups of a definition, in the order in which they first come."""
    return list(dict.fromkeys(key.group for key in keys if key.group is not None))


def embedded(keys: Iterable[ConfigKey], prefix: str, group: str, first: int) -> list[ConfigKey]:
    """The keys of a definition as a part of another one, in the order that people are shown.

    Validators go on to call a key by its own name.
    """
    keys = list(keys)
    order = groups(keys)
    placed = sorted(keys, key=lambda key: _place(key, order))
    return [key.embedded(prefix, group, place) for place, key in enumerate(placed, first)]


_IMPORTANCES = ("HIGH", "MEDIUM", "LOW")


def _place(key: ConfigKey, order: Sequence[str]) -> tuple[int, int, bool, int, bytes]:
    """By group, place in it, need, importance, name (`ConfigDef.sortedConfigs`)."""
    group = -1 if key.group is None else order.index(key.group)
    importance = _IMPORTANCES.index(key.importance)
    return group, key.order, not key.required, importance, string_order(key.name)
