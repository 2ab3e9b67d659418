"""Alert rules and dashboard, evaluated by a real Prometheus on a real service."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml

from controlplane.core.topics.partitioner import partition_of
from controlplane.logs.log import Record
from controlplane.logs.sqlite import SqliteLog
from tests.cli.running_service import HISTORIES, LIFE, ROOT, running
from tests.ports import free_ports

pytestmark = pytest.mark.prometheus

ALERTS = ROOT / "deploy" / "alerts.yaml"
DASHBOARD = ROOT / "deploy" / "dashboard.json"

STATUS = "connect-status"
NOW_MS = 1_795_219_000_000

PAUSE_S = 0.2
TRIES = 300
"""A minute, in which Prometheus starts and scrapes twice on the busiest machine."""


def alerts() -> list[dict[str, Any]]:
    """All alert rules of Prometheus's file; there is at least one."""
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert rules
    return rules


def panels() -> Iterator[tuple[str, str]]:
    """Title and expression of each query of the dashboard, for all instances."""
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$instance", ".*")
            yield panel["title"], expression.replace("$__rate_interval", "1m")


def names_in(expression: str) -> set[str]:
    """Metrics of an expression."""
    return set(re.findall(r"\b(?:kafka_connect|controlplane|process)_\w+", expression))


class Prometheus:
    """Real Prometheus with our rules, which scrapes one address every second."""

    def __init__(self, url: str) -> None:
        self._rest = httpx.AsyncClient(base_url=url, timeout=30)

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """Instant vector of an expression; fails if Prometheus cannot evaluate it."""
        answer = await self._rest.get("/api/v1/query", params={"query": expression})
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:  # it has not opened its storage
            return []
        assert answer.status_code == 200, answer.text
        result: list[dict[str, Any]] = answer.json()["data"]["result"]
        return result

    async def until_found(self, expression: str) -> list[dict[str, Any]]:
        """Instant vector, as soon as it is not empty."""
        for _ in range(TRIES):
            try:
                if result := await self.query(expression):
                    return result
            except httpx.TransportError:
                pass  # it has not started yet
            await asyncio.sleep(PAUSE_S)
        raise AssertionError(f"nothing was found: {expression}")

    async def close(self) -> None:
        """Close the connection to Prometheus."""
        await self._rest.aclose()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prometheus(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Prometheus]:
    """Prometheus after two scrapes of a service, each after some commands."""
    folder = tmp_path_factory.mktemp("prometheus")
    log = folder / "life.db"
    imported = (sys.executable, "-m", "controlplane", "import", LIFE, str(log))
    await asyncio.to_thread(subprocess.run, imported, check=True, capture_output=True)
    await _failed(log)
    catalogue = str(HISTORIES / "catalogue.json")
    async with (
        running(str(log), "--plugins", catalogue) as service,
        running(
            f"sqlite:///{folder}/live.db", "--worker-properties", str(_properties(folder))
        ) as worker,
        httpx.AsyncClient() as client,
    ):
        await _busy(client, service.url)
        await _run_pipeline(client, worker.url, folder / "out.txt")
        (port,) = free_ports(1)
        process = await _started(folder, [service.url, worker.url], port)
        prometheus = Prometheus(f"http://127.0.0.1:{port}")
        try:
            await prometheus.until_found("count(controlplane_build_info) == 2")
            await _busy(client, service.url)
            await prometheus.until_found("rate(controlplane_command_seconds_count[1m]) > 0")
            for polls in ("source_task_poll", "sink_task_put"):
                count = f"kafka_connect_{polls}_batch_time_ms_count"
                await prometheus.until_found(f"rate({count}[1m]) > 0")
            yield prometheus
        finally:
            await prometheus.close()
            process.terminate()
            await process.wait()


async def _failed(path: Path) -> None:
    """Let workers report a failed connector and a failed task."""
    failed = b'{"state":"FAILED","trace":"java.io.IOException","worker_id":"w:1","generation":9}'
    keys = b"status-connector-orders", b"status-task-orders-0"
    log = await SqliteLog.open(path)
    try:
        partitions = (await log.topics())[STATUS]
        await log.append(
            [Record(STATUS, partition_of(key, partitions), NOW_MS, key, failed) for key in keys]
        )
    finally:
        await log.close()


async def _busy(client: httpx.AsyncClient, url: str) -> None:
    """Send requests of every kind: commands, reads, refusals."""
    for verb in ("pause", "resume", "stop"):
        answer = await client.put(f"{url}/connectors/pages/{verb}")
        assert answer.is_success, answer.text
    assert (await client.get(f"{url}/connectors/nobody")).status_code == 404
    assert (await client.get(f"{url}/metrics")).is_success


def _properties(folder: Path) -> Path:
    """Settings of a worker that runs connectors."""
    file = folder / "worker.properties"
    file.write_text(
        "plugin.path=controlplane.connectors\n"
        f"connectors.folders={folder}\n"
        "key.converter=org.apache.kafka.connect.storage.StringConverter\n"
        "value.converter=org.apache.kafka.connect.storage.StringConverter\n"
        "offset.flush.interval.ms=200\n",
        encoding="utf-8",
    )
    return file


async def _run_pipeline(client: httpx.AsyncClient, url: str, out: Path) -> None:
    """Run a source and a sink of its topic."""
    package = "org.apache.kafka.connect.file"
    for name, config in {
        "orders": {
            "connector.class": "controlplane.connectors.GeneratorSource",
            "topic": "orders",
            "rate": "20",
        },
        "out": {
            "connector.class": f"{package}.FileStreamSinkConnector",
            "topics": "orders",
            "file": str(out),
        },
    }.items():
        body = {"name": name, "config": config}
        answer = await client.post(f"{url}/connectors", json=body)
        assert answer.is_success, answer.text


async def _started(folder: Path, targets: list[str], port: int) -> asyncio.subprocess.Process:
    hosts = [target.split("//")[1] for target in targets]
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [{"job_name": "controlplane", "static_configs": [{"targets": hosts}]}],
    }
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    program = shutil.which("prometheus")
    assert program is not None
    return await asyncio.create_subprocess_exec(
        *(program, f"--config.file={file}", f"--storage.tsdb.path={folder / 'tsdb'}"),
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )


def test_the_rules_are_valid() -> None:
    """`promtool` accepts the file unchanged."""
    done = subprocess.run(
        ["promtool", "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_configuration_of_the_composition_is_valid(tmp_path: Path) -> None:
    """`promtool` accepts the file beside the rules, as the composition mounts both."""
    for file in (ALERTS.parent / "compose" / "prometheus.yaml", ALERTS):
        shutil.copy(file, tmp_path)
    command = ["promtool", "check", "config", str(tmp_path / "prometheus.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 rule files found" in done.stdout


def test_every_alert_has_a_description() -> None:
    """Each alert has a severity, a summary with a label of its series, and a description."""
    for rule in alerts():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert "$labels." in rule["annotations"]["summary"]
        assert rule["annotations"]["description"]


@pytest.mark.asyncio(loop_scope="module")
async def test_alerts_use_existing_metrics(prometheus: Prometheus) -> None:
    """Each expression can be evaluated, and each metric in it has samples."""
    for rule in alerts():
        await prometheus.query(rule["expr"])
        names = names_in(rule["expr"])
        assert names, rule["alert"]
        for name in names:
            assert await prometheus.query(name), f"{rule['alert']}: no samples of {name}"


@pytest.mark.asyncio(loop_scope="module")
async def test_alerts_fire_only_for_problems(
    prometheus: Prometheus,
) -> None:
    """Alerts fire for the failed tasks and connectors, and not for the healthy service."""
    active = {rule["alert"] for rule in alerts() if await prometheus.query(rule["expr"])}
    assert {"ConnectTaskFailed", "ConnectorFailed"} <= active
    assert active <= {
        *("ConnectTaskFailed", "ConnectorFailed", "ConnectorNotRunning"),
        "ConnectTasksUnassigned",
    }


@pytest.mark.asyncio(loop_scope="module")
async def test_each_panel_of_the_dashboard_shows_something(prometheus: Prometheus) -> None:
    """Each query of each panel has a result."""
    assert len({title for title, _ in panels()}) > 10
    for title, expression in panels():
        assert await prometheus.query(expression), f"{title}: {expression}"


def test_the_dashboard_can_be_imported() -> None:
    """Each panel has an id and a grid position; data source and instance can be selected."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in dashboard["panels"])
    assert {variable["name"] for variable in dashboard["templating"]["list"]} == {
        "datasource",
        "instance",
    }
