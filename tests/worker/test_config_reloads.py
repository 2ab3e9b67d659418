"""`config.action.reload`: values of config providers that expire (KIP-297)."""

from collections.abc import AsyncIterator, Mapping
from importlib import metadata
from pathlib import Path
from threading import Event, current_thread
from typing import Any

import msgspec
import pytest

from controlplane.connect import ConfigProvider, ProvidedValue, Source, key
from controlplane.connect.source import SourceRun
from controlplane.core.commands import CreateConnector, DeleteConnector, PutConfig
from controlplane.settings.errors import SettingsError
from controlplane.settings.providers import GROUP, Providers
from controlplane.worker.lifecycle.config_reloads import ConfigReloads
from tests.worker.worker_fixture import (
    ABANDONING,
    QUICK,
    RecordedNotices,
    config_of,
    connector_status,
    running,
    task_trace,
    until,
    until_state,
)

RUNTIME = msgspec.structs.replace(QUICK, reload_shortest_ms=5)

WAIT_S = 60
"""Longest wait of a provider for its test."""

LEASES = "tests.worker.test_config_reloads.Leases"

tokens: dict[str, list[str]] = {}
"""Tokens that the tasks of each connector have started with."""


class Leases(ConfigProvider):
    """Gives each caller a new token; the path is its lifetime in milliseconds."""

    requested = Event()
    """Set: a task has asked for `slow`."""

    answered = Event()
    """Set: tasks get their values of `slow`. Connectors do not wait; their value never expires."""

    def __init__(self) -> None:
        self._tokens_given = 0

    def configure(self, settings: Mapping[str, str]) -> None:
        """Set the prefix of the tokens."""
        self._prefix = settings.get("prefix", "")

    def get(self, path: str, key: str) -> ProvidedValue | None:
        """Return a new token; raise for the key `broken`."""
        if key == "broken":
            raise PermissionError("sealed")
        if key not in {"token", "slow"}:
            return None
        self._tokens_given += 1
        if key == "slow":
            if not current_thread().name.startswith("task"):
                return ProvidedValue("stays", None)
            self.requested.set()
            assert self.answered.wait(WAIT_S)
        return ProvidedValue(f"{self._prefix}{self._tokens_given}", int(path) if path else None)


class TokenSource(Source):
    """Records its token for the test."""

    config = (key("token", "PASSWORD"),)

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Note the token of this run, then wait."""
        tokens.setdefault(task.connector, []).append(task.config["token"])
        while True:
            yield task.idle(0.01)


@pytest.fixture
def providers(monkeypatch: pytest.MonkeyPatch) -> Providers:
    """`Leases`, declared as a package declares a provider."""
    tokens.clear()
    Leases.requested.clear()
    Leases.answered.clear()
    point = metadata.EntryPoint("leases", LEASES.replace(".Leases", ":Leases"), GROUP)
    monkeypatch.setattr(metadata, "entry_points", lambda **_: [point])
    return Providers({"leases": LEASES}, {}, {"leases": {"prefix": "token-"}})


async def test_a_value_that_expires_restarts_connector_and_tasks(providers: Providers) -> None:
    """Each restart resolves the reference anew, and sets the next timer."""
    notices = RecordedNotices()
    async with running(
        TokenSource, runtime=RUNTIME, providers=providers, notices=notices
    ) as worker:
        config = config_of(TokenSource, token="${leases:10:token}")
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: len(tokens.get("s", ())) >= 3)
    assert len(set(tokens["s"])) == len(tokens["s"])
    assert all(token.startswith("token-") for token in tokens["s"])
    scheduled = notices.of("config_reload_scheduled")
    assert scheduled[0] == {"connector": "s", "in_ms": 10}


async def test_reload_none_restarts_nothing(providers: Providers) -> None:
    """With `config.action.reload=none` a connector keeps its value."""
    async with running(TokenSource, runtime=RUNTIME, providers=providers) as worker:
        config = config_of(TokenSource, token="${leases:10:token}")
        kept = config | {"config.action.reload": "none"}
        await worker.plane.execute(CreateConnector("kept", kept))
        await until_state(worker, "kept", "RUNNING", "RUNNING")
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: len(tokens.get("s", ())) >= 3)
    assert len(tokens["kept"]) == 1


async def test_a_value_without_a_lifetime_restarts_nothing(providers: Providers) -> None:
    """A value without a lifetime restarts no task, as with Kafka's own providers."""
    async with running(TokenSource, runtime=RUNTIME, providers=providers) as worker:
        config = config_of(TokenSource, token="${leases::token}")
        await worker.plane.execute(CreateConnector("kept", config))
        await until_state(worker, "kept", "RUNNING", "RUNNING")
        expiring = config_of(TokenSource, token="${leases:10:token}")
        await worker.plane.execute(CreateConnector("s", expiring))
        await until(lambda: len(tokens.get("s", ())) >= 3)
    assert len(tokens["kept"]) == 1


@pytest.mark.parametrize("end", ["config", "deletion"])
async def test_a_timer_ends_with_its_reference(providers: Providers, end: str) -> None:
    """A config without the reference cancels the timer, and so does a deletion."""
    async with running(TokenSource, runtime=RUNTIME, providers=providers) as worker:
        config = config_of(TokenSource, token="${leases:10:token}")
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: len(tokens.get("s", ())) >= 2)
        if end == "config":
            plain = config_of(TokenSource, token="plain")
            await worker.plane.execute(PutConfig("s", plain))
            await until(lambda: "plain" in tokens["s"])
        else:
            await worker.plane.execute(DeleteConnector("s"))
            await until(lambda: connector_status(worker, "s") is None)
        before = [*tokens["s"]]
        await worker.plane.execute(CreateConnector("other", config))
        await until(lambda: len(tokens.get("other", ())) >= 3)
    assert tokens["s"] == before


async def test_a_value_of_an_old_config_restarts_nothing(providers: Providers) -> None:
    """A provider's answer for a replaced config sets no effective timer."""
    notices = RecordedNotices()
    runtime = msgspec.structs.replace(ABANDONING, reload_shortest_ms=5)
    async with running(
        TokenSource, runtime=runtime, providers=providers, notices=notices
    ) as worker:
        old = config_of(TokenSource, token="${leases:10:slow}") | {"tasks.max": "1"}
        await worker.plane.execute(CreateConnector("s", old))
        await until(Leases.requested.is_set)
        plain = config_of(TokenSource, token="plain")
        await worker.plane.execute(PutConfig("s", plain))
        await until(lambda: tokens.get("s") == ["plain"])
        assert not notices.of("config_reload_scheduled")
        Leases.answered.set()
        await until(lambda: bool(notices.of("config_reload_scheduled")))
        expiring = config_of(TokenSource, token="${leases:10:token}")
        await worker.plane.execute(CreateConnector("other", expiring))
        await until(lambda: len(tokens.get("other", ())) >= 3)
    assert tokens["s"] == ["plain"]


async def test_an_old_value_leaves_the_timers_of_the_present_config() -> None:
    """A slow provider may set the timer of an old config after the change of the config."""
    old, present = {"token": "old"}, {"token": "present"}
    restarted: list[Mapping[str, Any]] = []
    reloads = ConfigReloads(lambda _, config: restarted.append(config), RecordedNotices(), 1)
    reloads.schedule("c", old, {"old": 5, "other": 20})
    reloads.schedule("c", present, {"new": 40})
    await until(lambda: len(restarted) > 1)
    assert restarted == [old, present]
    reloads.close()


async def test_a_trace_names_the_unreadable_reference(providers: Providers) -> None:
    """The trace names the setting, its reference and the path, but not the provider's error."""
    async with running(TokenSource, runtime=RUNTIME, providers=providers) as worker:
        config = config_of(TokenSource, token="${leases:10:broken}")
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "FAILED")
        status = connector_status(worker, "s")
        assert status is not None
        last_line = str(status.trace).splitlines()[-1]
        sentence = "token is ${leases:10:broken}: 10 could not be read"
        assert last_line == f"controlplane.connect.errors.ConnectError: {sentence}"
        assert "sealed" not in str(status.trace)
        assert task_trace(worker, "s") == ""


def test_only_declared_classes_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that no package declares is not imported; one that fails to load is named."""
    providers = Providers({"x": "tests.worker.test_config_reloads.Leases"}, {})
    providers.load()
    with pytest.raises(SettingsError, match="which cannot run here"):
        providers.of_connector("token", "${x:1:token}")
    point = metadata.EntryPoint("x", "tests.worker.nowhere:Leases", GROUP)
    monkeypatch.setattr(metadata, "entry_points", lambda **_: [point])
    with pytest.raises(SettingsError, match=r"config\.providers\.x\.class: .*cannot be loaded"):
        Providers({"x": "tests.worker.nowhere.Leases"}, {}).load()


async def test_expired_values_are_in_no_task_config(providers: Providers) -> None:
    """The log has the reference, although each answer of the provider differs."""
    async with running(TokenSource, runtime=RUNTIME, providers=providers) as worker:
        config = config_of(TokenSource, token="${leases:10:token}")
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: len(tokens.get("s", ())) >= 3)
        tasks = worker.plane.state.config.tasks["s"]
        assert [task["token"] for task in tasks.values()] == ["${leases:10:token}"]


PACKAGED_PROVIDER = """
from controlplane.connect import ConfigProvider, ProvidedValue

class Vault(ConfigProvider):
    def configure(self, parameters):
        self.prefix = parameters["prefix"]

    def get(self, path, key):
        return ProvidedValue(f"{self.prefix}/{path}/{key}", None)
"""


async def test_a_provider_of_an_installed_package_gives_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata of a package declare its provider; a task gets the value."""
    tokens.clear()
    (tmp_path / "packaged_vault.py").write_text(PACKAGED_PROVIDER)
    package = tmp_path / "packaged_vault-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: packaged-vault\nVersion: 1\n")
    (package / "entry_points.txt").write_text(f"[{GROUP}]\nvault = packaged_vault:Vault\n")
    monkeypatch.syspath_prepend(tmp_path)
    providers = Providers({"v": "packaged_vault.Vault"}, {}, {"v": {"prefix": "p"}})
    async with running(TokenSource, runtime=RUNTIME, providers=providers) as worker:
        config = config_of(TokenSource, token="${v:path:key}")
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: tokens.get("s") == ["p/path/key"])
