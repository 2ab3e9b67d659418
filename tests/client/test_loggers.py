"""`get loggers` and `patch logger`: a service has loggers, and a log alone has none."""

import asyncio

import httpx
import pytest

from controlplane.client.commands.patch_commands import patch_logger
from tests.cli.running_service import running
from tests.client.client_calls import ClusterCalls, FakeWorker, command_body

LEVELS = "ALL, TRACE, DEBUG, INFO, WARN, ERROR, FATAL, OFF"


@pytest.mark.parametrize(
    "words", ["get loggers", "patch logger root INFO --scope worker", "get loggers -o json"]
)
def test_a_log_has_no_loggers(cluster: ClusterCalls, words: str) -> None:
    """Loggers belong to a process, so the refusal asks for its URL."""
    cluster.create()
    assert cluster.refused(*words.split()) == (
        f"{cluster.where} is a log, and loggers belong to a process: give the URL of the service "
        "or worker (--cluster URL)"
    )


def test_a_level_for_all_workers_is_written_to_a_log(cluster: ClusterCalls) -> None:
    """The record is for the workers (KIP-976); the command itself prints no log line."""
    cluster.create()
    result = cluster.ask("patch", "logger", "root", "DEBUG")
    assert (result.code, result.out, result.err) == (0, "root: set to DEBUG\n", "")


def test_an_invalid_level_is_refused_with_the_valid_ones(cluster: ClusterCalls) -> None:
    """The refusal has Connect's sentence and the valid levels."""
    cluster.create()
    assert cluster.refused("patch", "logger", "root", "FOO") == (
        f"invalid log level 'FOO': give one of {LEVELS}"
    )


async def test_a_level_on_one_worker_only_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A release before 3.7 ignores the scope, and answers with its loggers."""
    only = " (only on the worker that answered: its release ignores scope=cluster)"
    options = {"logger": "root", "level": "DEBUG", "output": "table", "dry_run": False}
    for scope, answer, words in (
        ("cluster", httpx.Response(200, json=["root"]), only),
        ("cluster", httpx.Response(204), ""),
        ("worker", httpx.Response(200, json=["root"]), ""),
    ):
        api = await FakeWorker(answer).api()
        await command_body(patch_logger)(api, scope=scope, **options)
        assert capsys.readouterr().out == f"root: set to DEBUG{words}\n"


async def test_a_service_has_loggers(cluster: ClusterCalls) -> None:
    """The level of `root` changes at once, for the worker's scope too."""
    await asyncio.to_thread(cluster.create)
    async with running(cluster.where, "--quiet") as served:
        service = ClusterCalls(served.url, cluster.folder)
        change = ("patch", "logger", "root", "ERROR", "--scope", "worker")
        assert "set to ERROR" in await asyncio.to_thread(service.output, *change)
        listed = await asyncio.to_thread(service.json, "get", "loggers")
        assert listed["root"]["level"] == "ERROR"
