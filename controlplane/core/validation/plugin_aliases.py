"""Validates transformations and predicates, which a config lists by alias.

`transforms: a` requires `transforms.a.type`, whose class defines the other keys under
`transforms.a.`. Kafka: `ConnectorConfig.EnrichablePlugin`.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from controlplane.core.configdef.check_result import KeyChecks, add_errors, set_facts
from controlplane.core.configdef.definition import embedded
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.configdef.validators import abstract_error, check_class, is_abstract
from controlplane.core.configdef.value_parser import (
    ConfigValue,
    Defect,
    InvalidValue,
    JavaClass,
    parse,
)
from controlplane.core.validation.plugin_versions import VERSION, version_of
from controlplane.core.validation.subject import ValidationSubject


class _AliasList(NamedTuple):
    """One of the two lists of aliases: its key, group and interface."""

    key: str
    """Key of the list."""
    group: str
    interface: str
    """Interface of the classes, without its package."""

    @property
    def kind(self) -> str:
        """Kind of plugin on the class path: the interface in lower case."""
        return self.interface.lower()


_LISTS = (
    _AliasList("transforms", "Transforms", "Transformation"),
    _AliasList("predicates", "Predicates", "Predicate"),
)


def aliased_keys(subject: ValidationSubject) -> Iterator[ConfigKey]:
    """Keys of all transformations and predicates that the config lists."""
    for alias_list in _LISTS:
        for alias in _aliases(subject, alias_list):
            yield from _keys(subject, alias_list, alias)


def check_aliased(subject: ValidationSubject, checked: KeyChecks) -> None:
    """Check the classes of the listed plugins; recommend the available classes and versions."""
    provided = subject.provided_keys()
    for alias_list in _LISTS:
        for alias in _aliases(subject, alias_list):
            names = [plugin.class_name for plugin in subject.path.of_kind(alias_list.kind)]
            check = checked[f"{alias_list.key}.{alias}.type"]
            set_facts(checked, check.name, recommended=names)
            versioned = f"{alias_list.key}.{alias}{VERSION}"
            version = version_of(subject, alias_list.kind, check.value)
            if versioned in checked and version is not None:
                set_facts(checked, versioned, recommended=[version])
            try:
                _check_negation(subject, alias_list, alias)
                if check.name not in provided:
                    _check_type(subject, alias_list, check.name, check.value)
            except InvalidValue as invalid:
                add_errors(checked, check.name, str(invalid))


def _aliases(subject: ValidationSubject, alias_list: _AliasList) -> list[str]:
    """Aliases in the list; none in a release without it (KIP-585), or from a config provider."""
    if alias_list.key not in subject.config or alias_list.key in subject.provided_keys():
        return []
    keys = [key for key in subject.path.definition("connector") if key.name == alias_list.key]
    names = parse(keys[0], subject.config[alias_list.key], subject.find) if keys else None
    return list(dict.fromkeys(names)) if isinstance(names, list) else []


def _keys(subject: ValidationSubject, alias_list: _AliasList, alias: str) -> Iterator[ConfigKey]:
    """Keys of one alias: its type, its version if the release has one, then its class's keys."""
    prefix, group = f"{alias_list.key}.{alias}.", f"{alias_list.group}: {alias}"
    type_key = ConfigKey(
        name=prefix + "type",
        type="CLASS",
        required=True,
        importance="HIGH",
        documentation=f"Class for the '{alias}' {alias_list.kind}.",
        group=group,
        order=0,
        width="LONG",
        display_name=f"{alias_list.interface} type for {alias}",
    )
    yield type_key
    java_class = _class_of(subject, alias_list, type_key)
    if subject.profile.versioned_plugins:
        yield msgspec.structs.replace(
            type_key,
            name=prefix.removesuffix(".") + VERSION,
            type="STRING",
            required=False,
            default=version_of(subject, alias_list.kind, java_class),
            documentation=f"Version of the '{alias}' {alias_list.kind}.",
            order=1,
            display_name=f"{alias_list.interface} version for {alias}",
        )
    if java_class is not None:
        first = 2 if subject.profile.versioned_plugins else 1
        yield from embedded(_class_keys(subject, alias_list, java_class), prefix, group, first)


def _class_of(
    subject: ValidationSubject, alias_list: _AliasList, key: ConfigKey
) -> JavaClass | None:
    """Class under a key, if it is of the expected kind."""
    try:
        java_class = parse(key, subject.config.get(key.name), subject.find)
        _check_type(subject, alias_list, key.name, java_class)
    except InvalidValue:
        return None
    return java_class if isinstance(java_class, JavaClass) else None


def _class_keys(
    subject: ValidationSubject, alias_list: _AliasList, java_class: JavaClass
) -> Iterator[ConfigKey]:
    """Keys that all plugins of the kind have, then the other keys of the class."""
    shared = subject.path.definition(alias_list.kind)
    yield from shared
    shared_names = {key.name for key in shared}
    for plugin in subject.path.named(java_class.name):
        if plugin.type == alias_list.kind:
            keys = subject.path.keys_of(plugin) or ()
            yield from (key for key in keys if key.name not in shared_names)


def _check_negation(subject: ValidationSubject, alias_list: _AliasList, alias: str) -> None:
    """Check that a negation has a predicate. Raises `InvalidValue`."""
    negate, predicate = f"{alias_list.key}.{alias}.negate", f"{alias_list.key}.{alias}.predicate"
    is_alone = negate in subject.config and predicate not in subject.config
    if is_alone and alias_list.kind == "transformation":
        raise InvalidValue(
            f"Config '{negate}' was provided but there is no config '{predicate}' defining a "
            "predicate to be negated."
        )


def _check_type(
    subject: ValidationSubject, alias_list: _AliasList, key: str, java_class: ConfigValue
) -> None:
    """Check that a class is a plugin of the kind.

    Raises:
        InvalidValue: it is not, in the words of the release.
    """
    counts_twice = subject.profile.missing_type_counts_twice
    if not isinstance(java_class, JavaClass):
        if counts_twice:
            raise InvalidValue.value(key, None, f"Not a {alias_list.interface}")
        return
    if not counts_twice:
        check_class(java_class, alias_list.interface)
    elif java_class.kinds and alias_list.kind not in java_class.kinds:
        raise InvalidValue.value(key, java_class, f"Not a {alias_list.interface}")
    elif is_abstract(java_class):
        error = f"{alias_list.interface} {abstract_error(java_class)}"
        raise InvalidValue.value(key, java_class, error)
    reason = _INSTANTIATION_ERRORS.get(java_class.defect)
    if reason is not None:
        versioned = subject.profile.versioned_plugins
        shown = java_class.name if versioned else java_class
        reason = "Instantiation error" if versioned else f"{reason} {java_class.name}"
        error = f"Error getting config definition from {alias_list.interface}: {reason}"
        raise InvalidValue.value(key, shown, error)


_INSTANTIATION_ERRORS: Mapping[Defect | None, str] = {
    "no suitable constructor": "Could not find a public no-argument constructor for",
    "private constructor": "Could not instantiate class",
    "constructor throws": "Could not instantiate class",
}
