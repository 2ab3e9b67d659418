"""Validates the parts of a connector config that have definitions of their own.

- Client overrides, which the worker's policy must allow (KIP-458). Kafka:
  `AbstractHerder#validateClientOverrides`, `connector.policy`.
- The settings of converters (KAFKA-13329). Kafka: `AbstractHerder#validateConverterConfig`.
"""

from collections.abc import Iterator, Mapping

from controlplane.core.configdef.check_result import KeyCheck
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.configdef.value_parser import ConfigValue, InvalidValue, JavaClass, parse
from controlplane.core.java.java_library import trim
from controlplane.core.records import Properties
from controlplane.core.validation.connector_rules import has_dead_letters
from controlplane.core.validation.override_policy import policy_error
from controlplane.core.validation.result import Validation, in_hash_order, prefixed
from controlplane.core.validation.subject import ValidationSubject

_ANSWER_ORDER = ("producer", "consumer", "admin")
"""Kinds of clients in the order of the answer (`AbstractHerder#mergeConfigInfos`)."""


def check_overrides(subject: ValidationSubject, kind: str) -> Iterator[Validation]:
    """Results of the overrides, one per client that a connector of this kind uses.

    Clients are checked in the order of `_clients` and answered in that of `_ANSWER_ORDER`.

    Raises:
        InvalidValue: a value is not of its key's type.
    """
    if not subject.profile.overrides_validated:
        return
    results: dict[str, Validation] = {}
    for client in _clients(subject, kind):
        prefix = f"{client}.override."
        if overrides := subject.part(prefix):
            results[client] = _checked_overrides(subject, client, prefix, overrides)
    yield from (results[client] for client in _ANSWER_ORDER if client in results)


def _clients(subject: ValidationSubject, kind: str) -> Iterator[str]:
    """Kinds of clients that the connector uses, in the order of the checks."""
    source, dead_letters = kind == "source", has_dead_letters(subject)
    if not subject.profile.overrides_by_client:
        yield from ("producer",) if source else ("consumer", "admin")[: 1 + dead_letters]
        return
    own_topic = trim(subject.config.get("offsets.storage.topic") or "")
    own_offsets = source and (subject.worker.exactly_once_source or bool(own_topic))
    creates = any(key.startswith("topic.creation.") for key in subject.config)
    if source or dead_letters:
        yield "producer"
    if own_offsets or (creates if source else dead_letters):
        yield "admin"
    if own_offsets or not source:
        yield "consumer"


def _checked_overrides(
    subject: ValidationSubject, client: str, prefix: str, texts: Properties
) -> Validation:
    """Result of the overrides of one client. Raises `InvalidValue`."""
    # Older releases parse the overrides of every client by the definition of the producer.
    by_client = subject.profile.overrides_by_client
    definition = subject.path.definition(client if by_client else "producer")
    keys = {key.name: key for key in definition}
    checks: dict[str, KeyCheck] = {}
    for name, text in texts.items():
        value = _parsed(subject, keys[name], text) if name in keys else text
        error = policy_error(name, subject.worker, subject.profile)
        checks[name] = KeyCheck(name, value, () if error is None else (error,))
    return prefixed(keys, in_hash_order(checks), prefix)


def _parsed(subject: ValidationSubject, key: ConfigKey, text: str | None) -> ConfigValue:
    """Value of an override. Raises `InvalidValue`, but not for a value from a config provider."""
    try:
        return parse(key, text, subject.find)
    except InvalidValue:
        if not subject.worker.is_provided(text or ""):
            raise
        return text


# --- converters ---------------------------------------------------------------------------------

_TYPE = "converter.type"
"""Setting that tells a converter its use: key, value or header. A config may override it."""


def check_converters(
    subject: ValidationSubject, checked: Mapping[str, KeyCheck]
) -> Iterator[Validation]:
    """Results of the settings of each converter that the config names without an error.

    `checked` has the results of the connector's keys.
    """
    if not subject.profile.converters_validated:
        return
    for role in ("header", "key", "value"):
        name = f"{role}.converter"
        check = checked.get(name) if subject.config.get(name) is not None else None
        if check is not None and isinstance(check.value, JavaClass) and not check.errors:
            yield from _checked_converter(subject, role, check.value)


def _checked_converter(
    subject: ValidationSubject, role: str, java_class: JavaClass
) -> Iterator[Validation]:
    """Result of one converter's settings; none if its definition is unknown."""
    prefix = f"{role}.converter."
    kind = "header_converter" if role == "header" else "converter"
    for plugin in subject.path.named(java_class.name):
        if plugin.type == kind and plugin.config is not None:
            definition = subject.path.definition_of(plugin)
            keys = {key.name: key for key in definition.keys}
            config = {_TYPE: role} | dict(subject.part(prefix))
            values = subject.with_config(config).check(definition)
            yield prefixed(keys, in_hash_order(values), prefix)
