"""References to config providers in settings that the runtime reads, and in hooks (KIP-297)."""

from collections.abc import AsyncIterator, Mapping, Sequence
from threading import Event
from typing import Any, ClassVar

import pytest

from controlplane.connect import Sink, SinkRecord, SinkTaskContext, Source, key
from controlplane.connect.errors import ConnectError
from controlplane.connect.source import SourceRun
from controlplane.core.commands import (
    AlterOffsets,
    CreateConnector,
    OffsetChange,
)
from controlplane.core.configdef.key_definition import ConfigKey
from controlplane.core.context import DecisionSettings
from controlplane.core.records import Target
from controlplane.logs.memory import MemoryLog
from controlplane.plane import Refusal, Settings
from controlplane.settings.providers import Providers, ResolvedText
from controlplane.worker import config_resolver
from controlplane.worker.config_resolver import ConfigResolver, resolved_in_thread
from tests.patience import PATIENCE_S
from tests.worker.worker_fixture import (
    RecordedNotices,
    config_of,
    connector_status,
    running,
    task_trace,
    until,
    until_state,
)

KAFKAS = "org.apache.kafka.common.config.provider"
SECRET = "s3cret-0815"


def settings_of(release: str = "kip") -> Settings:
    """Settings of a plane that knows the provider `env`, under a release."""
    return Settings(profile=release, worker=DecisionSettings(config_providers=("env",)))


def variables(**values: str) -> Providers:
    """Provider `env`, with these variables."""
    return Providers({"env": f"{KAFKAS}.EnvVarConfigProvider"}, values)


class CountedTasks(Source):
    """Source with as many tasks as its config says, or as it may have."""

    config: ClassVar[tuple[ConfigKey, ...]] = (key("count", default=""),)

    def split(self, config: Any, limit: int) -> Sequence[Any]:
        """Return `count` task configs; without it, the limit."""
        return [config] * int(config["count"] or limit)

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Wait and yield no records."""
        while True:
            yield task.idle(0.05)


class Waiting(Sink):
    """Sink that does nothing with its records."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Do nothing."""


async def test_the_limit_of_tasks_may_be_a_reference() -> None:
    """A source gets the value as its limit, and has that many tasks."""
    async with running(CountedTasks, providers=variables(N="2"), settings=settings_of()) as worker:
        config = config_of(CountedTasks, tasks_max="${env:N}")
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "RUNNING", "RUNNING")


class ManyTasks(CountedTasks):
    """Source whose class defines its own default of `tasks.max`."""

    config = (key("count", default=""), key("tasks.max", "INT", 4))


async def test_a_default_of_the_class_is_no_limit() -> None:
    """A connector has one task unless its config has `tasks.max`, as in Kafka."""
    async with running(ManyTasks) as worker:
        await worker.plane.execute(CreateConnector("s", config_of(ManyTasks)))
        await until_state(worker, "s", "RUNNING", "RUNNING")


async def test_a_referenced_limit_is_enforced() -> None:
    """More tasks than the value permits fail: new ones, and those that the log already has."""
    log, providers = MemoryLog(), variables(N="1")
    config = config_of(CountedTasks, tasks_max="${env:N}", count="2")
    older, newer = settings_of("3.7.0"), settings_of("3.9.1")
    async with running(CountedTasks, log=log, providers=providers, settings=older) as worker:
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "RUNNING", "RUNNING")
    async with running(CountedTasks, log=log, providers=providers, settings=newer) as worker:
        await until_state(worker, "s", "FAILED", "FAILED", "FAILED")
        assert "has generated 2 tasks, which is greater than 1" in task_trace(worker, "s")


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("ten", "Invalid value [hidden] for configuration tasks.max: Not a number of type INT"),
        ("0", "Invalid value 0 for configuration tasks.max: Value must be at least 1"),
        (" 2", None),
    ],
)
async def test_an_invalid_limit_fails_the_connector(value: str, sentence: str | None) -> None:
    """The trace has Kafka's sentence, without the value of the provider."""
    async with running(
        CountedTasks, providers=variables(N=value), settings=settings_of()
    ) as worker:
        config = config_of(CountedTasks, tasks_max="${env:N}")
        await worker.plane.execute(CreateConnector("s", config))
        if sentence is None:
            await until_state(worker, "s", "RUNNING", "RUNNING", "RUNNING")
            return
        await until_state(worker, "s", "FAILED")
        status = connector_status(worker, "s")
        assert sentence in str(status and status.trace)


@pytest.mark.parametrize(
    ("connector", "setting"),
    [
        (CountedTasks, "offsets.storage.topic"),
        (Waiting, "consumer.override.group.id"),
    ],
)
async def test_a_setting_that_commands_read_is_no_reference(
    connector: type[Any], setting: str
) -> None:
    """The connector is FAILED: commands would read the offsets of another topic or group."""
    async with running(connector, providers=variables(X="x-1"), settings=settings_of()) as worker:
        config = config_of(connector) | {setting: "${env:X}"}
        if connector is Waiting:
            config["topics"] = "t"
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "FAILED")
        status = connector_status(worker, "s")
        assert f"{setting} refers to a config provider: write its value" in str(
            status and status.trace
        )


received_configs: list[Mapping[str, Any]] = []
"""Configs that `alter_offsets` has got."""


class SecretShowing(Source):
    """Source whose `alter_offsets` shows the secret in the error that the config asks for."""

    config = (key("password", "PASSWORD"), key("table", default="orders"), key("error", default=""))

    def split(self, config: Any, limit: int) -> Sequence[Any]:
        """Return one task config."""
        del limit
        return [config]

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Wait and yield no records."""
        while True:
            yield task.idle(0.05)

    @staticmethod
    def alter_offsets(config: Mapping[str, Any], offsets: Any) -> bool:
        """Keep the config, and raise if it says so."""
        received_configs.append(config)
        del offsets
        if config["error"]:
            kind = {"value": ValueError, "other": KeyError}[config["error"]]
            # The secret lies at the place where a long text is cut.
            raise kind("x" * 14_996 + config["password"] + "x" * 30_000)
        return True


async def altered(worker: Any, **config: str) -> None:
    """Create a stopped connector, and alter an offset of it."""
    password = config.pop("password", "${env:PASSWORD}")
    whole = config_of(SecretShowing, password=password, **config)
    await worker.plane.execute(CreateConnector("s", whole, Target.STOPPED))
    await worker.plane.execute(AlterOffsets("s", (OffsetChange({"p": 1}, {"o": 1}),)))


async def test_a_hook_gets_the_config_as_a_task_does() -> None:
    """`alter_offsets` gets values in place of references, and the defaults of the class."""
    received_configs.clear()
    providers = variables(PASSWORD=SECRET)
    async with running(SecretShowing, providers=providers, settings=settings_of()) as worker:
        await altered(worker)
    assert [config["password"] for config in received_configs] == [SECRET]
    assert [config["table"] for config in received_configs] == ["orders"]


@pytest.mark.parametrize("error", ["value", "other"])
async def test_a_failing_hook_shows_no_secret(error: str) -> None:
    """Answer and log have no value of a provider, in whole or in part."""
    notices = RecordedNotices()
    async with running(
        SecretShowing, providers=variables(PASSWORD=SECRET), settings=settings_of(), notices=notices
    ) as worker:
        with pytest.raises(Refusal) as refusal:
            await altered(worker, error=error)
    shown = str(refusal.value.rejected) + str(notices.of("command")[-1])
    assert "xxxx" in shown
    assert "s3cr" not in shown
    assert "0815" not in shown


async def test_a_hook_is_not_called_if_a_provider_fails() -> None:
    """The command fails with the reference in its text, and no offset is changed."""
    received_configs.clear()
    providers = Providers({"file": f"{KAFKAS}.FileConfigProvider"}, {})
    settings = Settings(worker=DecisionSettings(config_providers=("file",)))
    async with running(SecretShowing, providers=providers, settings=settings) as worker:
        with pytest.raises(Refusal, match=r"\$\{file:/missing:password\}.*could not be read"):
            await altered(worker, password="${file:/missing:password}")
        assert not any(topic.values for topic in worker.plane.state.offsets.values())
    assert received_configs == []


class SilentProviders(Providers):
    """Providers that do not answer before the end of the test."""

    def __init__(self) -> None:
        super().__init__({}, {})
        self.released = Event()

    def of_connector(self, key: str, text: str) -> ResolvedText:
        """Wait."""
        self.released.wait()
        return super().of_connector(key, text)


async def test_a_provider_that_hangs_fails_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the setting. Settings without references need no thread."""
    monkeypatch.setattr(config_resolver, "RESOLUTION_TIMEOUT_S", 0.05)
    providers = SilentProviders()
    try:
        with pytest.raises(ConnectError, match=r"providers of password have not answered in 0\.05"):
            await resolved_in_thread(
                ConfigResolver(providers), {"password": "${vault:key}", "plain": "x"}
            )
    finally:
        providers.released.set()
    plain = {"plain": "x"}
    assert await resolved_in_thread(ConfigResolver(providers), plain) == plain


async def test_hanging_providers_block_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a limit, requests are refused at once; they succeed again after the answers."""
    monkeypatch.setattr(config_resolver, "RESOLUTION_TIMEOUT_S", 0.01)
    monkeypatch.setattr(config_resolver, "UNANSWERED_MAX", 2)
    providers = SilentProviders()
    resolver, settings = ConfigResolver(providers), {"password": "${vault:key}"}
    try:
        for _ in range(2):
            with pytest.raises(ConnectError, match="providers of password have not answered"):
                await resolved_in_thread(resolver, settings)
        with pytest.raises(ConnectError, match="have not answered 2 earlier requests"):
            await resolved_in_thread(resolver, settings)
        assert len(resolver.unanswered) == 2
    finally:
        providers.released.set()
    monkeypatch.setattr(config_resolver, "RESOLUTION_TIMEOUT_S", PATIENCE_S)
    await until(lambda: not resolver.unanswered)
    assert await resolved_in_thread(resolver, settings) == settings
