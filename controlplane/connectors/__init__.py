"""Connectors that ship with the worker.

`shipped` returns their classes by the names that configs use. Those with a twin among Kafka's own
connectors have its name, settings and offsets, so that its configs work unchanged.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from controlplane.connect import Sink, Source
from controlplane.connectors.directory_source import DirectorySource
from controlplane.connectors.file_access import FileAccess, FileConnector
from controlplane.connectors.file_stream import FileStreamSink, FileStreamSource
from controlplane.connectors.generator import GeneratorSource

__all__ = [
    "DirectorySource",
    "FileStreamSink",
    "FileStreamSource",
    "GeneratorSource",
    "shipped",
]

_PACKAGE = "org.apache.kafka.connect.file"


def shipped(folders: Iterable[Path] = ()) -> Mapping[str, type[Source] | type[Sink]]:
    """Return the classes by name; those that touch files may do so only below these folders."""
    access = FileAccess.to(folders)
    names: dict[type[Source | Sink], str] = {
        FileStreamSource: f"{_PACKAGE}.FileStreamSourceConnector",
        FileStreamSink: f"{_PACKAGE}.FileStreamSinkConnector",
        DirectorySource: "controlplane.connectors.DirectorySource",
        GeneratorSource: "controlplane.connectors.GeneratorSource",
    }
    return {name: _named(connector, name, access) for connector, name in names.items()}


def _named(
    connector: type[Source] | type[Sink], name: str, access: FileAccess
) -> type[Source] | type[Sink]:
    """Return a subclass with the name and the access to files that it has here."""
    fields: dict[str, Any] = {"java_name": name} if name.startswith(_PACKAGE) else {}
    if issubclass(connector, FileConnector):
        fields["access"] = access
    module, _, class_name = name.rpartition(".")
    return type(class_name, (connector,), fields | {"__module__": module})
