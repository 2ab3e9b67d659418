"""Client commands against a service: authentication, authorization, concurrent changes."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controlplane.terminal.exit_codes import CLOSED_PIPE
from tests.cli.command_calls import ROOT, call
from tests.cli.running_service import RunningService, running
from tests.client.client_calls import ClusterCalls


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[RunningService]:
    """Service with an operator's token and anonymous viewing."""
    issued = call("credential", "token", "ci", "--role", "operate")
    (tmp_path / "tokens").write_text(issued.out, "ascii")
    (tmp_path / "token").write_text(issued.err.rpartition("Bearer ")[2], "ascii")
    settings = {"auth.token.file": tmp_path / "tokens", "auth.anonymous.role": "view"}
    overrides = [
        word for key, value in settings.items() for word in ("--override", f"{key}={value}")
    ]
    calls = ClusterCalls(f"sqlite:///{tmp_path}/state.db", tmp_path)
    await asyncio.to_thread(calls.create)
    async with running(calls.where, "--quiet", *overrides) as served:
        yield served


async def run_as_operator(
    service: RunningService, folder: Path, *words: str, compat: str = ""
) -> tuple[int, str]:
    """Exit code and output of a command as the operator."""
    cluster = ClusterCalls(f"{service.url}{compat}", folder)
    result = await asyncio.to_thread(lambda: cluster.ask(*words, "--token", f"@{folder}/token"))
    return result.code, result.out or result.err


async def test_roles_of_callers_apply(service: RunningService, tmp_path: Path) -> None:
    """An operator may stop but not delete; an anonymous user may view. Refusals give the reason."""
    assert await run_as_operator(service, tmp_path, "stop", "orders") == (0, "orders: stopped\n")
    code, printed = await run_as_operator(service, tmp_path, "delete", "orders")
    assert (code, printed.startswith("Error: ")) == (3, True)
    stranger = ClusterCalls(service.url, tmp_path)
    assert "orders" in await asyncio.to_thread(lambda: stranger.output("get"))
    assert await asyncio.to_thread(lambda: stranger.refused("stop", "orders"))
    trail = await asyncio.to_thread(lambda: stranger.json("commands", "--connector", "orders"))
    assert [command["principal"] for command in trail["commands"]][1:] == ["ci"]


async def test_compat_has_dry_runs_but_no_history(service: RunningService, tmp_path: Path) -> None:
    """A URL with /compat/ refuses `history` and plans dry runs."""
    beneath = {"compat": "/compat/3.9"}
    code, printed = await run_as_operator(service, tmp_path, "history", "orders", **beneath)
    assert (code, "leave /compat/ out of the URL for our own endpoints" in printed) == (3, True)
    code, printed = await run_as_operator(
        service, tmp_path, "stop", "orders", "--dry-run", **beneath
    )
    assert (code, printed.partition(":")[0]) == (0, "orders would be stopped")


async def test_a_reader_of_changes_may_leave(service: RunningService) -> None:
    """`watch | head -1` ends without a word once its reader has closed the pipe."""
    words = ("-m", "controlplane", "watch", "--after", "{}", "-o", "json", "-c", service.url)
    read_end, write_end = os.pipe()
    watching = await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=ROOT, stdout=write_end, stderr=asyncio.subprocess.PIPE
    )
    os.close(write_end)
    os.close(read_end)
    _, printed = await watching.communicate()
    assert (watching.returncode, printed.decode()) == (CLOSED_PIPE, "")


async def test_watch_prints_changes_of_other_clients(
    service: RunningService, tmp_path: Path
) -> None:
    """`watch` prints a change while another client makes it."""
    watching = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "controlplane", "watch", "--since", "{}", "-o", "json"),
        *("-c", service.url),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert watching.stdout is not None
    try:
        created = json.loads(await watching.stdout.readline())  # it is connected
        assert created["connector"] == "orders"
        await run_as_operator(service, tmp_path, "stop", "orders")
        changes = (json.loads(line) async for line in watching.stdout)
        assert "STOPPED" in [change["after"] async for change in _until(changes, "STOPPED")]
    finally:
        watching.kill()
        await watching.wait()


async def _until(
    changes: AsyncIterator[dict[str, object]], last: str
) -> AsyncIterator[dict[str, object]]:
    async for change in changes:
        yield change
        if change["after"] == last:
            return
