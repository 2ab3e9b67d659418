"""Versions of plugins, and what a worker puts where a config says nothing of them (KIP-891).

There is one version of each plugin here: ranges that a config asks for are not looked at.
"""

from collections.abc import Iterator

from controlplane.core.configdef.checked import Findings, tell
from controlplane.core.configdef.definition import Definition
from controlplane.core.configdef.values import JavaClass, Value
from controlplane.core.plugins import Plugin
from controlplane.core.profiles import Profile
from controlplane.core.validation.subject import Subject

_CONNECTOR = "connector.plugin.version"
_KINDS = {
    "key.converter": "converter",
    "value.converter": "converter",
    "header.converter": "header_converter",
}
VERSION = ".plugin.version"
"""What is behind a key that names a plugin, in the key of the version that is wanted of it."""


def connects_own(subject: Subject, plugin: Plugin) -> Definition:
    """What Connect defines, with the converters of the worker and the versions that there are."""
    defaults = connects_version(plugin, subject.profile)
    if defaults:
        defaults |= dict(_of_converters(subject))
    return subject.path.connects(plugin.type, defaults)


def connects_version(plugin: Plugin, profile: Profile) -> dict[str, str | None]:
    """The key for the version of a connector, with that which there is; none in older releases."""
    return {_CONNECTOR: plugin.version} if profile.versioned_plugins else {}


def recommend(subject: Subject, plugin: Plugin, checked: Findings) -> None:
    """Tell which converters there are, and which versions of what is used."""
    if _CONNECTOR not in checked:
        return
    tell(checked, _CONNECTOR, recommended=[plugin.version])
    for name, kind in _KINDS.items():
        tell(checked, name, recommended=[one.class_name for one in subject.path.of_kind(kind)])
        version = version_of(subject, kind, checked[name].value)
        tell(checked, name + VERSION, recommended=[] if version is None else [version])


def hide_unused(checked: Findings) -> None:
    """There is no version to ask for where there is no converter."""
    for name in _KINDS:
        if name + VERSION in checked:
            tell(checked, name + VERSION, visible=checked[name].value is not None)


def version_of(subject: Subject, kind: str, found: Value) -> str | None:
    """The version of a plugin of this kind; None: there is none, or nobody knows it."""
    named = subject.path.named(found.name) if isinstance(found, JavaClass) else ()
    return next((one.version for one in named if one.type == kind), None)


def _of_converters(subject: Subject) -> Iterator[tuple[str, str | None]]:
    """Each converter's key with the worker's class, and the key of its version with that."""
    worker = subject.worker
    workers = {
        "key.converter": worker.key_converter,
        "value.converter": worker.value_converter,
        "header.converter": worker.header_converter,
    }
    for name, kind in _KINDS.items():
        yield name, workers[name]
        told = subject.config.get(name)
        used = workers[name] if told is None else told
        found = None if used is None else subject.find(name, used)
        yield name + VERSION, version_of(subject, kind, found)
