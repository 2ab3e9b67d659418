"""Requests about plugins and loggers, for workers of many releases and for our service."""

from collections.abc import Iterator
from typing import Any, NamedTuple

APACHE = "org.apache.kafka.connect."
FILE = f"{APACHE}file.FileStreamSourceConnector"
STRANGE = "java.lang.String"
SINK = f"{APACHE}file.FileStreamSinkConnector"


class PluginRequest(NamedTuple):
    """A request; a body goes out as JSON."""

    method: str
    target: str
    body: Any = None


PLUGINS = (
    *("FileStreamSource", "FileStreamSink", "FileStreamSourceConnector", FILE, SINK),
    *("FileStream", "filestreamsource", "%20FileStreamSource", "a%20b", "nowhere"),
    *(f"{APACHE}mirror.Mirror{kind}Connector" for kind in ("Source", "Heartbeat", "Checkpoint")),
    *("JsonConverter", "Json", f"{APACHE}json.JsonConverter", "StringConverter", "Double"),
    *("SimpleHeaderConverter", "SimpleHeader", "ByteArrayConverter", "BooleanConverter"),
    *("RegexRouter", "DropHeaders", "Filter", "Cast$Value", f"{APACHE}transforms.Cast$Value"),
    *("InsertField", f"{APACHE}transforms.TimestampConverter$Key"),
    *("TopicNameMatches", "RecordIsTombstone", f"{APACHE}transforms.predicates.HasHeaderKey"),
    *("MockSource", "MockConnector", "VerifiableSink"),
    *("FileConfigProvider", "File", "DirectoryConfigProvider", "EnvVarConfigProvider"),
    *("org.apache.kafka.common.config.provider.FileConfigProvider", "EnvVar"),
    *("All", "None", "Principal", "AllConnectorClientConfigOverridePolicy", "Allowlist"),
)
"""Names of plugins whose definition the requests ask for, and of classes that are no plugins."""

UNMAKEABLE = (
    *("PredicatedTransformation", f"{APACHE}transforms.InsertField"),
    *(f"{APACHE}source.SourceConnector", STRANGE),
)
"""Classes that cannot be instantiated."""

TYPES = (
    *("Source", "FileStreamSink", "nowhere", "Connector", "SourceConnector", "eSource"),
    *("FileStreamSource", "FileStreamSourceConnector", FILE, "filestreamsource"),
)
"""Class names in the path of a validation, independent of the config's class."""


def plugins() -> Iterator[PluginRequest]:
    """Requests for the list of plugins and for their definitions."""
    queries = ("", "?connectorsOnly", "?connectorsOnly=", "?connectorsOnly=true")
    falsities = ("?connectorsOnly=false", "?connectorsOnly=FALSE", "?connectorsOnly=banana")
    for query in (*queries, *falsities, "?connectorsOnly=false&connectorsOnly=true"):
        yield PluginRequest("GET", f"/connector-plugins{query}")
    for name in PLUGINS:
        yield PluginRequest("GET", f"/connector-plugins/{name}/config")
    for name in ("FileStreamSource", "RegexRouter", "nowhere"):
        for version in ("", "1.0", "latest", "[1.0,", "banana"):
            yield PluginRequest("GET", f"/connector-plugins/{name}/config?version={version}")


def validations() -> Iterator[PluginRequest]:
    """Validations by path and form of config; `tests.validation` has cases of the values."""
    config = {"connector.class": FILE, "file": "x", "topic": "t", "name": "n"}
    for name in TYPES:
        yield PluginRequest("PUT", f"/connector-plugins/{name}/config/validate", config)
    short: tuple[Any, ...] = ({"connector.class": "FileStreamSource", "name": 1}, {"name": "x"}, {})
    alone = ({"connector.class": name} for name in ("", None, "no.such.nowhere", "nowhere"))
    override = config | {"producer.override.linger.ms": "x"}
    bodies: tuple[Any, ...] = (*short, *alone, override, None, [], {"a": {}}, {"a": None})
    for body in bodies:
        yield PluginRequest("PUT", "/connector-plugins/FileStreamSource/config/validate", body)
        yield PluginRequest("PUT", "/connector-plugins/nowhere/config/validate", body)


def loggers() -> Iterator[PluginRequest]:
    """Requests about loggers; no library uses those below `probe`."""
    yield PluginRequest("GET", "/admin/loggers/ROOT")
    yield PluginRequest("GET", "/admin/loggers/probe")
    yield from _levels("/admin/loggers/probe.quiet", "DEBUG", "DEBUG", "warn")
    yield PluginRequest("GET", "/admin/loggers/probe")
    yield from _levels("/admin/loggers/probe", "ERROR", "OFF", "OFF", "TRACE", "ALL", "FATAL")
    yield from _levels("/admin/loggers/probe", "INFO", " INFO ", "", "nonsense", "INFO\u0000")
    yield from _levels("/admin/loggers/probe.quiet", "DEBUG")
    yield from _levels("/admin/loggers/probe", "INFO", "DEBUG")
    yield from _levels("/admin/loggers/probe.qui", "WARN")
    yield from _levels("/admin/loggers/probe.quiet.deep", "WARN", "INFO")
    yield from _levels("/admin/loggers/a%20b", "INFO", "OFF", "OFF")
    yield from _levels("/admin/loggers/", "INFO")
    yield from _levels("/admin/loggers/probe?scope=", "INFO")
    yield from _levels("/admin/loggers/probe?scope=banana", "INFO")
    wrong: tuple[Any, ...] = ({}, {"Level": "INFO"}, {"level": None}, {"level": 1}, None, [])
    for body in wrong:
        yield PluginRequest("PUT", "/admin/loggers/probe", body)
        yield PluginRequest("PUT", "/admin/loggers/probe?scope=cluster", body)
    yield from _levels("/admin/loggers/probe?scope=cluster", "nonsense", "", " INFO ")
    for name in ("probe", "probe.quiet", "probe.qui", "prob", "PROBE", "probe.quiet.deep", "a%20b"):
        yield PluginRequest("GET", f"/admin/loggers/{name}")
    yield PluginRequest("GET", "/admin/loggers")
    yield from _levels("/admin/loggers/root", "OFF")
    yield PluginRequest("GET", "/admin/loggers")
    yield from _levels("/admin/loggers/Root", "WARN", "WARN")
    yield PluginRequest("GET", "/admin/loggers/root")
    yield PluginRequest("GET", "/admin/loggers")


def _levels(target: str, *levels: str) -> Iterator[PluginRequest]:
    return (PluginRequest("PUT", target, {"level": level}) for level in levels)


def unmakeable() -> Iterator[PluginRequest]:
    """Requests to send last: threads of a worker of an old release do not recover from them."""
    for name in UNMAKEABLE:
        yield PluginRequest("GET", f"/connector-plugins/{name}/config")
    abstract = {"connector.class": f"{APACHE}source.SourceConnector"}
    yield PluginRequest("PUT", "/connector-plugins/SourceConnector/config/validate", abstract)


def cases() -> Iterator[PluginRequest]:
    """All requests, in the order in which they are sent."""
    yield from plugins()
    yield from validations()
    yield from loggers()
    yield from unmakeable()
