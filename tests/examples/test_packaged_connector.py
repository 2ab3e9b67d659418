"""A connector in a package of its own, installed by pip as `docs/connectors.md` says."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import httpx
import pytest

from tests.cli.running_service import running
from tests.cli.standalone_process import WORKER, write_properties
from tests.examples.test_readings import PACKAGING, blocks
from tests.patience import PATIENCE_S

MODULE = """
    from controlplane.connect import Source

    class OrdersSource(Source):
        version = "7.1"

        async def read(self, task):
            yield task.record("an order", {"p": 1}, {"at": 1}, topic="orders")
            while True:
                yield task.idle(0.1)
"""

CLASS = "example.orders.OrdersSource"
BODY: Mapping[str, Any] = {"name": "orders", "config": {"connector.class": CLASS}}

WITHOUT_NETWORK = ("--no-index", "--no-deps", "--no-build-isolation", "--quiet")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder in which pip has installed the package of the document."""
    project = tmp_path_factory.mktemp("example-orders")
    (project / "pyproject.toml").write_text(blocks("toml", PACKAGING)[0], "utf-8")
    (project / "example").mkdir()
    (project / "example" / "orders.py").write_text(dedent(MODULE), "utf-8")
    target = tmp_path_factory.mktemp("site")
    install = (sys.executable, "-m", "pip", "install", *WITHOUT_NETWORK, "--target", str(target))
    subprocess.run([*install, str(project)], check=True, timeout=PATIENCE_S)
    return target


@pytest.fixture
def on_path(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let new processes find the installed package."""
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize("place", ["example", "example.orders"])
async def test_a_named_package_runs(tmp_path: Path, place: str) -> None:
    """The worker finds the class by its entry point, lists its version, and writes its record."""
    file = write_properties(tmp_path / "worker.properties", {**WORKER, "plugin.path": place})
    log = f"sqlite:///{tmp_path}/state.db"
    async with (
        running(log, "--worker-properties", str(file)) as service,
        httpx.AsyncClient(base_url=service.url) as client,
    ):
        listed = (await client.get("/connector-plugins")).json()
        assert {"class": CLASS, "type": "source", "version": "7.1"} in listed
        assert (await client.post("/connectors", json=BODY)).status_code == 201
        written = 'source_record_write_total{connector="orders",task="0"} 1.0'
        async with asyncio.timeout(PATIENCE_S):
            while written not in (await client.get("/metrics")).text:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.05)


@pytest.mark.usefixtures("on_path")
async def test_another_package_is_refused(tmp_path: Path) -> None:
    """An installed class that `plugin.path` does not name is neither listed nor created."""
    file = write_properties(tmp_path / "worker.properties", WORKER)
    log = f"sqlite:///{tmp_path}/state.db"
    async with (
        running(log, "--worker-properties", str(file)) as service,
        httpx.AsyncClient(base_url=service.url) as client,
    ):
        assert CLASS not in (await client.get("/connector-plugins")).text
        refused = await client.post("/connectors", json=BODY)
        assert refused.status_code == 400
        assert f"implements Connector and which name matches {CLASS}" in refused.json()["message"]
        assert (await client.get("/connectors")).json() == []
