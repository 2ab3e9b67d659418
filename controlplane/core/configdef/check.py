"""A config, held against a definition: what is under every key, and what is wrong with it.

Kafka: `ConfigDef.validateAll`, `ConfigDef.embed`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from controlplane.core.configdef.definition import Definition, judged
from controlplane.core.configdef.keys import ConfigKey
from controlplane.core.configdef.values import FindClass, Value
from controlplane.core.records import Properties


@dataclass(slots=True)
class Checked:
    """What came of one key. More errors may be found later: this is changed in place."""

    name: str
    value: Value = None
    errors: list[str] = field(default_factory=list)
    recommended: Sequence[str] = ()
    visible: bool = True


def check(definition: Definition, config: Properties, find: FindClass) -> dict[str, Checked]:
    """Every key of a definition, in its order, and what is wrong with the config."""
    checked = {key.name: Checked(key.name) for key in definition.keys}
    for name in definition.missing:
        told = f"{name} is referred in the dependents, but not defined."
        checked[name] = Checked(name, errors=[told], visible=False)
    for name, key, absent in definition.looks:  # most keys are absent from most configs
        known = absent if name not in config else None
        found = checked[name]
        found.value, errors = known or judged(key, config, find)
        if errors:
            found.errors += errors
    return checked


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


def _place(key: ConfigKey, order: Sequence[str]) -> tuple[int, int, bool, int, str]:
    """By group, place in it, need, importance, name (`ConfigDef.sortedConfigs`)."""
    group = -1 if key.group is None else order.index(key.group)
    return group, key.order, not key.required, _IMPORTANCES.index(key.importance), key.name
