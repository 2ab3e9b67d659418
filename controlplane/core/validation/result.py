"""Result of validating a config: every key with definition, value and errors, or a failure.

The fields are those of Connect's answer (`ConfigInfos`), so that JSON can be built from them
directly. Newer releases answer `order` under another name and in another place; the REST layer
handles that.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from controlplane.core.configdef.check_result import KeyCheck
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.configdef.value_parser import answer_text
from controlplane.core.java.java_library import hash_map_order

BAD_REQUEST = "org.apache.kafka.connect.runtime.rest.errors.BadRequestException"
CONNECT = "org.apache.kafka.connect.errors.ConnectException"
CONFIG = "org.apache.kafka.common.config.ConfigException"
PATTERN_SYNTAX = "java.util.regex.PatternSyntaxException"


class ValidationFailure(msgspec.Struct, frozen=True):
    """Exception, with its message, that the worker throws instead of a result."""

    thrown: str
    text: str


class ValidationAborted(Exception):
    """Ends a validation at which the worker throws; carries the failure."""

    def __init__(self, thrown: str, text: str) -> None:
        super().__init__(text)
        self.failure = ValidationFailure(thrown, text)


class KeyInfo(msgspec.Struct, frozen=True):
    """Definition of a key (`ConfigKeyInfo`)."""

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
    """Value of a key with its errors (`ConfigValueInfo`)."""

    name: str
    value: str | None
    recommended_values: tuple[str, ...]
    errors: tuple[str, ...]
    visible: bool


class ConfigInfo(msgspec.Struct, frozen=True):
    """Result for one key. Definition None: no plugin defines the key."""

    definition: KeyInfo | None
    value: ValueInfo


class Validation(msgspec.Struct, frozen=True):
    """Result for a whole config. `name` is the connector class as in the config."""

    name: str
    error_count: int
    groups: tuple[str, ...]
    configs: tuple[ConfigInfo, ...]

    @property
    def errors(self) -> tuple[str, ...]:
        """All errors, in order. `error_count` may differ from their number."""
        return tuple(error for config in self.configs for error in config.value.errors)


def key_info(key: ConfigKey, prefix: str = "") -> KeyInfo:
    """Definition of a key as answers show it, under its name with a prefix."""
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


def value_info(checked: KeyCheck, prefix: str = "") -> ValueInfo:
    """Value and errors of a key as answers show them, under its name with a prefix."""
    return ValueInfo(
        name=prefix + checked.name,
        value=answer_text(checked.value),
        recommended_values=tuple(checked.recommended),
        errors=checked.errors,
        visible=checked.visible,
    )


def in_hash_order(checked: Mapping[str, KeyCheck]) -> list[KeyCheck]:
    """Values in the order of a HashMap that was filled in this order."""
    return [checked[name] for name in hash_map_order(checked)]


def generated(
    name: str, keys: Mapping[str, ConfigKey], values: Iterable[KeyCheck], groups: Sequence[str]
) -> Validation:
    """Result with the undefined keys first, then every defined key in the order of `keys`.

    If a key has two values, the later one counts, with its errors. `name` is the connector class.
    Kafka: `AbstractHerder#generateResult`.
    """
    values = list(values)
    undefined = [ConfigInfo(None, value_info(check)) for check in values if check.name not in keys]
    last = {check.name: check for check in values}
    defined = [ConfigInfo(key_info(key), value_info(last[key.name])) for key in keys.values()]
    configs = (*undefined, *defined)
    errors = sum(len(config.value.errors) for config in configs)
    return Validation(name, errors, tuple(groups), configs)


def prefixed(keys: Mapping[str, ConfigKey], values: Iterable[KeyCheck], prefix: str) -> Validation:
    """Result for a part of a config with a definition of its own.

    A key with errors counts as one error. Kafka: `AbstractHerder#prefixedConfigInfos`.
    """
    values = list(values)
    configs = tuple(
        ConfigInfo(
            key_info(keys[check.name], prefix) if check.name in keys else None,
            value_info(check, prefix),
        )
        for check in values
    )
    groups = (keys[check.name].group for check in values if check.name in keys)
    group_names = dict.fromkeys(group for group in groups if group is not None)
    return Validation("", sum(bool(check.errors) for check in values), tuple(group_names), configs)


def merged(first: Validation, *more: Validation) -> Validation:
    """Concatenate results; the name is that of the first, and the error counts add up."""
    parts = (first, *more)
    return Validation(
        first.name,
        sum(part.error_count for part in parts),
        tuple(dict.fromkeys(group for part in parts for group in part.groups)),
        tuple(config for part in parts for config in part.configs),
    )
