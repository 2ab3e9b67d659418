"""`controlplane serve` with connectors that run in its process, observed from outside."""

import asyncio
import json
from pathlib import Path
from textwrap import dedent

import httpx
import pytest

from tests.cli.command_calls import call, refusal
from tests.cli.running_service import RunningService, running
from tests.patience import PATIENCE_S

TALKING = """
    import logging

    from controlplane.connect import Source

    class Talking(Source):
        '''Logs and prints.'''

        async def read(self, task):
            print("printed by a connector", flush=True)
            logging.getLogger("author").warning("reading %s", task.connector)
            yield task.record("x", {"p": 1}, {"at": 1}, topic="t")
            while True:
                yield task.idle(0.1)
"""


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """Settings of a worker with the connector of this module."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "talking.py").write_text(dedent(TALKING))
    file = tmp_path / "worker.properties"
    file.write_text(
        f"plugin.path={modules}\n"
        "key.converter=org.apache.kafka.connect.storage.StringConverter\n"
        "value.converter=org.apache.kafka.connect.storage.StringConverter\n"
    )
    return file


async def _run_source(service: RunningService) -> str:
    """Create the connector; return the metrics once its record is in the log."""
    body = {"name": "a b", "config": {"connector.class": "talking.Talking"}}
    written = 'source_record_write_total{connector="a b",task="0"} 1.0'
    async with httpx.AsyncClient() as client, asyncio.timeout(PATIENCE_S):
        await client.post(f"{service.url}/connectors", json=body)
        while True:
            metrics = (await client.get(f"{service.url}/metrics")).text
            if written in metrics:
                return metrics
            await asyncio.sleep(0.05)


async def test_metrics_of_running_tasks_are_served(tmp_path: Path, properties: Path) -> None:
    """Metrics of tasks are served beside those of the cluster."""
    log = f"sqlite:///{tmp_path}/state.db"
    async with running(log, "--worker-properties", str(properties)) as service:
        metrics = await _run_source(service)
    assert "kafka_connect_worker_task_startup_success_total 1.0" in metrics
    assert (
        'kafka_connect_connector_status{connector="a b",status="running",task="0"} 1.0' in metrics
    )


@pytest.mark.parametrize("log_format", ["logfmt", "json"])
async def test_lines_of_an_author_have_their_context(
    tmp_path: Path, properties: Path, log_format: str
) -> None:
    """Log lines go to standard error; printed text goes to standard output, and nowhere else."""
    log = f"sqlite:///{tmp_path}/state.db"
    flags = "--worker-properties", str(properties), "--log-format", log_format, "--quiet"
    async with running(log, *flags) as service:
        await _run_source(service)
        assert service.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while (
                "printed by a connector" not in (await service.process.stdout.readline()).decode()
            ):
                pass
        _, stderr = await service.end()
    assert "printed by a connector" not in stderr
    (line,) = [line for line in stderr.splitlines() if "reading a b" in line]
    if log_format == "json":
        fields = json.loads(line)
        assert (fields["event"], fields["logger"]) == ("reading a b", "author")
        assert fields["connector.context"] == "[a b|task-0]"
    else:
        assert 'event="reading a b" connector.context="[a b|task-0]" logger=author' in line


async def test_classes_that_run_here_are_declared(tmp_path: Path, properties: Path) -> None:
    """A second start does not warn of classes that run here."""
    log = f"sqlite:///{tmp_path}/state.db"
    flags = "--worker-properties", str(properties), "--quiet"
    async with running(log, *flags) as service:
        await _run_source(service)
    async with running(log, *flags) as service:
        _, stderr = await service.end()
    assert "not declared" not in stderr


async def test_a_missing_absolute_folder_is_named(tmp_path: Path) -> None:
    """The warning about a worker without connectors tells which entry does not exist."""
    flags = "--override", f"plugin.path={tmp_path}/missing,{tmp_path}", "--quiet"
    async with running(f"sqlite:///{tmp_path}/state.db", *flags) as service:
        _, stderr = await service.end()
    named = f"{tmp_path}/missing does not exist, {tmp_path}"
    assert f"directory with connectors ({named}), so no connector runs here" in stderr


def test_a_missing_module_leaves_no_log(tmp_path: Path) -> None:
    """A refused start creates no file."""
    log = tmp_path / "state.db"
    sentence = refusal(call("serve", f"sqlite:///{log}", "--override", "plugin.path=nowhere"))
    assert sentence.startswith("plugin.path names nowhere, a module that cannot be imported")
    assert list(tmp_path.iterdir()) == []


CLOSING = """
    import os, sys

    from controlplane.connect import Source

    class Talking(Source):
        async def read(self, task):
            sys.stdout.close()
            os.close(1)
            sys.stderr.close()
            yield task.record("x", {"p": 1}, {"at": 1}, topic="t")
            while True:
                yield task.idle(0.1)
"""


async def test_a_connector_may_close_the_standard_streams(tmp_path: Path, properties: Path) -> None:
    """The worker then ends with exit code 0, as without the connector."""
    (tmp_path / "modules" / "talking.py").write_text(dedent(CLOSING))
    flags = "--worker-properties", str(properties), "--quiet"
    async with running(f"sqlite:///{tmp_path}/state.db", *flags) as service:
        await _run_source(service)
        await service.end()
        assert service.process.returncode == 0
