"""Twin of Kafka's `SchemaSourceConnector`: records with structs, for system tests."""

import asyncio
import sys
from collections.abc import Sequence

import msgspec

from controlplane.connect import ConnectError, SourceConnector, SourceRecord, SourceTask
from controlplane.connect.data import (
    BOOLEAN,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    Schema,
    Struct,
)
from controlplane.connect.source import ResolvedConfig
from controlplane.connectors.throttle import Throttle
from controlplane.connectors.verifiable import ID, SEQNO, NumberedTasks, next_seqno

_FIRST_FIELDS = {
    "boolean": BOOLEAN,
    "int": INT32,
    "long": INT64,
    "float": FLOAT32,
    "double": FLOAT64,
    "partitioning": INT32,
}
_LAST_FIELDS = {"id": INT32, "seqno": INT64}

VALUE = Schema.struct("record", **_FIRST_FIELDS, **_LAST_FIELDS).replace(version=1)
"""Schema of the values; with `multiple.schema=true`, of every second value."""

SECOND_VALUE = Schema.struct(
    "record",
    **_FIRST_FIELDS,
    string=STRING.replace(default="abc"),
    **_LAST_FIELDS,
).replace(version=2)
"""Schema of the other values with `multiple.schema=true`."""

REST_S = 1.0
"""Length of an empty poll after the last record."""


class SchemaSourceTask(SourceTask):
    """Counts on from the committed number, for `num.messages` records."""

    async def start(self, config: ResolvedConfig) -> None:
        """Read the settings.

        Raises:
            ConnectError: a number is missing or invalid.
        """
        try:
            self._id = int(config[ID])
            self._most = int(config["num.messages"])
            self._partitions = int(config.get("partition.count", "1"))
            self._throttle = Throttle(int(config["throughput"]))
        except (KeyError, ValueError) as failure:
            raise ConnectError("Invalid SchemaSourceTask configuration") from failure
        self._topic = config["topic"]
        self._alternates = config.get("multiple.schema", "").lower() == "true"
        self._partition = {ID: self._id}
        self._first = self._seqno = next_seqno(self.context.offset(self._partition))

    async def poll(self) -> Sequence[SourceRecord]:
        """Return one record, at the pace of `throughput`; none after the last one."""
        count = self._seqno - self._first
        if count >= self._most:
            await asyncio.sleep(REST_S)
            return []
        await self._throttle.wait(count)
        value = self._value(SECOND_VALUE if self._alternates and count % 2 else VALUE)
        record = SourceRecord(
            topic=self._topic,
            kafka_partition=self._id,
            source_partition=self._partition,
            source_offset={SEQNO: self._seqno},
            key="key",
            key_schema=STRING,
            value=value,
            value_schema=value.schema,
        )
        shown = msgspec.json.encode({"task": self._id, "seqno": self._seqno}).decode()
        sys.stdout.write(shown + "\n")
        sys.stdout.flush()
        self._seqno += 1
        return [record]

    def _value(self, schema: Schema) -> Struct:
        fixed = {"boolean": True, "int": 12, "long": 12, "float": 12.2, "double": 12.2}
        counted = {
            "partitioning": self._seqno % self._partitions,
            "id": self._id,
            "seqno": self._seqno,
        }
        text = {"string": "def"} if schema is SECOND_VALUE else {}
        return Struct(schema, fixed | counted | text)


class SchemaSource(NumberedTasks, SourceConnector):
    """Source of structs. Settings: `topic`, `num.messages`, `throughput` (records per second)."""

    task = SchemaSourceTask
