"""Validates the converters that a connector config sets (KAFKA-13329).

Kafka: `AbstractHerder#validateConverterConfig`.
"""

from collections.abc import Iterator, Mapping

from controlplane.core.configdef.check_result import KeyCheck
from controlplane.core.configdef.value_parser import JavaClass
from controlplane.core.validation.result import Validation, in_hash_order, prefixed
from controlplane.core.validation.subject import ValidationSubject

_TYPE = "converter.type"
"""Setting for what a converter converts, unless the config has it."""


def check_converters(
    subject: ValidationSubject, checked: Mapping[str, KeyCheck]
) -> Iterator[Validation]:
    """Validate each converter of the connector by its own definition."""
    if not subject.profile.converters_validated:
        return
    for what in ("header", "key", "value"):
        name = f"{what}.converter"
        check = checked.get(name) if subject.config.get(name) is not None else None
        if check is not None and isinstance(check.value, JavaClass) and not check.errors:
            yield from _converter(subject, what, check.value)


def _converter(
    subject: ValidationSubject, what: str, java_class: JavaClass
) -> Iterator[Validation]:
    prefix = f"{what}.converter."
    kind = "header_converter" if what == "header" else "converter"
    for plugin in subject.path.named(java_class.name):
        if plugin.type == kind and plugin.config is not None:
            definition = subject.path.definition_of(plugin)
            keys = {key.name: key for key in definition.keys}
            config = {_TYPE: what} | dict(subject.part(prefix))
            values = subject.with_config(config).check(definition)
            yield prefixed(keys, in_hash_order(values), prefix)
