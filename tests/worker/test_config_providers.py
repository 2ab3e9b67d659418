"""Values of config providers (KIP-297) reach only the author's code."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.connect import (
    Sink,
    SinkRecord,
    SinkTaskContext,
    Source,
    SourceConnector,
    SourceTask,
    key,
)
from controlplane.connect.errors import ConnectError
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector
from controlplane.core.context import DecisionSettings
from controlplane.logs.log import Log
from controlplane.logs.memory import MemoryLog
from controlplane.plane import Settings
from controlplane.settings.providers import Providers
from controlplane.worker.config_resolver import ConfigResolver
from controlplane.worker.worker import ConnectWorker
from tests.worker.worker_fixture import (
    RecordedNotices,
    config_of,
    connector_status,
    entries_in,
    produce,
    running,
    task_trace,
    until,
    until_state,
)

SECRET = "pa$$'w\\örd-0815"
"""Value of a provider; a `repr` shows it in another form."""

KAFKAS = "org.apache.kafka.common.config.provider"
PREFIX = "config.providers"

received_configs: list[dict[str, str]] = []
"""Configs that the classes of these tests have got."""


@pytest.fixture(autouse=True)
def _empty() -> None:
    received_configs.clear()


@pytest.fixture
def providers(tmp_path: Path) -> Providers:
    """Kafka's three providers, with the secret in file and folder."""
    escaped = SECRET.replace("\\", "\\\\")
    (tmp_path / "secrets.properties").write_text(f"password={escaped}\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "password").write_text(f"{SECRET}\n")
    classes = {
        "file": f"{KAFKAS}.FileConfigProvider",
        "dir": f"{KAFKAS}.DirectoryConfigProvider",
        "env": f"{KAFKAS}.EnvVarConfigProvider",
        "vault": "org.example.VaultConfigProvider",
    }
    return Providers(classes, {"PASSWORD": SECRET})


class LeakingSource(Source):
    """Keeps its config; raises, as its config says, with the secret in its message."""

    config = (key("topic"), key("password", "PASSWORD"), key("raise", default=""))

    def split(self, config: Any, limit: int) -> Sequence[Any]:
        """Pass the secret on to the tasks."""
        self._tell("split", config)
        return [dict(config) | {"number": str(number)} for number in range(limit)]

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Keep the config, raise if it says so, then wait."""
        received_configs.append(dict(task.config))
        self._tell("read", task.config)
        while True:
            yield task.idle(0.01)

    def committed(self, task: SourceRun) -> None:
        """Raise an error with the secret if the config says so."""
        self._tell("committed", task.config)

    def _tell(self, place: str, config: Any) -> None:
        if config["raise"] == place:
            raise ValueError(f"wrong password: {config['password'].strip()}", config["password"])


class LeakingTask(SourceTask):
    """Task that has no records."""

    def poll(self) -> None:
        """Return no records."""


class LeakingStart(SourceConnector):
    """Raises in `start`, with the secret in its message."""

    config = (key("password", "PASSWORD"),)
    task = LeakingTask

    def start(self, config: Any) -> None:
        """Raise ValueError with the password in its text."""
        raise ValueError(f"wrong password: {config['password']}")

    def task_configs(self, limit: int) -> Sequence[Any]:
        """Return no task configs."""
        del limit
        return []


class LeakingSink(Sink):
    """Reports each record with the secret in the reason."""

    config = (key("password", "PASSWORD"),)

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Report each record with the password in the error's text."""
        for record in records:
            task.report(record, ValueError(f"wrong password: {task.config['password']}"))


def forms() -> list[str]:
    """Forms of the secret, none of which may appear."""
    return [SECRET, repr(SECRET)[1:-1], json.dumps(SECRET)[1:-1]]


async def everything_in(log: Log) -> str:
    """All records of a log as text."""
    texts: list[str] = []
    for topic in await log.topics():
        for entry in await entries_in(log, topic):
            texts += [(entry.key or b"").decode(), (entry.value or b"").decode()]
            texts += [(value or b"").decode() for _, value in entry.headers]
    return "\n".join(texts)


async def answers_of(worker: ConnectWorker, name: str) -> str:
    """All REST answers about a connector."""
    transport = httpx.ASGITransport(worker.plane.app)
    paths = ["", "/status", "/config", "/tasks", "/tasks-config", "/tasks/0/status", "/offsets"]
    async with httpx.AsyncClient(transport=transport, base_url="http://connect") as client:
        answers = [await client.get(f"/connectors/{name}{path}") for path in paths]
        answers.append(await client.get("/connectors?expand=info&expand=status"))
        answers.append(await client.post(f"/connectors/{name}/restart"))
        answers.append(await client.post(f"/connectors/{name}/restart?includeTasks=true"))
        config = worker.plane.state.config.connectors[name] or {}
        path = f"/connector-plugins/{config['connector.class']}/config/validate"
        answers.append(await client.put(path, json=dict(config)))
    return "\n".join(answer.text for answer in answers)


REFERENCES = [
    "${file:{folder}/secrets.properties:password}",
    "${dir:{folder}/folder:password}",
    "${env:PASSWORD}",
]


@pytest.mark.parametrize("reference", REFERENCES)
async def test_values_reach_the_tasks_only(
    tmp_path: Path, providers: Providers, reference: str
) -> None:
    """Log and REST have the reference; stored task configs have it in place of the value."""
    reference = reference.replace("{folder}", str(tmp_path))
    async with running(LeakingSource, providers=providers) as worker:
        config = config_of(LeakingSource, topic="t", password=reference, tasks_max="2")
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "RUNNING", "RUNNING")
        await until(lambda: len(received_configs) == 2)
        assert [config["password"].strip() for config in received_configs] == [SECRET] * 2
        tasks = worker.plane.state.config.tasks["s"]
        assert [tasks[number]["password"] for number in (0, 1)] == [reference] * 2
        shown = await everything_in(worker.plane.log) + await answers_of(worker, "s")
    assert reference in shown
    assert not [form for form in forms() if form in shown]


@pytest.mark.parametrize("place", ["split", "read", "committed", "start", "put"])
async def test_failures_do_not_show_secrets(
    tmp_path: Path, providers: Providers, place: str
) -> None:
    """Traces, answers, log lines and dead letters hide the value, whichever method raises."""
    notices, log = RecordedNotices(), MemoryLog()
    reference = f"${{dir:{tmp_path}/folder:password}}"
    connector = {"start": LeakingStart, "put": LeakingSink}.get(place, LeakingSource)
    config = config_of(connector, topic="t", password=reference)
    config["raise"] = place
    if place == "put":
        config |= {
            "topics": "in",
            "errors.tolerance": "all",
            "errors.log.enable": "true",
            "errors.deadletterqueue.topic.name": "dead",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
        del config["topic"]
    async with running(connector, providers=providers, notices=notices, log=log) as worker:
        await produce(log, "in", "a")
        await worker.plane.execute(CreateConnector("s", config))

        def reported_text() -> str:
            status = connector_status(worker, "s")
            traces = task_trace(worker, "s") + str(status and status.trace)
            return traces + str(notices.lines)

        await until(lambda: "wrong password: [hidden]" in reported_text())
        answers = await answers_of(worker, "s")
        if place == "start":
            assert "wrong password: [hidden]" in answers
        shown = reported_text() + answers + await everything_in(log)
        if place == "put":
            [letter] = await entries_in(log, "dead")
            headers = dict(letter.headers)
            message = headers["__connect.errors.exception.message"]
            assert message == b"wrong password: [hidden]"
    assert not [form for form in forms() if form in shown]


MISSING = "${file:{folder}/missing:password}"


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        (MISSING, f"password is {MISSING}: {{folder}}/missing could not be read"),
        ("${file:{folder}:password}", "password is ${file:{folder}:password}: {folder} could not"),
        ("${vault:secret:password}", "password comes from the config provider vault, which cannot"),
    ],
)
async def test_a_failing_provider_fails_the_connector(
    tmp_path: Path, providers: Providers, reference: str, sentence: str
) -> None:
    """The connector is FAILED; its trace names the key, and the reference or the provider."""
    reference = reference.replace("{folder}", str(tmp_path))
    async with running(LeakingSource, providers=providers) as worker:
        config = config_of(LeakingSource, topic="t", password=reference)
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "FAILED")
        status = connector_status(worker, "s")
        trace = str(status and status.trace)
        assert sentence.replace("{folder}", str(tmp_path)) in trace


async def test_the_log_says_what_to_do_about_a_missing_provider(providers: Providers) -> None:
    """The worker starts; a warning names the provider, its class and the remedy."""
    notices = RecordedNotices()
    async with running(LeakingSource, providers=providers, notices=notices):
        [missing] = notices.of("config_provider_missing")
    assert missing == {
        "provider": "vault",
        "provider_class": "org.example.VaultConfigProvider",
        "advice": "correct config.providers.vault.class, or install a package that declares its "
        "class (entry point controlplane.config_providers)",
    }


async def test_a_removed_file_fails_the_task(tmp_path: Path, providers: Providers) -> None:
    """A task that starts later than the connector fails with the same message."""
    reference = f"${{file:{tmp_path}/secrets.properties:password}}"
    async with running(LeakingSource, providers=providers) as worker:
        config = config_of(LeakingSource, topic="t", password=reference)
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "RUNNING")
        (tmp_path / "secrets.properties").unlink()
        transport = httpx.ASGITransport(worker.plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://connect") as client:
            await client.post("/connectors/s/tasks/0/restart")
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "secrets.properties could not be read" in task_trace(worker, "s")


NO_VALUE = "the provider {} has no such value"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${file:{folder}/secrets.properties:missing}", NO_VALUE.format("file")),
        ("${dir:{folder}/folder:missing}", NO_VALUE.format("dir")),
        ("${dir:{folder}/folder:../secrets.properties}", NO_VALUE.format("dir")),
        ("${env:MISSING}", NO_VALUE.format("env")),
        ("${unknown:x:y}", "config.providers does not name unknown"),
        ("${password}", None),
    ],
)
async def test_a_missing_key_leaves_the_reference(
    tmp_path: Path, providers: Providers, reference: str, reason: str | None
) -> None:
    """The author gets the reference itself, as from Kafka's ConfigTransformer; the log warns."""
    reference = reference.replace("{folder}", str(tmp_path))
    notices = RecordedNotices()
    async with running(LeakingSource, providers=providers, notices=notices) as worker:
        config = config_of(LeakingSource, topic="${env:PASSWORD}", password=reference)
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: [config["password"] for config in received_configs] == [reference])
    events = notices.of("config_reference_unresolved")
    warned = {"key": "password", "reference": reference, "reason": reason}
    assert events == ([] if reason is None else [warned] * len(events))
    assert bool(events) is (reason is not None)
    assert not [form for form in forms() if form in str(notices.lines)]


async def test_the_log_names_references_that_a_limit_forbids(tmp_path: Path) -> None:
    """The reference stays, as in Kafka; a warning names key, reference and setting."""
    outside = tmp_path / "outside"
    outside.mkdir()
    classes = {"dir": f"{KAFKAS}.DirectoryConfigProvider", "env": f"{KAFKAS}.EnvVarConfigProvider"}
    limits = {
        "dir": {"allowed.paths": str(tmp_path / "inside")},
        "env": {"allowlist.pattern": "ORDERS_.*"},
    }
    (tmp_path / "inside").mkdir()
    providers = Providers(classes, {"HOME": "/root", "ORDERS_KEY": "k" * 9}, limits)
    file, variable = f"${{dir:{outside}:password}}", "${env:HOME}"
    notices = RecordedNotices()
    config = config_of(LeakingSource, topic="${env:ORDERS_KEY}${env:ORDERS_NO}", password=file)
    config["raise"] = variable
    async with running(LeakingSource, providers=providers, notices=notices) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "RUNNING")
        await until(lambda: received_configs)
    assert received_configs[0]["topic"] == "k" * 9 + "${env:ORDERS_NO}"
    assert received_configs[0]["password"] == file
    warned = [
        {"key": "password", "reference": file, "limit": f"{PREFIX}.dir.param.allowed.paths"},
        {"key": "raise", "reference": variable, "limit": f"{PREFIX}.env.param.allowlist.pattern"},
    ]
    events = notices.of("config_reference_refused")
    assert events[:2] == warned
    assert all(event in warned for event in events)


class ProvidedCount(Source):
    """Keeps its config, which has a number."""

    config = (key("count", "INT"),)

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Keep the config, then wait."""
        received_configs.append(dict(task.config))
        while True:
            yield task.idle(0.01)


async def test_a_value_of_a_provider_is_not_validated() -> None:
    """The worker accepts the reference; the task gets a value that is no number."""
    providers = Providers({"env": f"{KAFKAS}.EnvVarConfigProvider"}, {"COUNT": "many"})
    settings = Settings(worker=DecisionSettings(config_providers=("env",)))
    async with running(ProvidedCount, providers=providers, settings=settings) as worker:
        await worker.plane.execute(
            CreateConnector("s", config_of(ProvidedCount, count="${env:COUNT}"))
        )
        await until(lambda: received_configs)
    assert received_configs[0]["count"] == "many"


def test_the_text_around_references_stays(providers: Providers) -> None:
    """The text around references stays; each form of a value is hidden."""
    resolver = ConfigResolver(providers)
    config = {"url": "db://me:${env:PASSWORD}@host/${env:MISSING}", "none": None, "plain": "$x"}
    resolved = resolver.resolved(config).config
    assert resolved == {"url": f"db://me:{SECRET}@host/${{env:MISSING}}", "plain": "$x"}
    assert resolver.excerpt(f"bad {resolved['url']}") == "bad db://me:[hidden]@host/${env:MISSING}"
    assert resolver.excerpt(repr(ValueError(SECRET))) == 'ValueError("[hidden]")'


def test_task_configs_get_their_references_back(providers: Providers) -> None:
    """References replace values in longer text and under other keys; a user's plain values stay."""
    resolver = ConfigResolver(providers)
    config = {"password": "${env:PASSWORD}", "url": "db://${env:PASSWORD}@h", "own": SECRET}
    tasks: list[dict[str, str | None]] = [
        {"password": SECRET, "topic": "t"},
        {"password": "own", "own": SECRET},
        {"dsn": f"db://me:{SECRET}@host", "env": "${env:MISSING}", "none": None},
        {"url": f"db://{SECRET}@h?shard=2"},
    ]
    stored = resolver.referring(config, tasks)
    assert stored == [
        {"password": "${env:PASSWORD}", "topic": "t"},
        {"password": "own", "own": SECRET},
        {"dsn": "db://me:${env:PASSWORD}@host", "env": "${env:MISSING}", "none": None},
        {"url": "db://${env:PASSWORD}@h?shard=2"},
    ]
    assert resolver.resolved(stored[2]).config["dsn"] == f"db://me:{SECRET}@host"


KEY_LINE = "MIIEvQIBADANBgkqhkiG9w0"
PEM = f"-----BEGIN KEY-----\n{KEY_LINE}\nAb==\n-----END KEY-----\n"


def test_lines_of_a_key_are_hidden() -> None:
    """A single line of a value is hidden, too, because a message may contain only that line."""
    resolver = ConfigResolver(Providers({"env": f"{KAFKAS}.EnvVarConfigProvider"}, {"KEY": PEM}))
    resolver.resolved({"key": "${env:KEY}"})
    text = f"bad line {KEY_LINE} after -----BEGIN KEY-----, line 2"
    assert resolver.excerpt(text) == text.replace(KEY_LINE, "[hidden]")


@pytest.mark.parametrize("value", [f"key={KEY_LINE}", PEM.strip(), f"${{x{PEM}"])
def test_task_configs_that_would_leak_a_value_are_refused(value: str) -> None:
    """A value that no reference can replace is refused under another key, which the error names."""
    resolver = ConfigResolver(Providers({"env": f"{KAFKAS}.EnvVarConfigProvider"}, {"KEY": PEM}))
    with pytest.raises(ConnectError, match="The task config dsn has a value") as failure:
        resolver.referring({"key": "${env:KEY}"}, [{"dsn": value}])
    assert KEY_LINE not in str(failure.value)


@pytest.mark.parametrize("value", [f"key={KEY_LINE}", PEM.strip(), PEM])
def test_a_changed_form_of_a_value_becomes_the_reference_of_its_key(value: str) -> None:
    """A reference that cannot replace a part of its key's value replaces all of it.

    Kafka always replaces all of it.
    """
    resolver = ConfigResolver(Providers({"env": f"{KAFKAS}.EnvVarConfigProvider"}, {"KEY": PEM}))
    assert resolver.referring({"key": "${env:KEY}"}, [{"key": value}]) == [{"key": "${env:KEY}"}]


class Composing(LeakingSource):
    """Joins the secret with other text under a key of its own."""

    def split(self, config: Any, limit: int) -> Sequence[Any]:
        """Return one config that contains the password."""
        del limit
        return [{"topic": "t", "password": "", "raise": "", "dsn": f"db://{config['password']}@h"}]


async def test_composed_values_reach_the_task_only(providers: Providers) -> None:
    """The log has the reference within the text."""
    async with running(Composing, providers=providers) as worker:
        config = config_of(Composing, topic="t", password="${env:PASSWORD}")
        await worker.plane.execute(CreateConnector("s", config))
        await until(
            lambda: [config.get("dsn") for config in received_configs] == [f"db://{SECRET}@h"]
        )
        shown = await everything_in(worker.plane.log) + await answers_of(worker, "s")
    assert "db://${env:PASSWORD}@h" in shown
    assert not [form for form in forms() if form in shown]
