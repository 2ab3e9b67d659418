"""What comes of validating a config: every key with its definition, value and errors, or a failure.

The fields are those of Connect's answer (`ConfigInfos`), so that JSON may be made of them as they
are; `order` goes by another name and place in newer releases, which is the answerer's business.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from controlplane.core.configdef.checked import Checked
from controlplane.core.configdef.keys import ConfigKey
from controlplane.core.configdef.values import shown
from controlplane.core.java import hash_map_order

BAD_REQUEST = "org.apache.kafka.connect.runtime.rest.errors.BadRequestException"
CONNECT = "org.apache.kafka.connect.errors.ConnectException"
CONFIG = "org.apache.kafka.common.config.ConfigException"
PATTERN_SYNTAX = "java.util.regex.PatternSyntaxException"


class Failure(msgspec.Struct, frozen=True):
    """The worker fails before there is a result: the exception that it throws, and its message."""

    thrown: str
    text: str


class Failed(Exception):
    """Ends a validation with a failure."""

    def __init__(self, thrown: str, text: str) -> None:
        super().__init__(text)
        self.failure = Failure(thrown, text)


class KeyInfo(msgspec.Struct, frozen=True):
    """How a key is defined (`ConfigKeyInfo`)."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None
    width: str
    display_name: str
    dependents: tuple[str, ...]
    order: int


class ValueInfo(msgspec.Struct, frozen=True):
    """What is under a key, and what is wrong with it (`ConfigValueInfo`)."""

    name: str
    value: str | None
    recommended_values: tuple[str, ...]
    errors: tuple[str, ...]
    visible: bool


class ConfigInfo(msgspec.Struct, frozen=True):
    """One key; nobody has defined it if there is no definition."""

    definition: KeyInfo | None
    value: ValueInfo


class Validation(msgspec.Struct, frozen=True):
    """The result for a whole config. `name` is what the config calls its connector's class."""

    name: str
    error_count: int
    groups: tuple[str, ...]
    configs: tuple[ConfigInfo, ...]

    @property
    def errors(self) -> tuple[str, ...]:
        """All messages, in their order. `error_count` may be another number."""
        return tuple(text for one in self.configs for text in one.value.errors)


def key_info(key: ConfigKey, prefix: str = "") -> KeyInfo:
    """A definition as people are told of it."""
    secret = key.type == "PASSWORD" and key.default is not None
    return KeyInfo(
        name=prefix + key.name,
        type=key.type,
        required=key.required,
        default_value="[hidden]" if secret else key.default,
        importance=key.importance,
        documentation=key.documentation,
        group=key.group,
        width=key.width,
        display_name=key.display_name,
        dependents=key.dependents,
        order=key.order,
    )


def value_info(checked: Checked, prefix: str = "") -> ValueInfo:
    """A value as people are shown it."""
    return ValueInfo(
        name=prefix + checked.name,
        value=shown(checked.value),
        recommended_values=tuple(checked.recommended),
        errors=checked.errors,
        visible=checked.visible,
    )


def in_hash_order(checked: Mapping[str, Checked]) -> list[Checked]:
    """The values of a HashMap that was filled in this order."""
    return [checked[name] for name in hash_map_order(checked)]


def generated(
    name: str, keys: Mapping[str, ConfigKey], values: Iterable[Checked], groups: Sequence[str]
) -> Validation:
    """What nobody has defined, then every key in its order (`AbstractHerder#generateResult`).

    Of two values of one key the later counts, with its errors.
    """
    values = list(values)
    undefined = [ConfigInfo(None, value_info(one)) for one in values if one.name not in keys]
    last = {one.name: one for one in values}
    defined = [ConfigInfo(key_info(key), value_info(last[key.name])) for key in keys.values()]
    configs = (*undefined, *defined)
    return Validation(name, sum(len(one.value.errors) for one in configs), tuple(groups), configs)


def prefixed(keys: Mapping[str, ConfigKey], values: Iterable[Checked], prefix: str) -> Validation:
    """A part of a config that has a definition of its own (`AbstractHerder#prefixedConfigInfos`).

    Here each key counts as one error, however many it has.
    """
    values = list(values)
    configs = tuple(
        ConfigInfo(
            key_info(keys[one.name], prefix) if one.name in keys else None,
            value_info(one, prefix),
        )
        for one in values
    )
    groups = (keys[one.name].group for one in values if one.name in keys)
    named = dict.fromkeys(group for group in groups if group is not None)
    return Validation("", sum(bool(one.errors) for one in values), tuple(named), configs)


def merged(first: Validation, *more: Validation) -> Validation:
    """Parts, one behind the other."""
    parts = (first, *more)
    return Validation(
        first.name,
        sum(part.error_count for part in parts),
        tuple(dict.fromkeys(group for part in parts for group in part.groups)),
        tuple(one for part in parts for one in part.configs),
    )
