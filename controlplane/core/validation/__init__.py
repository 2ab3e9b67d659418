"""What a worker says to the config of a connector before anything is written.

`validate` answers everything: each key with its definition, value and errors. `refusal` says in one
text why a config is not taken. Where the class path does not know a connector and may lack some,
only what is Connect's own is looked at; without Kafka's own definitions, nothing but that there is
a class. Kafka: `AbstractHerder#validateConnectorConfig`.
"""

from typing import NamedTuple

from controlplane.core.configdef.check import groups
from controlplane.core.configdef.checked import Findings, blame
from controlplane.core.configdef.definition import Definition
from controlplane.core.configdef.keys import ConfigKey
from controlplane.core.configdef.values import Invalid
from controlplane.core.context import Context
from controlplane.core.plan import Reason, Rejected
from controlplane.core.plugins import UNKNOWN_TYPE, Plugin
from controlplane.core.records import Properties
from controlplane.core.validation.aliases import aliased_keys, check_aliased
from controlplane.core.validation.capabilities import errors_of
from controlplane.core.validation.converters import check_converters
from controlplane.core.validation.finding import find_connector
from controlplane.core.validation.overrides import check_overrides
from controlplane.core.validation.result import (
    BAD_REQUEST,
    CONFIG,
    Failed,
    Failure,
    Validation,
    generated,
    in_hash_order,
    merged,
)
from controlplane.core.validation.sinks import check_sink, fail_at_first_error
from controlplane.core.validation.sources import check_source
from controlplane.core.validation.subject import Subject
from controlplane.core.validation.versions import connects_own, hide_unused, recommend

__all__ = ["Failure", "Validation", "refusal", "validate"]

_INVALID = "Connector configuration is invalid and contains"
_SEE_ALSO = "You can also find the above list of errors at the endpoint"
_NULL = "Null value can not be supplied as the configuration value."


def refusal(config: Properties, context: Context) -> Rejected | None:
    """Why a worker does not take this config, the connector's name in it; None if it is valid."""
    looked = _look(config, context)
    if isinstance(looked, Failure):
        askers = looked.thrown == BAD_REQUEST
        return Rejected(Reason.INVALID if askers else Reason.FAILED, looked.text)
    if not looked.has_errors:  # most configs: what would be told of each key need not be made
        return None
    found = looked.told()
    if not found.error_count:
        return None
    path = "/connector-plugins" if context.profile.names_validate_endpoint else ""
    head = f"{_INVALID} the following {found.error_count} error(s):"
    foot = f"{_SEE_ALSO} `{path}/{{connectorType}}/config/validate`"
    return Rejected(Reason.INVALID, "\n".join((head, *found.errors, foot)))


def validate(config: Properties, context: Context) -> Validation | Failure:
    """Every key, its definition, value and errors; or what the worker fails at before."""
    looked = _look(config, context)
    return looked if isinstance(looked, Failure) else looked.told()


class _Looked(NamedTuple):
    """What was found under every key, before it is told."""

    subject: Subject
    plugin: Plugin
    keys: tuple[ConfigKey, ...]
    own_keys: tuple[ConfigKey, ...]
    checked: Findings
    own: Findings
    """What the connector found. It counts more than what Connect found under the same key."""
    parts: tuple[Validation, ...]
    """Client overrides and converters."""

    @property
    def has_errors(self) -> bool:
        """Whether anything at all is wrong, also what does not count in the end."""
        values = (*self.checked.values(), *self.own.values())
        return any(one.errors for one in values) or any(one.error_count for one in self.parts)

    def told(self) -> Validation:
        """The same as Connect answers it, with what it recommends."""
        recommend(self.subject, self.plugin, self.checked)
        hide_unused(self.checked)
        hide_unused(self.own)
        named = {key.name: key for key in (*self.keys, *self.own_keys)}
        in_groups = list(dict.fromkeys((*groups(self.keys), *groups(self.own_keys))))
        values = (*in_hash_order(self.checked), *in_hash_order(self.own))
        name = self.subject.config["connector.class"] or ""
        return merged(generated(name, named, values, in_groups), *self.parts)


def _look(config: Properties, context: Context) -> _Looked | Failure:
    subject = Subject.of(config, context)
    plugin = find_connector(subject)
    if isinstance(plugin, Failure):
        return plugin
    try:
        return _validated(subject.in_texts(), plugin)
    except Failed as failed:
        return failed.failure
    except Invalid as invalid:
        return Failure(CONFIG, str(invalid))


def _validated(subject: Subject, plugin: Plugin) -> _Looked:
    kind = plugin.type
    if kind == "sink" and not subject.profile.sink_errors_listed:
        fail_at_first_error(subject)
    definition = connects_own(subject, plugin)
    if more := tuple(aliased_keys(subject)):
        definition = Definition.of((*definition.keys, *more))
    keys = definition.keys
    checked = subject.check(definition)
    check_aliased(subject, checked)
    if kind == "source":
        check_source(subject, plugin, checked)
    if kind == "sink" and keys:
        check_sink(subject, checked)
    if subject.profile.refuses_nulls:
        _refuse_nulls(subject, checked)
    defined = subject.path.definition_of(plugin)
    own = _own(subject, plugin, defined)
    converters = list(check_converters(subject, checked))
    overrides = [] if kind == UNKNOWN_TYPE else list(check_overrides(subject, kind))
    parts = (*overrides, *converters)
    return _Looked(subject, plugin, keys, defined.keys, checked, own, parts)


def _refuse_nulls(subject: Subject, checked: Findings) -> None:
    for name, value in subject.config.items():
        if value is None:
            blame(checked, name, _NULL)


def _own(subject: Subject, plugin: Plugin, definition: Definition) -> Findings:
    """What the connector itself finds."""
    checked = subject.check(definition)
    for name, error in errors_of(plugin.checks, subject.config):
        blame(checked, name, error)
    if subject.profile.refuses_nulls and not subject.profile.plugins_take_nulls:
        for name in checked.keys() & subject.config.keys():
            if subject.config[name] is None:
                blame(checked, name, _NULL)
    return checked
