"""A config definition, prepared for checking many configs.

Kafka: `ConfigDef`, its `validateAll` and `embed`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from controlplane.core.configdef.check_result import KeyCheck, KeyChecks
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.configdef.validators import check_valid
from controlplane.core.configdef.value_parser import ConfigValue, FindClass, InvalidValue, parse
from controlplane.core.java.java_library import string_order
from controlplane.core.records import Properties


class KeyVisit(NamedTuple):
    """A key and the number of times that Kafka checks it.

    Each other key that has this key among its `dependents` causes one check. A key that is no
    dependent is checked once. Kafka reports the same errors again at each check.
    """

    key: ConfigKey
    times: int

    def check(self, config: Properties, find: FindClass) -> KeyCheck:
        """Check a config's value under the key, or its default. Errors go into the result."""
        key, value = self.key, None
        errors: list[str] = []
        try:
            value = _parsed_value(key, config, find)
        except InvalidValue as invalid:
            errors.append(str(invalid))
        try:
            check_valid(key.own_name, key.valid, value)
        except InvalidValue as invalid:
            errors.append(str(invalid))
        return KeyCheck(key.name, value, tuple(errors) * self.times)


@dataclass(frozen=True)
class Definition:
    """Keys in order, with their results for a config that has none of them."""

    keys: tuple[ConfigKey, ...]
    visits: Mapping[str, KeyVisit]
    class_visits: tuple[KeyVisit, ...]
    """Visits of keys that are checked for every config. Their default is a class, and the class
    path decides whether it exists."""
    absent: KeyChecks
    """Results for an empty config, without `class_visits`. They include undefined keys that are
    listed in the `dependents` of defined keys."""

    @classmethod
    def of(cls, keys: Iterable[ConfigKey]) -> "Definition":
        """Build the definition of these keys."""
        keys = tuple(keys)
        defined = {key.name: key for key in keys}
        parents = Counter(name for key in defined.values() for name in key.dependents)
        times = Counter(key.name for key in _in_check_order(defined, parents))
        visits = {name: KeyVisit(defined[name], number) for name, number in times.items()}
        class_visits = tuple(visit for visit in visits.values() if _has_class_default(visit.key))
        absent = {name: KeyCheck(name) for name in defined}
        for name in (name for name in parents if name not in defined):
            error = f"{name} is referred in the dependents, but not defined."
            absent[name] = KeyCheck(name, errors=(error,), visible=False)
        for name, visit in visits.items():
            if not _has_class_default(visit.key):
                absent[name] = visit.check({}, lambda _key, _text: None)
        return cls(keys, visits, class_visits, absent)


def _in_check_order(defined: dict[str, ConfigKey], parents: Counter[str]) -> Iterable[ConfigKey]:
    """Keys in the order of Kafka's checks: each once per key that lists it as dependent.

    In Kafka, a second check of a key also checks the key's dependents again. Here it does not.
    """
    waiting = [name for name in reversed(defined) if name not in parents]
    remaining = Counter(waiting) + parents
    while waiting:
        key = defined.get(waiting.pop())
        # Dependents may form a cycle. The counter ends it after one round.
        if key is not None and remaining[key.name]:
            remaining[key.name] -= 1
            yield key
            waiting += reversed(key.dependents)


def _parsed_value(key: ConfigKey, config: Properties, find: FindClass) -> ConfigValue:
    if key.name in config:
        return parse(key, config[key.name], find)
    if key.required:
        raise InvalidValue(
            f'Missing required configuration "{key.name}" which has no default value.'
        )
    return parse(key, key.default, find)


def _has_class_default(key: ConfigKey) -> bool:
    return key.type == "CLASS" and not key.required and key.default is not None


NOTHING = Definition.of(())


def check(definition: Definition, config: Properties, find: FindClass) -> KeyChecks:
    """Results for every key of a definition, in its order."""
    # A config lacks most keys, and the result of a missing key is the same for all configs. So
    # copying `absent` is faster than checking each key.
    findings = dict(definition.absent)
    present = (visit for name in config if (visit := definition.visits.get(name)) is not None)
    for visit in (*definition.class_visits, *present):
        findings[visit.key.name] = visit.check(config, find)
    return findings


def groups(keys: Iterable[ConfigKey]) -> list[str]:
    """Groups of a definition, in the order of their first key."""
    return list(dict.fromkeys(key.group for key in keys if key.group is not None))


def embedded(keys: Iterable[ConfigKey], prefix: str, group: str, first: int) -> list[ConfigKey]:
    """Keys of a definition as part of another one, in display order.

    `first`: place of the first key within the group. Validators still report a key under its own
    name.
    """
    keys = list(keys)
    order = groups(keys)
    displayed = sorted(keys, key=lambda key: _display_order(key, order))
    return [key.embedded(prefix, group, place) for place, key in enumerate(displayed, first)]


_IMPORTANCES = ("HIGH", "MEDIUM", "LOW")


def _display_order(key: ConfigKey, order: Sequence[str]) -> tuple[int, int, bool, int, bytes]:
    """Sort key: group, place in the group, required, importance, name.

    Kafka: `ConfigDef.sortedConfigs`.
    """
    group = -1 if key.group is None else order.index(key.group)
    importance = _IMPORTANCES.index(key.importance)
    return group, key.order, not key.required, importance, string_order(key.name)
