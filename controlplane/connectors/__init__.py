"""Connectors that ship with the worker.

`shipped` returns their classes by the names that configs use. A twin of one of Kafka's own
connectors has the original's name, settings and offsets. So the original's configs work unchanged,
except for files. A file source must name its file, and files must lie below `connectors.folders`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from controlplane.connect import Sink, SinkConnector, Source, SourceConnector
from controlplane.connectors.directory_source import DirectorySource
from controlplane.connectors.file_access import FileAccess, FileConnector
from controlplane.connectors.file_stream import FileStreamSink, FileStreamSource
from controlplane.connectors.generator import GeneratorSource
from controlplane.connectors.mock import MockSink, MockSource
from controlplane.connectors.schema_source import SchemaSource
from controlplane.connectors.verifiable import VerifiableSink, VerifiableSource

__all__ = [
    "DirectorySource",
    "FileStreamSink",
    "FileStreamSource",
    "GeneratorSource",
    "MockSink",
    "MockSource",
    "SchemaSource",
    "VerifiableSink",
    "VerifiableSource",
    "shipped",
]

_KAFKA = "org.apache.kafka."
_FILE = f"{_KAFKA}connect.file"
_TOOLS = f"{_KAFKA}connect.tools"
"""Package of connectors for Kafka's system tests."""

_AnyClass = type[Source | Sink | SourceConnector | SinkConnector]


def shipped(folders: Iterable[Path] = ()) -> Mapping[str, _AnyClass]:
    """Return the classes by name; their connectors may open files only below these folders."""
    access = FileAccess.to(folders)
    names: dict[_AnyClass, str] = {
        FileStreamSource: f"{_FILE}.FileStreamSourceConnector",
        FileStreamSink: f"{_FILE}.FileStreamSinkConnector",
        VerifiableSource: f"{_TOOLS}.VerifiableSourceConnector",
        VerifiableSink: f"{_TOOLS}.VerifiableSinkConnector",
        SchemaSource: f"{_TOOLS}.SchemaSourceConnector",
        MockSource: f"{_TOOLS}.MockSourceConnector",
        MockSink: f"{_TOOLS}.MockSinkConnector",
        DirectorySource: "controlplane.connectors.DirectorySource",
        GeneratorSource: "controlplane.connectors.GeneratorSource",
    }
    return {name: _named(connector, name, access) for connector, name in names.items()}


def _named(connector: _AnyClass, name: str, access: FileAccess) -> _AnyClass:
    """Return a subclass of a connector with this name, and with this access to files."""
    fields: dict[str, Any] = {"java_name": name} if name.startswith(_KAFKA) else {}
    if issubclass(connector, FileConnector):
        fields["access"] = access
    module, _, class_name = name.rpartition(".")
    return type(class_name, (connector,), fields | {"__module__": module})
