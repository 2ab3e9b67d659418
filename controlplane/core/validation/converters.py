"""What a connector configures its converters with (KAFKA-13329).

Kafka: `AbstractHerder#validateConverterConfig`.
"""

from collections.abc import Iterator, Mapping

from controlplane.core.configdef.checked import Checked
from controlplane.core.configdef.values import JavaClass
from controlplane.core.validation.result import Validation, in_hash_order, prefixed
from controlplane.core.validation.subject import Subject

_TYPE = "converter.type"
"""A converter is told what it converts, unless the config says it."""


def check_converters(subject: Subject, checked: Mapping[str, Checked]) -> Iterator[Validation]:
    """Each converter of the connector's own that has been found, by its definition."""
    if not subject.profile.converters_validated:
        return
    for what in ("header", "key", "value"):
        name = f"{what}.converter"
        found = checked.get(name) if subject.config.get(name) is not None else None
        if found is not None and isinstance(found.value, JavaClass) and not found.errors:
            yield from _converter(subject, what, found.value)


def _converter(subject: Subject, what: str, found: JavaClass) -> Iterator[Validation]:
    prefix = f"{what}.converter."
    kind = "header_converter" if what == "header" else "converter"
    for plugin in subject.path.named(found.name):
        if plugin.type == kind and plugin.config is not None:
            definition = subject.path.definition_of(plugin)
            keys = {key.name: key for key in definition.keys}
            config = {_TYPE: what} | dict(subject.part(prefix))
            values = subject.with_config(config).check(definition)
            yield prefixed(keys, in_hash_order(values), prefix)
