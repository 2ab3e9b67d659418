"""Defaults and recommended values for converters and versions of plugins (KIP-891).

Each plugin has one version here; requested version ranges are not evaluated.
"""

from collections.abc import Iterator

from controlplane.core.configdef.check_result import KeyChecks, set_facts
from controlplane.core.configdef.definition import Definition
from controlplane.core.configdef.value_parser import ConfigValue, JavaClass
from controlplane.core.plugins import Plugin
from controlplane.core.releases.profiles import Profile
from controlplane.core.validation.subject import ValidationSubject

_CONNECTOR = "connector.plugin.version"
_CONVERTER_KINDS = {
    "key.converter": "converter",
    "value.converter": "converter",
    "header.converter": "header_converter",
}
VERSION = ".plugin.version"
"""Suffix of the key that sets the version of a plugin."""


def connector_definition(subject: ValidationSubject, plugin: Plugin) -> Definition:
    """Connect's own definition, with the worker's converters and present versions as defaults."""
    defaults = version_default(plugin, subject.profile)
    if defaults:
        defaults |= dict(_converter_defaults(subject))
    return subject.path.connector_definition(plugin.type, defaults)


def version_default(plugin: Plugin, profile: Profile) -> dict[str, str | None]:
    """Default of the key for a connector's version; empty in a release without that key."""
    return {_CONNECTOR: plugin.version} if profile.versioned_plugins else {}


def recommend(subject: ValidationSubject, plugin: Plugin, checked: KeyChecks) -> None:
    """Recommend the available converters, and the present versions of those in use."""
    if not (subject.profile.versioned_plugins and subject.path.definition("connector")):
        # The release lacks version keys, or the catalogue lacks Kafka's definitions. A search in
        # `checked` is not enough: a null in the config adds a version key there, with an error.
        return
    set_facts(checked, _CONNECTOR, recommended=[plugin.version])
    for name, kind in _CONVERTER_KINDS.items():
        converters = [converter.class_name for converter in subject.path.of_kind(kind)]
        set_facts(checked, name, recommended=converters)
        version = version_of(subject, kind, checked[name].value)
        set_facts(checked, name + VERSION, recommended=[] if version is None else [version])


def hide_unused(checked: KeyChecks) -> None:
    """Hide the key of a converter's version if there is no converter."""
    for name in _CONVERTER_KINDS:
        if name in checked and name + VERSION in checked:
            set_facts(checked, name + VERSION, visible=checked[name].value is not None)


def version_of(subject: ValidationSubject, kind: str, value: ConfigValue) -> str | None:
    """Version of a plugin of this kind; None: no such plugin, or unknown."""
    plugins = subject.path.named(value.name) if isinstance(value, JavaClass) else ()
    return next((plugin.version for plugin in plugins if plugin.type == kind), None)


def _converter_defaults(subject: ValidationSubject) -> Iterator[tuple[str, str | None]]:
    """Defaults of converter keys: the worker's class, and the version of the class in use."""
    worker = subject.worker
    worker_converters = {
        "key.converter": worker.key_converter,
        "value.converter": worker.value_converter,
        "header.converter": worker.header_converter,
    }
    for name, kind in _CONVERTER_KINDS.items():
        yield name, worker_converters[name]
        own = subject.config.get(name)
        used = worker_converters[name] if own is None else own
        java_class = None if used is None else subject.find(name, used)
        yield name + VERSION, version_of(subject, kind, java_class)
