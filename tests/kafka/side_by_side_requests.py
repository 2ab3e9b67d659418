"""Requests for a worker and for us in order, with waits in between.

A `ProbeRow` is a request as in the probes, or a wait. A wait ends once the answer to its path
contains a text.
"""

import json
from collections.abc import Iterator
from urllib.parse import quote

import msgspec

from tests.rest.probes.rows import ProbeRow
from tests.rest.running_plane import SINK, SOURCE

JSON = "application/json"
NEWEST_SLASHLESS = ("a b", "a+b", "a;b", "a?b#c", "ä", "..", "a&b=c", '"a"')
"""Names that every release accepts in a path, if encoded."""
SLASHES = ("a/b", "a%b", "a\\b", "a{b}", "a}b", "a%2Fb")
"""Names that can be created; reads need a release that accepts them in a path."""

BAD_BODIES = (
    "", " ", "null", "{", "[]", "1", '"text"', "{}", '{"name":"x"}', '{"config":{}}',
    '{"name":"x","config":null}', '{"name":"x","config":[]}', '{"name":"x","config":{}}',
    '{"name":"x","config":{"connector.class":{}}}', '{"name":"x","config":{"a":1},"more":1}',
    '{"name":["x"],"config":{}}', '{"name":"x","config":{"connector.class":"Nix"}}',
    '{"name":"x","config":{"connector.class":""}}', '{"name":"x","config":{}} more',
    '{"name":"x","config":{"a":"b",}}', "{'name':'x'}", '{"name":"x","config":{"a":NaN}}',
    '{"name":"x","config":{},"initial_state":"WALKING"}',
)  # fmt: skip

BAD_OFFSETS = (
    "", "null", "{", "[]", "{}", '{"offsets":null}', '{"offsets":[]}', '{"offsets":{}}',
    '{"offsets":[1]}', '{"offsets":[{"partition":{"filename":"f"}}],"more":1}',
    '{"offsets":[{"partition":{"filename":"f"},"offset":{"position":"many"}}]}',
    '{"offsets":[{"partition":{"filename":"f"},"offset":{"position":-1}}]}',
    '{"offsets":[{"partition":{"filename":"f"},"offset":{"position":{"deep":1}}}]}',
    '{"offsets":[{"partition":null,"offset":{"position":1}}]}',
    '{"offsets":[{"partition":{"other":"f"},"offset":{"position":1}}]}',
)  # fmt: skip

BAD_SINK_OFFSETS = (
    '{"offsets":[{"partition":null,"offset":{"kafka_offset":1}}]}',
    '{"offsets":[{"partition":{"kafka_topic":"lines"},"offset":{"kafka_offset":1}}]}',
    '{"offsets":[{"partition":{"kafka_topic":null,"kafka_partition":0},"offset":null}]}',
    '{"offsets":[{"partition":{"kafka_topic":"lines","kafka_partition":null},"offset":null}]}',
    '{"offsets":[{"partition":{"kafka_topic":"lines","kafka_partition":"x"},"offset":null}]}',
    '{"offsets":[{"partition":{"kafka_topic":"lines","kafka_partition":0},"offset":{}}]}',
    '{"offsets":[{"partition":{"kafka_topic":"l","kafka_partition":0},"offset":{"kafka_offset":"x"}}]}',
)

PATHS = (
    "",
    "/config",
    "/status",
    "/tasks",
    "/tasks-config",
    "/topics",
    "/offsets",
    "/tasks/0/status",
)
"""Endpoints that read a connector."""


def script(lines: str, release: str) -> list[ProbeRow]:
    """Every request and wait, for a worker that can read a file of `lines`."""
    source = {"connector.class": SOURCE, "tasks.max": "1", "file": lines, "topic": "lines"}
    sink = {"connector.class": SINK, "tasks.max": "1", "file": f"{lines}.out", "topics": "lines"}
    rows = [
        *_server(),
        *_plugins(source, sink),
        *_nothing_there(),
        *_bad_bodies(source),
        *_names(source, release),
        *_source(source),
        *_sink(sink),
        *_end(),
    ]
    return [msgspec.structs.replace(row, n=number) for number, row in enumerate(rows, 1)]


def ask(method: str, path: str, body: object = None, **headers: str) -> ProbeRow:
    """Request. Other bodies than text are sent as JSON, with that content type by default."""
    sent_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        sent_headers = {"Content-Type": JSON, **sent_headers}
    text = body if body is None or isinstance(body, str) else json.dumps(body)
    return ProbeRow(n=0, method=method, path=path, headers=[*sent_headers.items()], body=text)


def wait(path: str, contains: str) -> ProbeRow:
    """Wait until an answer contains a text."""
    return ProbeRow(n=0, kind="wait", path=path, contains=contains)


def _server() -> Iterator[ProbeRow]:
    for path in (
        "/",
        "/connectors",
        "/connectors/",
        "/connectors?expand=status",
        "/nix",
        "/health",
    ):
        yield ask("GET", path)
    for path in (
        "//connectors",
        "/Connectors",
        "/%63onnectors",
        "/connectors;x=1",
        "/connectors/%zz",
    ):
        yield ask("GET", path)
    for method in ("HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "get"):
        yield ask(method, "/connectors")
    for method in ("OPTIONS", "GET", "POST"):
        yield ask(method, "/connectors/x/pause")
    yield ask("OPTIONS", "/connectors/x")
    yield ask("OPTIONS", "/connectors/x/offsets")
    for accept in ("text/html", "*/*", "application/*", "garbage", "application/json;q=0", ""):
        yield ask("GET", "/connectors", Accept=accept)
    for kind in (
        "text/plain",
        "application/json;charset=utf-8",
        "APPLICATION/JSON",
        "*/*",
        "garbage",
    ):
        yield ask("GET", "/connectors", Content_Type=kind)
        yield ask("POST", "/connectors", "{}", Content_Type=kind)


def _plugins(source: dict[str, str], sink: dict[str, str]) -> Iterator[ProbeRow]:
    yield ask("GET", "/connector-plugins")
    for only in ("false", "true", "", "banana"):
        yield ask("GET", f"/connector-plugins?connectorsOnly={only}")
    # Not java.lang.String: its lookup leaves the worker's thread without a class loader. All later
    # requests on that thread fail.
    for plugin in (SOURCE, "FileStreamSink", "JsonConverter", "Nix", "filestreamsink", "x%20y"):
        yield ask("GET", f"/connector-plugins/{plugin}/config")
    validate = "/connector-plugins/{}/config/validate"
    for config in (source, sink, source | {"name": "x"}, sink | {"topics.regex": "l.*"}, {}):
        yield ask("PUT", validate.format("FileStreamSource"), config)
    for body in ("", "null", "[]", "{", '{"connector.class":"Nix"}', '{"connector.class":1}'):
        yield ask("PUT", validate.format("FileStreamSource"), body)
    wrong = {
        "name": "x",
        "tasks.max": "none",
        "header.converter": "Nix",
        "errors.tolerance": "some",
    }
    yield ask("PUT", validate.format("FileStreamSink"), sink | wrong)
    yield ask("PUT", validate.format("FileStreamSource"), source | {"name": "x", "transforms": "a"})
    yield ask("PUT", validate.format("Nix"), source)


def _nothing_there() -> Iterator[ProbeRow]:
    for path in (*PATHS, "/nix", "/tasks/x/status", "/tasks/"):
        yield ask("GET", f"/connectors/nobody{path}")
    for verb in ("pause", "resume", "stop", "topics/reset"):
        yield ask("PUT", f"/connectors/nobody/{verb}")
    yield ask("POST", "/connectors/nobody/restart")
    yield ask("POST", "/connectors/nobody/restart?includeTasks=true")
    yield ask("POST", "/connectors/nobody/tasks/0/restart")
    yield ask("DELETE", "/connectors/nobody")
    yield ask("DELETE", "/connectors/nobody/offsets")
    for body in ("", "{}", '{"offsets":[{"partition":{"a":1},"offset":{"b":1}}]}'):
        yield ask("PATCH", "/connectors/nobody/offsets", body)
    yield ask("PATCH", "/connectors/nobody/config", {"tasks.max": "2"})
    yield ask("GET", "/admin/loggers/nobody.logs.here")
    for body in ("", "null", "{}", "[]", '{"level":"LOUD"}', '{"level":"INFO"} more'):
        yield ask("PUT", "/admin/loggers/nobody.logs.here", body)
    yield ask("PUT", "/admin/loggers/nobody.logs.here?scope=cluster", {"level": "ERROR"})
    yield ask("GET", "/admin/loggers/root")


def _bad_bodies(source: dict[str, str]) -> Iterator[ProbeRow]:
    for body in BAD_BODIES:
        yield ask("POST", "/connectors", body)
    for body in ("", "null", "[]", "{", '{"config":{}}', '{"name":"y"}', "{}"):
        yield ask("PUT", "/connectors/x/config", body)
    for changed in ({"tasks.max": "0"}, {"topic": ""}, {"key.converter": "Nix"}, {"a": None}):
        yield ask("PUT", "/connectors/x/config", source | changed)
    for name in ("", " ", "a\u0001b", None):
        yield ask("POST", "/connectors", {"name": name, "config": source})
    yield ask("POST", "/connectors", {"name": " x ", "config": source | {"name": " x "}})
    yield ask("GET", "/connectors")


def _names(source: dict[str, str], release: str) -> Iterator[ProbeRow]:
    """Connectors that are created STOPPED, so that no worker has to run them."""
    for name in (*NEWEST_SLASHLESS, *SLASHES):
        yield ask(
            "POST", "/connectors", {"name": name, "config": source, "initial_state": "STOPPED"}
        )
        path = f"/connectors/{quote(name, safe='')}"
        if name in NEWEST_SLASHLESS:
            yield wait(f"{path}/status", "STOPPED")
        for part in ("", "/config", "/tasks"):
            yield ask("GET", f"{path}{part}")
        yield ask("PUT", f"{path}/config", source | {"topic": "lines-2"})
        yield ask("PUT", f"{path}/pause")
        yield ask("DELETE", path)
    yield ask("GET", "/connectors")
    # 4.x refuses the paths of some names, so it cannot delete their connectors.
    if release.startswith("4."):
        return
    for raw in ("a\\b", "%E4", "%u00e4"):
        yield ask("GET", f"/connectors/{raw}")


def _source(source: dict[str, str]) -> Iterator[ProbeRow]:
    path, status = "/connectors/source", "/connectors/source/status"
    yield ask("POST", "/connectors", {"name": "source", "config": source})
    yield from _running(status)
    yield wait(f"{path}/topics", '"lines"')
    yield wait(f"{path}/offsets", '"position":8')
    yield from (ask("GET", path + part) for part in PATHS)
    yield from _expanded()
    yield ask("POST", "/connectors", {"name": "source", "config": source})
    yield ask("GET", f"{path}/tasks/7/status")
    yield ask("POST", f"{path}/tasks/7/restart")
    yield ask("POST", f"{path}/tasks/0/restart")
    yield ask("POST", f"{path}/restart")
    yield from _running(status)
    yield ask("POST", f"{path}/restart?onlyFailed=true")
    yield ask("POST", f"{path}/restart?includeTasks=true")
    yield from _running(status)
    yield ask("PUT", f"{path}/pause")
    yield wait(status, '"connector":{"state":"PAUSED"')
    yield wait(status, '"tasks":[{"id":0,"state":"PAUSED"')
    yield ask("GET", status)
    yield ask("DELETE", f"{path}/offsets")
    yield ask("PATCH", f"{path}/offsets", {"offsets": [{"partition": {}, "offset": {}}]})
    yield ask("PUT", f"{path}/resume")
    yield from _running(status)
    yield ask("PATCH", f"{path}/config", {"batch.size": "100", "nothing": None})
    yield from _running(status)
    yield ask("PATCH", f"{path}/config", {"tasks.max": "none"})
    yield ask("PATCH", f"{path}/config", "null")
    yield ask("GET", f"{path}/config")
    yield from _stopped(path, status, source)


def _running(status: str) -> Iterator[ProbeRow]:
    """Wait until a connector and its task are RUNNING."""
    yield wait(status, '"connector":{"state":"RUNNING"')
    yield wait(status, '"tasks":[{"id":0,"state":"RUNNING"')


def _expanded() -> Iterator[ProbeRow]:
    for query in (
        "expand=status",
        "expand=info",
        "expand=info&expand=status",
        "expand=x",
        "expand=",
    ):
        yield ask("GET", f"/connectors?{query}")


def _stopped(path: str, status: str, source: dict[str, str]) -> Iterator[ProbeRow]:
    yield ask("PUT", f"{path}/stop")
    yield wait(status, '"state":"STOPPED"')
    yield wait(status, '"tasks":[]')
    yield from (ask("GET", path + part) for part in PATHS)
    yield ask("PUT", f"{path}/stop")
    for body in BAD_OFFSETS:
        yield ask("PATCH", f"{path}/offsets", body)
    partition = {"filename": source["file"]}
    yield ask(
        "PATCH",
        f"{path}/offsets",
        {"offsets": [{"partition": partition, "offset": {"position": 4}}]},
    )
    yield wait(f"{path}/offsets", '"position":4')
    yield ask("GET", f"{path}/offsets")
    for _ in range(2):
        yield ask("DELETE", f"{path}/offsets")
        yield wait(f"{path}/offsets", '"offsets":[]')
        yield ask("GET", f"{path}/offsets")
    yield ask("PUT", f"{path}/topics/reset")
    yield wait(f"{path}/topics", '"topics":[]')
    yield ask("GET", f"{path}/topics")
    yield ask("POST", f"{path}/restart")
    yield wait(status, '"state":"STOPPED"')
    yield ask("GET", status)


def _sink(sink: dict[str, str]) -> Iterator[ProbeRow]:
    path, status = "/connectors/sink", "/connectors/sink/status"
    yield ask("PUT", f"{path}/config", sink)
    yield from _running(status)
    yield wait(f"{path}/offsets", '"kafka_offset":2')
    yield wait(f"{path}/topics", '"lines"')
    yield from (ask("GET", path + part) for part in PATHS)
    yield ask("PUT", f"{path}/stop")
    yield wait(status, '"state":"STOPPED"')
    yield wait(status, '"tasks":[]')
    for body in BAD_SINK_OFFSETS:
        yield ask("PATCH", f"{path}/offsets", body)
    place = {"kafka_topic": "lines", "kafka_partition": 0}
    for offset in (1, "0"):
        new = {"partition": place, "offset": {"kafka_offset": offset}}
        yield ask("PATCH", f"{path}/offsets", {"offsets": [new]})
        yield ask("GET", f"{path}/offsets")
    yield ask("DELETE", f"{path}/offsets")
    yield ask("GET", f"{path}/offsets")


def _end() -> Iterator[ProbeRow]:
    for name in ("source", "sink"):
        yield ask("DELETE", f"/connectors/{name}")
        yield ask("GET", f"/connectors/{name}")
        yield ask("DELETE", f"/connectors/{name}")
    yield ask("GET", "/connectors")
