"""Single-message transformations and predicates (KIP-66, KIP-585), with some of Kafka's own.

    class Masked(Transformation):
        config = (key("field"),)

        def apply(self, record):
            return replaced(record, value={**record.value, self.settings["field"]: "***"})

A config names the class in `transforms.ALIAS.type`, or a predicate in `predicates.ALIAS.type`. The
setting `plugin.path` must name the module of the class, or the directory of the module.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import msgspec

from controlplane.connect.config import key
from controlplane.connect.errors import ConnectError
from controlplane.connect.records import SinkRecord, SourceRecord
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.configdef.value_parser import InvalidValue
from controlplane.core.validation.pattern_rules import compiled_regex

ConnectRecord = SourceRecord | SinkRecord

_AnyRecord = TypeVar("_AnyRecord", SourceRecord, SinkRecord)


class Transformation:
    """Changes or drops records, one after another."""

    kind: ClassVar[str] = "transformation"
    version: ClassVar[str] = "undefined"
    config: ClassVar[tuple[ConfigKey, ...]] = ()
    settings: Mapping[str, str]
    """Settings below the prefix of the transformation, with the defaults of `config`."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take the settings; called once, before any record."""
        self.settings = settings

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the changed record; None drops it."""
        raise NotImplementedError(f"{type(self).__name__}.apply is missing")

    def close(self) -> None:
        """Release all resources; called once, after the last record."""


class Predicate:
    """Selects the records that a transformation applies to."""

    kind: ClassVar[str] = "predicate"
    version: ClassVar[str] = "undefined"
    config: ClassVar[tuple[ConfigKey, ...]] = ()
    settings: Mapping[str, str]
    """Settings below the prefix of the predicate, with the defaults of `config`."""

    def configure(self, settings: Mapping[str, str]) -> None:
        """Take the settings; called once, before any record."""
        self.settings = settings

    def test(self, record: ConnectRecord) -> bool:
        """Return True for a record that is selected."""
        raise NotImplementedError(f"{type(self).__name__}.test is missing")

    def close(self) -> None:
        """Release all resources; called once, after the last record."""


def replaced(record: _AnyRecord, **fields: Any) -> _AnyRecord:
    """Return a copy of a record with other values in some fields."""
    return msgspec.structs.replace(record, **fields)


class Filter(Transformation):
    """Drops every record; with a predicate, those that it selects."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return None, which drops the record."""
        del record
        return None


class TopicNameMatches(Predicate):
    """Selects records whose topic matches a regular expression as a whole."""

    config = (key("pattern", doc="Java regular expression for the topic's name"),)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Compile the regular expression of the setting `pattern`."""
        super().configure(settings)
        try:
            self._pattern = compiled_regex("pattern", settings["pattern"])
        except InvalidValue as invalid:
            raise ConnectError(str(invalid)) from None

    def test(self, record: ConnectRecord) -> bool:
        """Return True if the pattern matches the whole topic name."""
        return self._pattern.matches(record.topic)


class HasHeaderKey(Predicate):
    """Selects records with at least one header of a name."""

    config = (key("name", doc="The header name", valid="non-empty string"),)

    def test(self, record: ConnectRecord) -> bool:
        """Return True if a header has the name of the setting `name`."""
        return any(header.name == self.settings["name"] for header in record.headers)


class RecordIsTombstone(Predicate):
    """Selects records with a null value."""

    def test(self, record: ConnectRecord) -> bool:
        """Return True if the value is null."""
        return record.value is None


_PACKAGE = "org.apache.kafka.connect.transforms"

TRANSFORMATIONS: Mapping[str, type[Transformation]] = {f"{_PACKAGE}.Filter": Filter}
"""Included transformations by Kafka's class names."""

PREDICATES: Mapping[str, type[Predicate]] = {
    f"{_PACKAGE}.predicates.{predicate.__name__}": predicate
    for predicate in (TopicNameMatches, HasHeaderKey, RecordIsTombstone)
}
"""Included predicates by Kafka's class names."""
