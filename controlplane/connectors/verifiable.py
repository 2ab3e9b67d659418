"""Twins of the connectors of Kafka's system tests that print each record.

Settings, offsets, values and printed fields are those of Kafka's `VerifiableSourceConnector` and
`VerifiableSinkConnector`. Each line is a JSON object on standard output.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from time import time
from typing import Any

import msgspec

from controlplane.connect import (
    ConnectError,
    RecordMetadata,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
)
from controlplane.connect.data import INT32, INT64, STRING, Schema, Struct
from controlplane.connect.sink import KafkaOffsets, KafkaPartition
from controlplane.connect.source import ResolvedConfig
from controlplane.connectors.throttle import Throttle

ID = "id"
"""Setting of a task with its number; also the field of a source partition."""

SEQNO = "seqno"
"""Field of a source offset: the number of the last record."""

COMPLETE_VALUE = Schema.struct(
    None, name=STRING, task=INT32, topic=STRING, time_ms=INT64, seqno=INT64
)
"""Schema of the values of a source with `complete.record.data=true`."""


class NumberedTasks:
    """Part of a connector that gives its config to each task, with the number of the task."""

    def start(self, config: ResolvedConfig) -> None:
        """Keep the config for the tasks."""
        self._config = config

    def task_configs(self, limit: int) -> Sequence[ResolvedConfig]:
        """Return a config for each task, with its number."""
        return [{**self._config, ID: str(number)} for number in range(limit)]


def next_seqno(offset: Mapping[str, Any] | None) -> int:
    """Return the number of the first record after a committed offset."""
    return 0 if offset is None else int(offset[SEQNO]) + 1


class VerifiableSourceTask(SourceTask):
    """Counts on from the committed number."""

    async def start(self, config: ResolvedConfig) -> None:
        """Read the settings.

        Raises:
            ConnectError: a number is missing or invalid.
        """
        try:
            self._id = int(config[ID])
            self._throttle = Throttle(int(config["throughput"]))
        except (KeyError, ValueError) as failure:
            raise ConnectError("Invalid VerifiableSourceTask configuration") from failure
        self._name, self._topic = config.get("name"), config["topic"]
        self._complete = config.get("complete.record.data", "").lower() == "true"
        self._partition = {ID: self._id}
        self._first = self._seqno = next_seqno(self.context.offset(self._partition))

    async def poll(self) -> Sequence[SourceRecord]:
        """Return one record, at the pace of `throughput`."""
        await self._throttle.wait(self._seqno - self._first)
        fields = self._shown_fields(self._seqno)
        _print(fields)
        record = SourceRecord(
            topic=self._topic,
            source_partition=self._partition,
            source_offset={SEQNO: self._seqno},
            key=self._id,
            key_schema=INT32,
            value=Struct(COMPLETE_VALUE, fields) if self._complete else self._seqno,
            value_schema=COMPLETE_VALUE if self._complete else INT64,
        )
        self._seqno += 1
        return [record]

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        """Print a record as committed, even one that was filtered or dropped."""
        del metadata
        _print(self._shown_fields(record.value) | {"committed": True})

    def _shown_fields(self, value: Any) -> dict[str, Any]:
        return {
            "name": self._name,
            "task": self._id,
            "topic": self._topic,
            "time_ms": _now_ms(),
            "seqno": value,
        }


class VerifiableSource(NumberedTasks, SourceConnector):
    """Source of numbered records. Settings: `topic`, `throughput` (records per second)."""

    task = VerifiableSourceTask


class VerifiableSinkTask(SinkTask):
    """Prints each record when it is put, and again when it is flushed."""

    def start(self, config: ResolvedConfig) -> None:
        """Read the settings.

        Raises:
            ConnectError: the task has no number.
        """
        try:
            self._id = int(config[ID])
        except (KeyError, ValueError) as failure:
            raise ConnectError("Invalid VerifiableSinkTask configuration") from failure
        self._name = config.get("name")
        self._unflushed: dict[KafkaPartition, list[dict[str, Any]]] = {}

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Print records; they are printed again when they are flushed."""
        now_ms = _now_ms()
        for record in records:
            fields = {
                "name": self._name,
                "task": record.key,  # a verifiable source's records have its task number as key
                "sinkTask": self._id,
                "topic": record.topic,
                "time_ms": now_ms,
                "seqno": record.value,
                "offset": record.kafka_offset,
            }
            _print(fields)
            partition = (record.topic, record.kafka_partition)
            self._unflushed.setdefault(partition, []).append(fields)

    def flush(self, offsets: KafkaOffsets) -> None:
        """Print the records of these partitions as flushed."""
        flushed = {"time_ms": _now_ms(), "flushed": True}
        for partition in offsets:
            for fields in self._unflushed.pop(partition, []):
                _print(fields | flushed)


class VerifiableSink(NumberedTasks, SinkConnector):
    """Sink that prints what it gets."""

    task = VerifiableSinkTask


def _now_ms() -> int:
    return int(time() * 1_000)


def _print(fields: Mapping[str, Any]) -> None:
    """Print one line of JSON; structs are shown as objects.

    Half of a surrogate pair, which UTF-8 lacks, becomes `?`, as in Java.
    """
    try:
        line = msgspec.json.encode(fields, enc_hook=_plain)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(fields, enc_hook=_plain, str_keys=True)
        text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
        line = text.encode("utf-8", "replace")
    sys.stdout.write(line.decode() + "\n")
    sys.stdout.flush()


def _plain(value: Any) -> Any:
    return value.to_dict() if isinstance(value, Struct) else str(value)
