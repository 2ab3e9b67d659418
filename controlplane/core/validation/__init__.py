"""Validates a connector config as a worker does before it writes anything.

`validate` returns each key with its definition, value and errors. `refusal` returns one text: the
reason why the worker refuses the config. If an unknown connector is taken to exist, only Connect's
own keys are validated. Without Kafka's own definitions, only a class name is required. Kafka:
`AbstractHerder#validateConnectorConfig`.
"""

from typing import NamedTuple

from controlplane.core.configdef.check_result import KeyChecks, add_errors
from controlplane.core.configdef.definition import Definition, groups
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.configdef.value_parser import InvalidValue
from controlplane.core.context import Context
from controlplane.core.plan import Reason, Rejected
from controlplane.core.plugins import UNKNOWN_TYPE, Plugin
from controlplane.core.records import Properties
from controlplane.core.validation.capabilities import errors_of
from controlplane.core.validation.config_parts import check_converters, check_overrides
from controlplane.core.validation.connector_lookup import find_connector
from controlplane.core.validation.connector_rules import (
    check_sink,
    check_source,
    fail_at_first_error,
)
from controlplane.core.validation.pattern_rules import check_patterns
from controlplane.core.validation.plugin_aliases import aliased_keys, check_aliased
from controlplane.core.validation.plugin_versions import (
    connector_definition,
    hide_unused,
    recommend,
)
from controlplane.core.validation.result import (
    BAD_REQUEST,
    CONFIG,
    Validation,
    ValidationAborted,
    ValidationFailure,
    generated,
    in_hash_order,
    merged,
)
from controlplane.core.validation.subject import ValidationSubject

__all__ = ["Validation", "ValidationFailure", "refusal", "validate"]

_HEAD = "Connector configuration is invalid and contains"
_FOOT = "You can also find the above list of errors at the endpoint"
_NULL_ERROR = "Null value can not be supplied as the configuration value."


def refusal(config: Properties, context: Context) -> Rejected | None:
    """Refusal of a config in which `name` is set; None: valid."""
    findings = _findings_of(config, context)
    if isinstance(findings, ValidationFailure):
        is_client_error = findings.thrown == BAD_REQUEST
        return Rejected(Reason.INVALID if is_client_error else Reason.FAILED, findings.text)
    # Most configs are valid, and need no answer.
    if not findings.has_errors:
        return None
    answer = findings.answer()
    if not answer.error_count:
        return None
    path = "/connector-plugins" if context.profile.names_validate_endpoint else ""
    head = f"{_HEAD} the following {answer.error_count} error(s):"
    foot = f"{_FOOT} `{path}/{{connectorType}}/config/validate`"
    return Rejected(Reason.INVALID, "\n".join((head, *answer.errors, foot)))


def validate(config: Properties, context: Context) -> Validation | ValidationFailure:
    """Validate a config: definition, value and errors of every key, or the worker's failure."""
    findings = _findings_of(config, context)
    return findings if isinstance(findings, ValidationFailure) else findings.answer()


class _KeyFindings(NamedTuple):
    """Results for every key, before they take the form of Connect's answer."""

    subject: ValidationSubject
    plugin: Plugin
    keys: tuple[ConfigKey, ...]
    own_keys: tuple[ConfigKey, ...]
    checked: KeyChecks
    own: KeyChecks
    """Results of the connector's own definition; they win for a key that Connect defines too."""
    parts: tuple[Validation, ...]
    """Results of client overrides, then of converters."""

    @property
    def has_errors(self) -> bool:
        """True if any key has an error, including errors that the answer drops."""
        values = (*self.checked.values(), *self.own.values())
        return any(key.errors for key in values) or any(part.error_count for part in self.parts)

    def answer(self) -> Validation:
        """The answer of Connect. Adds recommended values, and hides unused version keys."""
        recommend(self.subject, self.plugin, self.checked)
        hide_unused(self.checked)
        hide_unused(self.own)
        keys_by_name = {key.name: key for key in (*self.keys, *self.own_keys)}
        group_names = list(dict.fromkeys((*groups(self.keys), *groups(self.own_keys))))
        values = (*in_hash_order(self.checked), *in_hash_order(self.own))
        name = self.subject.config["connector.class"] or ""
        return merged(generated(name, keys_by_name, values, group_names), *self.parts)


def _findings_of(config: Properties, context: Context) -> _KeyFindings | ValidationFailure:
    """Results for every key, or the exception that the worker throws."""
    subject = ValidationSubject.of(config, context)
    plugin = find_connector(subject)
    if isinstance(plugin, ValidationFailure):
        return plugin
    try:
        return _validated(subject.in_texts(), plugin)
    except ValidationAborted as failed:
        return failed.failure
    except InvalidValue as invalid:
        return ValidationFailure(CONFIG, str(invalid))


def _validated(subject: ValidationSubject, plugin: Plugin) -> _KeyFindings:
    """Run the checks in Kafka's order, as an exception ends the validation.

    Raises:
        ValidationAborted: the worker throws instead of answering.
        InvalidValue: a client override is not of its key's type.
    """
    kind = plugin.type
    if kind == "sink" and not subject.profile.sink_errors_listed:
        fail_at_first_error(subject)
    definition = connector_definition(subject, plugin)
    if alias_keys := tuple(aliased_keys(subject)):
        definition = Definition.of((*definition.keys, *alias_keys))
    keys = definition.keys
    checked = subject.check(definition)
    check_aliased(subject, checked)
    if kind == "source":
        check_source(subject, plugin, checked)
    if kind == "sink" and keys:
        check_sink(subject, checked)
    if subject.path.running_here:
        check_patterns(subject, kind, checked)
    if subject.profile.refuses_nulls:
        _refuse_nulls(subject, checked)
    defined = subject.path.definition_of(plugin)
    own = _check_own_keys(subject, plugin, defined)
    converters = list(check_converters(subject, checked))
    overrides = [] if kind == UNKNOWN_TYPE else list(check_overrides(subject, kind))
    parts = (*overrides, *converters)
    return _KeyFindings(subject, plugin, keys, defined.keys, checked, own, parts)


def _refuse_nulls(subject: ValidationSubject, checked: KeyChecks) -> None:
    for name, value in subject.config.items():
        if value is None:
            add_errors(checked, name, _NULL_ERROR)


def _check_own_keys(
    subject: ValidationSubject, plugin: Plugin, definition: Definition
) -> KeyChecks:
    """Check the keys that the connector itself defines, and its rule `checks`."""
    checked = subject.check(definition)
    for name, error in errors_of(plugin.checks, subject.config):
        add_errors(checked, name, error)
    if subject.profile.refuses_nulls and not subject.profile.plugins_take_nulls:
        for name in checked.keys() & subject.config.keys():
            if subject.config[name] is None:
                add_errors(checked, name, _NULL_ERROR)
    return checked
