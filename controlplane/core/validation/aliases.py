"""Transformations and predicates: plugins that a config names, and then configures by that name.

`transforms: a` asks for `transforms.a.type`; what else there may be under `transforms.a.` is said
by the class of that type. Kafka: `ConnectorConfig.EnrichablePlugin`.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from controlplane.core.configdef.check import embedded
from controlplane.core.configdef.checked import Findings, blame, tell
from controlplane.core.configdef.keys import ConfigKey
from controlplane.core.configdef.valid import abstract, check_class, is_abstract
from controlplane.core.configdef.values import Defect, Invalid, JavaClass, Value, parse
from controlplane.core.validation.subject import Subject
from controlplane.core.validation.versions import VERSION, version_of


class _Aliased(NamedTuple):
    """One of the two lists of names."""

    key: str
    """Where the names are listed."""
    group: str
    interface: str
    """What the classes implement; in lower case the kind of plugin, and what people call it."""

    @property
    def kind(self) -> str:
        """As the class path calls it."""
        return self.interface.lower()


_LISTS = (
    _Aliased("transforms", "Transforms", "Transformation"),
    _Aliased("predicates", "Predicates", "Predicate"),
)


def aliased_keys(subject: Subject) -> Iterator[ConfigKey]:
    """The keys of all plugins that the config names."""
    for listed in _LISTS:
        for alias in _aliases(subject, listed):
            yield from _keys(subject, listed, alias)


def check_aliased(subject: Subject, checked: Findings) -> None:
    """Look at the classes of these plugins, and recommend all that there are."""
    for listed in _LISTS:
        for alias in _aliases(subject, listed):
            names = [plugin.class_name for plugin in subject.path.of_kind(listed.kind)]
            found = checked[f"{listed.key}.{alias}.type"]
            tell(checked, found.name, recommended=names)
            versioned = f"{listed.key}.{alias}{VERSION}"
            version = version_of(subject, listed.kind, found.value)
            if versioned in checked and version is not None:
                tell(checked, versioned, recommended=[version])
            try:
                _check_negation(subject, listed, alias)
                _check_type(subject, listed, found.name, found.value)
            except Invalid as invalid:
                blame(checked, found.name, str(invalid))


def _aliases(subject: Subject, listed: _Aliased) -> list[str]:
    """The names; none in a release that knows of no such list (KIP-585)."""
    if listed.key not in subject.config:
        return []
    keys = [key for key in subject.path.definition("connector") if key.name == listed.key]
    names = parse(keys[0], subject.config[listed.key], subject.find) if keys else None
    return list(dict.fromkeys(names)) if isinstance(names, list) else []


def _keys(subject: Subject, listed: _Aliased, alias: str) -> Iterator[ConfigKey]:
    prefix, group = f"{listed.key}.{alias}.", f"{listed.group}: {alias}"
    kind = ConfigKey(
        name=prefix + "type",
        type="CLASS",
        required=True,
        importance="HIGH",
        documentation=f"Class for the '{alias}' {listed.kind}.",
        group=group,
        order=0,
        width="LONG",
        display_name=f"{listed.interface} type for {alias}",
    )
    yield kind
    found = _found(subject, listed, kind)
    if subject.profile.versioned_plugins:
        yield msgspec.structs.replace(
            kind,
            name=prefix.removesuffix(".") + VERSION,
            type="STRING",
            required=False,
            default=version_of(subject, listed.kind, found),
            documentation=f"Version of the '{alias}' {listed.kind}.",
            order=1,
            display_name=f"{listed.interface} version for {alias}",
        )
    if found is not None:
        first = 2 if subject.profile.versioned_plugins else 1
        yield from embedded(_own_keys(subject, listed, found), prefix, group, first)


def _found(subject: Subject, listed: _Aliased, key: ConfigKey) -> JavaClass | None:
    """The class under a key, if it is one of its kind."""
    try:
        found = parse(key, subject.config.get(key.name), subject.find)
        _check_type(subject, listed, key.name, found)
    except Invalid:
        return None
    return found if isinstance(found, JavaClass) else None


def _own_keys(subject: Subject, listed: _Aliased, found: JavaClass) -> Iterator[ConfigKey]:
    """The keys that all plugins of the kind have mask those of the class itself."""
    shared = subject.path.definition(listed.kind)
    yield from shared
    masked = {key.name for key in shared}
    for plugin in subject.path.named(found.name):
        if plugin.type == listed.kind:
            keys = subject.path.keys_of(plugin) or ()
            yield from (key for key in keys if key.name not in masked)


def _check_negation(subject: Subject, listed: _Aliased, alias: str) -> None:
    negate, predicate = f"{listed.key}.{alias}.negate", f"{listed.key}.{alias}.predicate"
    given = negate in subject.config and predicate not in subject.config
    if given and listed.kind == "transformation":
        raise Invalid(
            f"Config '{negate}' was provided but there is no config '{predicate}' defining a "
            "predicate to be negated."
        )


def _check_type(subject: Subject, listed: _Aliased, key: str, found: Value) -> None:
    """The class must be a plugin of the kind.

    Raises:
        Invalid: it is not, in the words of the release.
    """
    twice = subject.profile.missing_type_told_twice
    if not isinstance(found, JavaClass):
        if twice:
            raise Invalid.value(key, None, f"Not a {listed.interface}")
        return
    if not twice:
        check_class(found, listed.interface)
    elif found.kinds and listed.kind not in found.kinds:
        raise Invalid.value(key, found, f"Not a {listed.interface}")
    elif is_abstract(found):
        raise Invalid.value(key, found, f"{listed.interface} {abstract(found)}")
    why = _UNMADE.get(found.defect)
    if why is not None:
        versioned = subject.profile.versioned_plugins
        shown = found.name if versioned else found
        why = "Instantiation error" if versioned else f"{why} {found.name}"
        told = f"Error getting config definition from {listed.interface}: {why}"
        raise Invalid.value(key, shown, told)


_UNMADE: Mapping[Defect | None, str] = {
    "no suitable constructor": "Could not find a public no-argument constructor for",
    "private constructor": "Could not instantiate class",
    "constructor throws": "Could not instantiate class",
}
