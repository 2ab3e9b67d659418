"""Relative paths of a worker stay valid after a connector has changed the working directory."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.connect import Source
from controlplane.connect.source import SourceRun
from controlplane.connectors.file_access import FileAccess
from controlplane.core.commands import CreateConnector, PauseConnector, ResumeConnector
from controlplane.logs.kafka.connector_clusters import client_access
from controlplane.logs.log import LogReplaced, Record
from controlplane.logs.sqlite import SqliteLog
from controlplane.observe import silent
from controlplane.rest.security.credential_files import CredentialFile
from controlplane.rest.security.credential_hashes import Credential, Scrypt
from controlplane.rest.security.roles import Role
from controlplane.settings import Configuration
from controlplane.settings.providers import Providers
from controlplane.settings.sources import flag_values
from controlplane.worker.standalone.offset_file import OffsetFile
from tests.worker.worker_fixture import config_of, offsets, running, until, until_state

KAFKAS = "org.apache.kafka.common.config.provider"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Begin in one directory, and return another."""
    start, other = tmp_path / "start", tmp_path / "other"
    start.mkdir()
    other.mkdir()
    monkeypatch.chdir(start)
    return other


def names_in(folder: Path) -> list[str]:
    """Names of the files in a directory."""
    return [file.name for file in folder.iterdir()]


class Leaving(Source):
    """Changes the working directory, then counts."""

    async def read(self, task: SourceRun) -> AsyncIterator[Any]:
        """Leave, and yield the numbers from 1 on."""
        os.chdir(task.config["to"])
        at = 0
        while True:
            at += 1
            yield task.record(str(at), {"p": 1}, {"at": at}, topic="t")
            yield task.idle(0.01)


async def test_the_worker_survives_a_changed_directory(elsewhere: Path) -> None:
    """The worker commits its offsets, and executes commands."""
    log = await SqliteLog.open("state.db")
    try:
        async with running(Leaving, log=log) as worker:
            await worker.plane.execute(CreateConnector("c", config_of(Leaving, to=str(elsewhere))))
            await until(lambda: offsets(worker, "c").get("{'p': 1}", {"at": 0})["at"] > 3)
            await worker.plane.execute(PauseConnector("c"))
            await until_state(worker, "c", "PAUSED", "PAUSED")
            await worker.plane.execute(ResumeConnector("c"))
            await until_state(worker, "c", "RUNNING", "RUNNING")
    finally:
        await log.close()
    assert names_in(elsewhere) == []


async def test_a_log_stays_at_its_place(elsewhere: Path) -> None:
    """The log is read, written and locked at its place; messages show the path as it was given."""
    start = Path.cwd()
    log = await SqliteLog.open("state.db")
    with log.writer_lock():
        os.chdir(elsewhere)
        await log.create_topic("t", 1)
        await log.append([Record("t", 0, 1_000, None, b"v")])
        assert [len(batch) async for batch in log.read(["t"])] == [1]
        await log.check_writable()
        (start / "state.db").rename(start / "moved.db")
        with pytest.raises(LogReplaced, match=r"^The log state\.db was deleted"):
            await log.append([Record("t", 0, 1_000, None, b"v")])
    await log.close()
    assert not (start / "state.db-writer").exists()
    assert names_in(elsewhere) == []


def test_an_offsets_file_stays_at_its_place(elsewhere: Path) -> None:
    """The offsets file of a standalone worker stays at its place."""
    start, file = Path.cwd(), OffsetFile(Path("offsets"))
    os.chdir(elsewhere)
    file.save({b"k": b"v"})
    assert file.load() == {b"k": b"v"}
    assert (start / "offsets").exists()


def test_files_of_config_providers_stay_at_their_places(elsewhere: Path) -> None:
    """Relative paths of `FileConfigProvider` and `DirectoryConfigProvider` stay the same."""
    Path("a.properties").write_text("k=1\n")
    Path("folder").mkdir()
    Path("folder/k").write_text("2")
    classes = {"f": f"{KAFKAS}.FileConfigProvider", "d": f"{KAFKAS}.DirectoryConfigProvider"}
    providers = Providers(classes, {})
    os.chdir(elsewhere)
    assert providers.of_connector("x", "${f:a.properties:k}${d:folder:k}").text == "12"
    assert providers.of_connector("x", "${d:folder:../a.properties}").secrets == {}


@pytest.mark.parametrize("settings_of", ["connector", "worker", "client"])
def test_key_stores_stay_at_their_places(elsewhere: Path, settings_of: str) -> None:
    """Relative paths of stores stay the same, also if a plugin changes the directory."""
    start = Path.cwd()
    keys = {"security.protocol": "SSL"}
    for store in ("truststore", "keystore"):
        keys |= {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": f"{store}.pem"}
    prefix = "producer." if settings_of == "client" else ""
    own = {} if settings_of == "connector" else keys
    configuration = Configuration(flag_values((key, prefix + key, own[key]) for key in own))
    os.chdir(elsewhere)
    overrides = keys if settings_of == "connector" else {}
    tls = client_access("broker:9092", configuration, "producer", overrides).security.tls
    assert tls is not None
    assert (tls.trusted, tls.identity) == (start / "truststore.pem", start / "keystore.pem")


def test_files_of_connectors_stay_at_their_places(elsewhere: Path) -> None:
    """Relative paths in the configs of the project's connectors stay the same."""
    Path("in.txt").write_text("line")
    start, access = Path.cwd(), FileAccess.to([Path()])
    os.chdir(elsewhere)
    assert access.path("in.txt") == start.resolve() / "in.txt"


def test_a_credential_file_stays_at_its_place(elsewhere: Path) -> None:
    """Credentials stay valid, and a change is found."""
    path = Path("tokens").absolute()
    path.write_text("a\n")
    file = CredentialFile(Path("tokens"), _credential, silent())
    os.chdir(elsewhere)
    path.write_text("a\nb\n")
    assert [credential.name for credential in file.current()] == ["a", "b"]


def _credential(name: str) -> Credential:
    return Credential(name, Role.VIEW, Scrypt.decoy())
