"""A config, held against a definition: what is under every key, and what is wrong with it.

Kafka: `ConfigDef.validateAll`, `ConfigDef.embed`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from controlplane.core.configdef.keys import ConfigKey
from controlplane.core.configdef.valid import check_valid
from controlplane.core.configdef.values import FindClass, Invalid, Value, parse
from controlplane.core.records import Properties


@dataclass
class Checked:
    """What came of one key. More errors may be found later: this is changed in place."""

    name: str
    value: Value = None
    errors: list[str] = field(default_factory=list)
    recommended: Sequence[str] = ()
    visible: bool = True


def check(keys: Iterable[ConfigKey], config: Properties, find: FindClass) -> dict[str, Checked]:
    """Every key of a definition, in its order, and what is wrong with the config.

    A key is looked at after those that it depends on, once for each of them.
    """
    defined = {key.name: key for key in keys}
    checked = {name: Checked(name) for name in defined}
    parents = Counter(name for key in defined.values() for name in key.dependents)
    for name in parents:
        if name not in defined:
            told = f"{name} is referred in the dependents, but not defined."
            checked[name] = Checked(name, errors=[told], visible=False)
    waiting = [name for name in reversed(defined) if name not in parents]
    looks = Counter(waiting) + parents
    while waiting:
        key = defined.get(waiting.pop())
        if key is not None and looks[key.name]:  # a circle is gone through once
            looks[key.name] -= 1
            _check(key, config, find, checked[key.name])
            waiting += reversed(key.dependents)
    return checked


def _check(key: ConfigKey, config: Properties, find: FindClass, found: Checked) -> None:
    value: Value = None
    try:
        value = _value(key, config, find)
    except Invalid as invalid:
        found.errors.append(str(invalid))
    try:
        check_valid(key.own_name, key.valid, value)
    except Invalid as invalid:
        found.errors.append(str(invalid))
    found.value = value


def _value(key: ConfigKey, config: Properties, find: FindClass) -> Value:
    if key.name in config:
        return parse(key, config[key.name], find)
    if key.required:
        raise Invalid(f'Missing required configuration "{key.name}" which has no default value.')
    return parse(key, key.default, find)


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
