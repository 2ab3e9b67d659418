"""Way of a record between a task and the log: transformations, converters, error handling.

A source's record is transformed, then converted; a sink's is converted, then transformed.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from controlplane.connect.converters import (
    Converter,
    HeaderConverter,
    converter_for,
    header_converter_for,
)
from controlplane.connect.data import SchemaAndValue
from controlplane.connect.errors import ConnectError, DataError
from controlplane.connect.records import RecordHeader, SinkRecord, SourceRecord
from controlplane.connect.transforms import ConnectRecord, Predicate, Transformation, replaced
from controlplane.core.configdef.key_definition import with_defaults
from controlplane.core.entry import Entry, Headers
from controlplane.core.java.java_library import trim
from controlplane.core.text.safe_text import utf8_text
from controlplane.unrun_calls import checked_result
from controlplane.worker.connector_classes import ConnectorClasses, class_name
from controlplane.worker.data_topics.clients import ProducerRecord
from controlplane.worker.metrics.error_metrics import ErrorMetrics
from controlplane.worker.records.record_errors import ErrorSettings, RecordErrors, Stage
from controlplane.worker.settings import RuntimeSettings

T = TypeVar("T")


class Converters(NamedTuple):
    """The three converters of a connector."""

    key: Converter
    value: Converter
    headers: HeaderConverter


class ChainLink(NamedTuple):
    """A transformation, and the records that it applies to."""

    transformation: Transformation
    predicate: Predicate | None
    negated: bool

    def applied(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the transformed record, or the record itself if it is not selected."""
        if self.predicate is not None:
            selected = checked_result(self.predicate.test(record))
            if bool(selected) is self.negated:
                return record
        transformed = self.transformation.apply(record)
        if transformed is None or isinstance(transformed, type(record)):
            return transformed
        raise ConnectError(
            f"{type(self.transformation).__name__}.apply returned {type(transformed).__name__} "
            f"instead of a {type(record).__name__} or None"
        )


class _StageRun(Protocol):
    def __call__(self, stage: Stage, name: str, operation: Callable[[], T], /) -> T | None: ...


class _Pipeline:
    """Base of the pipelines of source and sink tasks."""

    def __init__(
        self, converters: Converters, chain: Sequence[ChainLink], errors: RecordErrors
    ) -> None:
        self._converters = converters
        self._chain = chain
        self.errors = errors

    def close(self) -> Sequence[BaseException]:
        """Close all transformations and predicates, in their order; return the failures."""
        failures: list[BaseException] = []
        for link in self._chain:
            for plugin in (link.transformation, link.predicate):
                try:
                    if plugin is not None:
                        plugin.close()
                except BaseException as failure:  # noqa: BLE001 - the others must be closed, too
                    failures.append(failure)
        return failures

    def _converting(self, entry: Entry | None) -> _StageRun:
        """Return a function that runs the converters of one record, until one of them fails."""
        failed = self.errors.failed

        def run(stage: Stage, name: str, operation: Callable[[], T], /) -> T | None:
            if self.errors.failed > failed:
                return None
            return self.errors.run(stage, name, operation, entry)

        return run

    def _written_header(self, topic: str, header: RecordHeader) -> tuple[str, bytes | None]:
        datum = SchemaAndValue(header.value, header.schema)
        name = str.__str__(header.name)
        return name, self._converters.headers.from_header(topic, name, datum)

    def _transformed(self, record: ConnectRecord, entry: Entry | None) -> ConnectRecord | None:
        current: ConnectRecord | None = record
        for link in self._chain:
            assert current is not None
            name = class_name(type(link.transformation))
            apply = partial(link.applied, current)
            current = self.errors.run(Stage.TRANSFORMATION, name, apply, entry)
            if current is None:
                return None
        return current


class SourcePipeline(_Pipeline):
    """The way of a record from a source task to its producer."""

    def converted(self, record: SourceRecord, place: str = "") -> ProducerRecord | None:
        """Transform and convert a record; None: it was dropped, or its error is tolerated.

        `place`: place in the author's code from which the record comes.

        Raises:
            ToleranceExceeded: the record failed, and with it the task.
            DataError: its topic, partition, time or a header name is invalid.
        """
        transformed = self._transformed(_protected(record) if self._chain else record, None)
        if not isinstance(transformed, SourceRecord):
            return None
        # None is a valid key or value, so only the count shows a tolerated failure.
        failed = self.errors.failed
        converted = self._converted(transformed, place)
        return None if self.errors.failed > failed else converted

    def _converted(self, record: SourceRecord, place: str) -> ProducerRecord:
        _check_names(record)
        partition, timestamp = partition_and_time(record)
        key, value, headers = self._converters
        topic, run = str.__str__(record.topic), self._converting(None)
        named: Headers = (
            run(
                Stage.HEADER_CONVERTER,
                class_name(type(headers)),
                lambda: tuple(self._written_header(topic, header) for header in record.headers),
            )
            or ()
        )
        key_datum = SchemaAndValue(record.key, record.key_schema)
        value_datum = SchemaAndValue(record.value, record.value_schema)
        return ProducerRecord(
            topic=topic,
            key=run(
                Stage.KEY_CONVERTER,
                class_name(type(key)),
                lambda: key.from_connect(topic, key_datum, named),
            ),
            value=run(
                Stage.VALUE_CONVERTER,
                class_name(type(value)),
                lambda: value.from_connect(topic, value_datum, named),
            ),
            partition=partition,
            timestamp=timestamp,
            headers=named,
            place=place,
        )


def _check_names(record: SourceRecord) -> None:
    """Check the names that the log would refuse, or fail on.

    Raises:
        DataError: a name is invalid.
    """
    topic = record.topic
    if not isinstance(topic, str) or not topic:
        raise DataError(f"Invalid topic: {topic!r}. A topic must be a text that is not empty.")
    for header in record.headers:
        if not isinstance(header.name, str):
            raise DataError(f"Invalid header name: {header.name!r}. It must be a text.")
        name = str.__str__(header.name)
        if utf8_text(name) != name:
            raise DataError(f"Invalid header name: {name!r}. UTF-8 cannot hold it.")


NO_TIMESTAMP = -1
"""Time of a record without one (`RecordBatch#NO_TIMESTAMP`)."""

_INT_BITS, _LONG_BITS = 32, 64
_PRINTED_BITS = 1_000


def _known_time(timestamp: int | None) -> int | None:
    """Return the time of a record, in ms; None if it has none."""
    return None if timestamp == NO_TIMESTAMP else timestamp


def _plain(kind: str, number: object, bits: int) -> int:
    """Return the number of a field as a plain `int`.

    The author's code may pass an instance of a subclass of `int` that overrides methods.

    Raises:
        DataError: it is no number, or Java's type of the field cannot hold it.
    """
    if not isinstance(number, int):
        raise DataError(f"Invalid {kind}: {number!r}. It must be an int.")
    plain = int.__int__(number)
    length = plain.bit_length()
    if length >= bits:
        # Python refuses to print very long numbers.
        shown = plain if length <= _PRINTED_BITS else f"a number of {length} bits"
        raise DataError(f"Invalid {kind}: {shown}. It must fit in {bits} bits.")
    return plain


def _natural(kind: str, name: str, number: object, bits: int) -> int:
    """Return the plain number of a field of a source's record.

    Raises:
        DataError: it is negative, or `_plain` refuses it.
    """
    plain = _plain(kind, number, bits)
    if plain < 0:
        raise DataError(f"Invalid {kind}: {plain}. {name} should always be non-negative or null.")
    return plain


def partition_and_time(record: SourceRecord) -> tuple[int | None, int | None]:
    """Return the plain partition and time of a record; None: it has none.

    Raises:
        DataError: one of them is invalid (`ProducerRecord`).
    """
    partition, timestamp = record.kafka_partition, record.timestamp
    if partition is not None:
        partition = _natural("partition", "Partition number", partition, _INT_BITS)
    if isinstance(timestamp, int):
        timestamp = _known_time(int.__int__(timestamp))
    if timestamp is not None:
        timestamp = _natural("timestamp", "Timestamp", timestamp, _LONG_BITS)
    return partition, timestamp


def _protected(record: SourceRecord) -> SourceRecord:
    """Return a copy for transformations: changes of its offset do not reach the task."""
    partition, offset = record.source_partition, record.source_offset
    return replaced(
        record,
        source_partition=None if partition is None else dict(partition),
        source_offset=None if offset is None else dict(offset),
    )


class DeliveredRecord(SinkRecord, frozen=True, kw_only=True):
    """Record in the hands of a sink, with its origin (Kafka: `InternalSinkRecord`).

    A sink may report it long after `put`.
    """

    entry: Entry
    """The record as it is in the log: it becomes the dead letter."""


class SinkPipeline(_Pipeline):
    """The way of a record from the consumer to a sink task."""

    def converted(self, entry: Entry, topics: dict[str, None]) -> SinkRecord | None:
        """Convert and transform a record; None: it was dropped, or its error is tolerated.

        Once it is converted, its topic is added to `topics` (KIP-558).

        Raises:
            ToleranceExceeded: the record failed, and with it the task.
        """
        failed = self.errors.failed
        record = self._converted(entry)
        if self.errors.failed > failed:
            return None
        topics[entry.topic] = None
        transformed = self._transformed(record, entry)
        if not isinstance(transformed, SinkRecord):
            return None
        return DeliveredRecord(
            topic=transformed.topic,
            kafka_partition=transformed.kafka_partition,
            kafka_offset=transformed.kafka_offset,
            value=transformed.value,
            value_schema=transformed.value_schema,
            key=transformed.key,
            key_schema=transformed.key_schema,
            timestamp=transformed.timestamp,
            timestamp_type=transformed.timestamp_type,
            headers=transformed.headers,
            original_topic=entry.topic,
            original_kafka_partition=entry.partition,
            original_kafka_offset=entry.offset,
            entry=entry,
        )

    def _converted(self, entry: Entry) -> SinkRecord:
        key, value, headers = self._converters
        run = self._converting(entry)
        nothing = SchemaAndValue(None)
        key_datum = run(
            Stage.KEY_CONVERTER,
            class_name(type(key)),
            lambda: key.to_connect(entry.topic, entry.key, entry.headers),
        )
        value_datum = run(
            Stage.VALUE_CONVERTER,
            class_name(type(value)),
            lambda: value.to_connect(entry.topic, entry.value, entry.headers),
        )
        named = run(
            Stage.HEADER_CONVERTER,
            class_name(type(headers)),
            lambda: tuple(self._read_header(entry.topic, *header) for header in entry.headers),
        )
        return SinkRecord(
            topic=entry.topic,
            kafka_partition=entry.partition,
            kafka_offset=entry.offset,
            key=(key_datum or nothing).value,
            key_schema=(key_datum or nothing).schema,
            value=(value_datum or nothing).value,
            value_schema=(value_datum or nothing).schema,
            timestamp=_known_time(entry.timestamp),
            timestamp_type="NoTimestampType" if entry.timestamp == NO_TIMESTAMP else "CreateTime",
            headers=named or (),
        )

    def reverted(self, record: SinkRecord) -> Entry:
        """Return a log entry of plain values for a record that the sink itself has made.

        Raises:
            Exception: it cannot be converted.
        """
        key, value, _ = self._converters
        topic, timestamp = str.__str__(record.topic), record.timestamp
        named: Headers = tuple(self._written_header(topic, header) for header in record.headers)
        return Entry(
            topic,
            _plain("partition", record.kafka_partition, _INT_BITS),
            _plain("offset", record.kafka_offset, _LONG_BITS),
            NO_TIMESTAMP if timestamp is None else _plain("timestamp", timestamp, _LONG_BITS),
            key.from_connect(topic, SchemaAndValue(record.key, record.key_schema), named),
            value.from_connect(topic, SchemaAndValue(record.value, record.value_schema), named),
            named,
        )

    def _read_header(self, topic: str, name: str, value: bytes | None) -> RecordHeader:
        datum = self._converters.headers.to_header(topic, name, value)
        return RecordHeader(name, datum.value, datum.schema)


class Pipelines:
    """Makes the pipelines of tasks from connector configs and the worker's defaults."""

    def __init__(self, classes: ConnectorClasses, settings: RuntimeSettings) -> None:
        self._classes = classes
        self._settings = settings

    def source(
        self, config: Mapping[str, str], metrics: ErrorMetrics | None = None
    ) -> SourcePipeline:
        """Return the pipeline of a source task; failed records are counted in `metrics`.

        Raises:
            ConnectError: a class is missing, or a setting invalid.
        """
        errors = RecordErrors(ErrorSettings.of(config), metrics)
        return SourcePipeline(self._converters(config), self._chain(config), errors)

    def sink(self, config: Mapping[str, str], metrics: ErrorMetrics | None = None) -> SinkPipeline:
        """Return the pipeline of a sink task; failed records are counted in `metrics`.

        Raises:
            ConnectError: a class is missing, or a setting invalid.
        """
        errors = RecordErrors(ErrorSettings.of(config), metrics)
        return SinkPipeline(self._converters(config), self._chain(config), errors)

    def _chain(self, config: Mapping[str, str]) -> list[ChainLink]:
        """Make the transformations; if one cannot be made, those before it are closed."""
        with ExitStack() as unfinished:
            chain = [
                self._link(config, alias, unfinished) for alias in _aliases(config, "transforms")
            ]
            unfinished.pop_all()
        return chain

    def _link(self, config: Mapping[str, str], alias: str, unfinished: ExitStack) -> ChainLink:
        settings = prefixed(config, f"transforms.{alias}.")
        transformation = self._classes.transformation(trim(settings.pop("type", "")))()
        predicate = settings.pop("predicate", None)
        negated = settings.pop("negate", "false").strip().lower() == "true"
        transformation.configure(with_defaults(transformation.config, settings))
        unfinished.callback(_close_quietly, transformation)
        return ChainLink(
            transformation,
            None if predicate is None else self._predicate(config, trim(predicate), unfinished),
            negated,
        )

    def _predicate(self, config: Mapping[str, str], alias: str, unfinished: ExitStack) -> Predicate:
        settings = prefixed(config, f"predicates.{alias}.")
        if "type" not in settings:
            raise ConnectError(f"There is no predicate {alias}: predicates.{alias}.type is missing")
        predicate = self._classes.predicate(trim(settings.pop("type")))()
        predicate.configure(with_defaults(predicate.config, settings))
        unfinished.callback(_close_quietly, predicate)
        return predicate

    def _converters(self, config: Mapping[str, str]) -> Converters:
        """Return the connector's converters, or else the worker's."""
        settings = self._settings
        headers = header_converter_for(config.get("header.converter", settings.header_converter))
        headers.configure(self._converter_settings("header.converter", config), is_key=False)
        return Converters(
            self._converter("key", config, settings.key_converter),
            self._converter("value", config, settings.value_converter),
            headers,
        )

    def _converter(self, role: str, config: Mapping[str, str], default: str | None) -> Converter:
        """Return the converter of keys or values.

        Raises:
            ConnectError: neither the connector nor the worker names one.
        """
        setting = f"{role}.converter"
        name = config.get(setting, default)
        if name is None:
            raise ConnectError(
                f"Neither the connector nor the worker has a {setting}: set it in the "
                "connector's config, or in the worker's file"
            )
        converter: Converter = converter_for(name)
        converter.configure(self._converter_settings(setting, config), is_key=role == "key")
        return converter

    def _converter_settings(self, setting: str, config: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of a converter from the config that names it."""
        naming = config if setting in config else self._settings.converter_settings
        return prefixed(naming, f"{setting}.")


def unset_converters(settings: RuntimeSettings) -> list[str]:
    """Return the settings of required converters that the worker does not set."""
    required = {
        "key.converter": settings.key_converter,
        "value.converter": settings.value_converter,
    }
    return [setting for setting, converter in required.items() if converter is None]


def missing_converters(settings: RuntimeSettings) -> dict[str, str]:
    """Return the converters of the worker's settings that cannot be found, by setting."""
    named: tuple[tuple[str, str | None, Callable[[str], object]], ...] = (
        ("key.converter", settings.key_converter, converter_for),
        ("value.converter", settings.value_converter, converter_for),
        ("header.converter", settings.header_converter, header_converter_for),
    )
    missing: dict[str, str] = {}
    for setting, converter, find in named:
        if converter is None:
            continue
        try:
            find(converter)
        except ConnectError:
            missing[setting] = converter
    return missing


def _close_quietly(plugin: Transformation | Predicate) -> None:
    """Close a plugin after another has failed; a second failure must not hide the first."""
    with suppress(Exception):
        plugin.close()


def prefixed(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the settings below a prefix, without it."""
    return {
        key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)
    }


def _aliases(config: Mapping[str, str], setting: str) -> list[str]:
    texts = config.get(setting, "").split(",")
    return [alias for text in texts if (alias := text.strip())]
