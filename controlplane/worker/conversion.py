"""Conversion of source records to bytes, and of the log's records to sink records."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from controlplane.connect.converters import (
    Converter,
    HeaderConverter,
    converter_for,
    header_converter_for,
)
from controlplane.connect.data import SchemaAndValue
from controlplane.connect.errors import ConnectError
from controlplane.connect.records import RecordHeader, SinkRecord, SourceRecord
from controlplane.core.entry import Entry
from controlplane.worker.clients import ProducerRecord
from controlplane.worker.settings import RuntimeSettings
from controlplane.worker.task_instance import TaskIdentity


class Converters(NamedTuple):
    """The three converters of a connector."""

    key: Converter
    value: Converter
    headers: HeaderConverter


class SourcePipeline(Protocol):
    """The way of a record from a source task to its producer."""

    def converted(self, record: SourceRecord) -> ProducerRecord | None:
        """Transform and convert a record; None: it was filtered, or its error is tolerated.

        Raises:
            Exception: the record fails, and with it the task.
        """
        ...


class SinkPipeline(Protocol):
    """The way of a record from the consumer to a sink task."""

    def converted(self, entry: Entry) -> SinkRecord | None:
        """Convert and transform a record; None: it was filtered, or its error is tolerated."""
        ...


class PlainSourcePipeline:
    """Converts records, without transformations."""

    def __init__(self, converters: Converters) -> None:
        self._converters = converters

    def converted(self, record: SourceRecord) -> ProducerRecord | None:
        """Convert a record."""
        key, value, _ = self._converters
        named = tuple((header.name, self._header(record, header)) for header in record.headers)
        return ProducerRecord(
            topic=record.topic,
            key=key.from_connect(
                record.topic, SchemaAndValue(record.key, record.key_schema), named
            ),
            value=value.from_connect(
                record.topic, SchemaAndValue(record.value, record.value_schema), named
            ),
            partition=record.kafka_partition,
            timestamp=record.timestamp,
            headers=named,
        )

    def _header(self, record: SourceRecord, header: RecordHeader) -> bytes | None:
        datum = SchemaAndValue(header.value, header.schema)
        return self._converters.headers.from_header(record.topic, header.name, datum)


class PlainSinkPipeline:
    """Converts records, without transformations."""

    def __init__(self, converters: Converters) -> None:
        self._converters = converters

    def converted(self, entry: Entry) -> SinkRecord | None:
        """Convert a record."""
        key = self._converters.key.to_connect(entry.topic, entry.key, entry.headers)
        value = self._converters.value.to_connect(entry.topic, entry.value, entry.headers)
        return SinkRecord(
            topic=entry.topic,
            kafka_partition=entry.partition,
            kafka_offset=entry.offset,
            key=key.value,
            key_schema=key.schema,
            value=value.value,
            value_schema=value.schema,
            timestamp=entry.timestamp,
            headers=tuple(self._header(entry.topic, *header) for header in entry.headers),
        )

    def _header(self, topic: str, name: str, value: bytes | None) -> RecordHeader:
        datum = self._converters.headers.to_header(topic, name, value)
        return RecordHeader(name, datum.value, datum.schema)


class Pipelines:
    """Makes the pipelines of tasks from connector configs and the worker's defaults."""

    def __init__(self, settings: RuntimeSettings) -> None:
        self._settings = settings

    def source(self, task: TaskIdentity, config: Mapping[str, str]) -> SourcePipeline:
        """Return the pipeline of a source task."""
        del task
        return PlainSourcePipeline(self._converters(config))

    def sink(self, task: TaskIdentity, config: Mapping[str, str]) -> SinkPipeline:
        """Return the pipeline of a sink task."""
        del task
        return PlainSinkPipeline(self._converters(config))

    def _converters(self, config: Mapping[str, str]) -> Converters:
        """Return the connector's converters, or else the worker's."""
        settings = self._settings
        headers = header_converter_for(config.get("header.converter") or settings.header_converter)
        headers.configure(prefixed(config, "header.converter."), is_key=False)
        return Converters(
            self._converter("key", config, settings.key_converter),
            self._converter("value", config, settings.value_converter),
            headers,
        )

    def _converter(self, role: str, config: Mapping[str, str], default: str | None) -> Converter:
        """Return the converter of keys or values; its settings come from the same place as it.

        Raises:
            ConnectError: neither the connector nor the worker names one.
        """
        setting = f"{role}.converter"
        name = config.get(setting) or default
        if name is None:
            raise ConnectError(f"Neither the connector nor the worker has a {setting}")
        own = prefixed(config, f"{setting}.")
        of_worker = prefixed(self._settings.converter_settings, f"{setting}.")
        converter: Converter = converter_for(name)
        converter.configure(own if setting in config else of_worker, is_key=role == "key")
        return converter


def prefixed(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the settings below a prefix, without it."""
    return {
        key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)
    }
