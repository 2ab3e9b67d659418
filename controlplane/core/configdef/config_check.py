"""Checks a config against a definition: the value under every key, and its errors.

Kafka: `ConfigDef.validateAll`, `ConfigDef.embed`.
"""

from collections.abc import Iterable, Sequence

from controlplane.core.configdef.check_result import KeyChecks
from controlplane.core.configdef.definition import Definition
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.configdef.value_parser import FindClass
from controlplane.core.java.java_library import string_order
from controlplane.core.records import Properties


def check(definition: Definition, config: Properties, find: FindClass) -> KeyChecks:
    """Results for every key of a definition, in its order."""
    findings = dict(definition.absent)  # most keys are absent from most configs
    present = (visit for name in config if (visit := definition.visits.get(name)) is not None)
    for visit in (*definition.class_visits, *present):
        findings[visit.key.name] = visit.at(config, find)
    return findings


def groups(keys: Iterable[ConfigKey]) -> list[str]:
    """Groups of a definition, in the order of their first key."""
    return list(dict.fromkeys(key.group for key in keys if key.group is not None))


def embedded(keys: Iterable[ConfigKey], prefix: str, group: str, first: int) -> list[ConfigKey]:
    """Keys of a definition as part of another one, in display order.

    Validators still report a key under its own name.
    """
    keys = list(keys)
    order = groups(keys)
    placed = sorted(keys, key=lambda key: _place(key, order))
    return [key.embedded(prefix, group, place) for place, key in enumerate(placed, first)]


_IMPORTANCES = ("HIGH", "MEDIUM", "LOW")


def _place(key: ConfigKey, order: Sequence[str]) -> tuple[int, int, bool, int, bytes]:
    """Sort key: group, place in it, required, importance, name (`ConfigDef.sortedConfigs`)."""
    group = -1 if key.group is None else order.index(key.group)
    importance = _IMPORTANCES.index(key.importance)
    return group, key.order, not key.required, importance, string_order(key.name)
