"""A config definition, made ready for the configs that are held against it (`ConfigDef`)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from controlplane.core.configdef.checked import Checked, Findings
from controlplane.core.configdef.keys import ConfigKey
from controlplane.core.configdef.valid import check_valid
from controlplane.core.configdef.values import FindClass, Invalid, Value, parse
from controlplane.core.records import Properties


class Look(NamedTuple):
    """A key and how often it is looked at: once for each key that it depends on.

    Each look finds the same errors again.
    """

    key: ConfigKey
    times: int

    def at(self, config: Properties, find: FindClass) -> Checked:
        """What a config has under the key, and what is wrong with it."""
        key, value = self.key, None
        errors: list[str] = []
        try:
            value = _value(key, config, find)
        except Invalid as invalid:
            errors.append(str(invalid))
        try:
            check_valid(key.own_name, key.valid, value)
        except Invalid as invalid:
            errors.append(str(invalid))
        return Checked(key.name, value, tuple(errors) * self.times)


@dataclass(frozen=True)
class Definition:
    """Keys in order, and what comes of each of them where a config says nothing of it."""

    keys: tuple[ConfigKey, ...]
    looks: Mapping[str, Look]
    open_looks: tuple[Look, ...]
    """Of keys that are looked at in any case: what is there by default hangs on which classes
    there are."""
    untold: Findings
    """Of a config that says nothing, but for those. Also of keys that nobody defines, though others
    have them as dependents."""

    @classmethod
    def of(cls, keys: Iterable[ConfigKey]) -> "Definition":
        """The definition that has these keys."""
        keys = tuple(keys)
        defined = {key.name: key for key in keys}
        parents = Counter(name for key in defined.values() for name in key.dependents)
        times = Counter(key.name for key in _in_turn(defined, parents))
        looks = {name: Look(defined[name], number) for name, number in times.items()}
        open_looks = tuple(look for look in looks.values() if _open(look.key))
        untold = {name: Checked(name) for name in defined}
        for name in (name for name in parents if name not in defined):
            told = f"{name} is referred in the dependents, but not defined."
            untold[name] = Checked(name, errors=(told,), visible=False)
        for name, look in looks.items():
            if not _open(look.key):
                untold[name] = look.at({}, lambda _key, _text: None)
        return cls(keys, looks, open_looks, untold)


def _in_turn(defined: dict[str, ConfigKey], parents: Counter[str]) -> Iterable[ConfigKey]:
    waiting = [name for name in reversed(defined) if name not in parents]
    looks = Counter(waiting) + parents
    while waiting:
        key = defined.get(waiting.pop())
        if key is not None and looks[key.name]:  # a circle is gone through once
            looks[key.name] -= 1
            yield key
            waiting += reversed(key.dependents)


def _value(key: ConfigKey, config: Properties, find: FindClass) -> Value:
    if key.name in config:
        return parse(key, config[key.name], find)
    if key.required:
        raise Invalid(f'Missing required configuration "{key.name}" which has no default value.')
    return parse(key, key.default, find)


def _open(key: ConfigKey) -> bool:
    return key.type == "CLASS" and not key.required and key.default is not None


NOTHING = Definition.of(())
