"""API for authors of connectors.

    from controlplane.connect import Source, key

`Source` and `Sink` are whole connectors in one class. `SourceConnector`, `SourceTask`,
`SinkConnector` and `SinkTask` have the methods of Kafka's classes of these names. The page
docs/connectors.md teaches how to write, test and package one.
"""

from controlplane.connect.config import key
from controlplane.connect.config_provider import ConfigProvider, ProvidedValue
from controlplane.connect.errors import ConnectError, DataError, RetriableError
from controlplane.connect.records import (
    RecordHeader,
    RecordMetadata,
    SinkRecord,
    SourceRecord,
)
from controlplane.connect.sink import Sink, SinkConnector, SinkTask, SinkTaskContext
from controlplane.connect.source import (
    ConnectorContext,
    Source,
    SourceConnector,
    SourceRun,
    SourceTask,
    SourceTaskContext,
    TransactionContext,
)
from controlplane.core.configdef.key_definition import ConfigKey

__all__ = [
    "ConfigKey",
    "ConfigProvider",
    "ConnectError",
    "ConnectorContext",
    "DataError",
    "ProvidedValue",
    "RecordHeader",
    "RecordMetadata",
    "RetriableError",
    "Sink",
    "SinkConnector",
    "SinkRecord",
    "SinkTask",
    "SinkTaskContext",
    "Source",
    "SourceConnector",
    "SourceRecord",
    "SourceRun",
    "SourceTask",
    "SourceTaskContext",
    "TransactionContext",
    "key",
]
