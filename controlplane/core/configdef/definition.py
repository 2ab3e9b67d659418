"""A config definition, made ready for the configs that are held against it (`ConfigDef`)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from controlplane.core.configdef.keys import ConfigKey
from controlplane.core.configdef.valid import check_valid
from controlplane.core.configdef.values import FindClass, Invalid, Value, parse
from controlplane.core.records import Properties


class Judged(NamedTuple):
    """What is under a key, and what is wrong with it."""

    value: Value
    errors: Sequence[str]


class Look(NamedTuple):
    """A key that is looked at; `absent` is what comes of a config that says nothing of it.

    None: that hangs on which classes there are.
    """

    name: str
    key: ConfigKey
    absent: Judged | None


@dataclass(frozen=True)
class Definition:
    """Keys in order, and in which order they are looked at: that hangs on no config."""

    keys: tuple[ConfigKey, ...]
    looks: tuple[Look, ...]
    """A key comes after those that it depends on, once for each of them."""
    missing: tuple[str, ...]
    """Keys that others have as dependents, and that nobody defines."""

    @classmethod
    def of(cls, keys: Iterable[ConfigKey]) -> "Definition":
        """The definition that has these keys."""
        keys = tuple(keys)
        defined = {key.name: key for key in keys}
        parents = Counter(name for key in defined.values() for name in key.dependents)
        looks = tuple(Look(key.name, key, _absent(key)) for key in _in_turn(defined, parents))
        return cls(keys, looks, tuple(name for name in parents if name not in defined))


NOTHING = Definition((), (), ())


def _in_turn(defined: dict[str, ConfigKey], parents: Counter[str]) -> Iterable[ConfigKey]:
    waiting = [name for name in reversed(defined) if name not in parents]
    looks = Counter(waiting) + parents
    while waiting:
        key = defined.get(waiting.pop())
        if key is not None and looks[key.name]:  # a circle is gone through once
            looks[key.name] -= 1
            yield key
            waiting += reversed(key.dependents)


def judged(key: ConfigKey, config: Properties, find: FindClass) -> Judged:
    """What a config has under a key, and what is wrong with it."""
    value: Value = None
    errors: list[str] = []
    try:
        value = _value(key, config, find)
    except Invalid as invalid:
        errors.append(str(invalid))
    try:
        check_valid(key.own_name, key.valid, value)
    except Invalid as invalid:
        errors.append(str(invalid))
    return Judged(value, errors)


def _value(key: ConfigKey, config: Properties, find: FindClass) -> Value:
    if key.name in config:
        return parse(key, config[key.name], find)
    if key.required:
        raise Invalid(f'Missing required configuration "{key.name}" which has no default value.')
    return parse(key, key.default, find)


def _absent(key: ConfigKey) -> Judged | None:
    if key.type == "CLASS" and not key.required and key.default is not None:
        return None
    return judged(key, {}, lambda _key, _text: None)
