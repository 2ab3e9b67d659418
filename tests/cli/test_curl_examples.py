"""Examples that `serve` prints come from the log, and work."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest

from controlplane.cli.serve import curl_examples
from controlplane.cli.serve.curl_examples import (
    Contrast,
    find_contrast,
    latest_contrast,
    lines,
)
from controlplane.cli.serve.serve_command import announce
from controlplane.cli.serve.serve_options import ServeOptions
from controlplane.core.entry import Entry
from controlplane.core.fold import fold
from controlplane.core.order import Ends
from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import ClusterState, Topics
from controlplane.logs.log import LogUnavailable, ReadableLog
from controlplane.logs.log_factory import memory_log, open_log
from controlplane.plane import ControlPlane
from controlplane.projection.past_states import ends_now
from controlplane.terminal.log_options import LogOptions

HISTORIES = Path(__file__).parent.parent / "histories"
URL = "http://127.0.0.1:8083"
KIP = Profile.of("kip")


@pytest.mark.parametrize(
    ("history", "contrast"),
    [
        ("roll-3.4-3.9-3.4", Contrast("/connectors/born/status", None)),
        ("compacted-3.9", Contrast("/connectors/deleted/tasks", None)),
        ("exactly-once-3.9", Contrast("/connectors/own/status", "status@15")),
        ("life-2.8", None),
    ],
)
async def test_the_example_shows_a_difference_of_releases(
    history: str, contrast: Contrast | None
) -> None:
    """The example shows a present difference of two releases, or else the latest past one."""
    log = (await open_log(str(HISTORIES / f"{history}.log.jsonl"))).log
    assert await find_contrast(log, Topics(), await ends_now(log, Topics())) == contrast
    await log.close()


async def test_long_histories_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search for an example ends after a number of records."""
    monkeypatch.setattr(curl_examples, "SEARCHED_RECORDS", 10)
    log = (await open_log(str(HISTORIES / "roll-3.4-3.9-3.4.log.jsonl"))).log
    assert await find_contrast(log, Topics(), await ends_now(log, Topics())) is None
    await log.close()


async def test_other_tasks_run_while_an_example_is_searched() -> None:
    """The service answers requests by then, and its connectors run."""
    value = b'{"state":"RUNNING","trace":null,"worker_id":"w:1","generation":1}'
    entries = [
        Entry("connect-status", 0, number, number, b"status-task-c-0", value)
        for number in range(5_000)
    ]
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    assert await latest_contrast(entries, Topics()) is None
    counting.cancel()
    assert turns >= 5


class LostLog:
    """Log whose brokers have become unavailable."""

    async def starts(self, _: Iterable[str]) -> Ends:
        """Fail as a log on brokers does."""
        raise LogUnavailable("no broker answers")


async def test_an_outage_while_examples_are_searched_does_not_end_the_service(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Requests are answered by then, and the service outlives later outages, too."""
    service = ServeOptions(
        *("state.db", LogOptions(), KIP, Plugins()),
        exactly_once=False,
        follow=True,
        quiet=True,
        log_format="logfmt",
        read_only=False,
    )
    async with ControlPlane.open("memory:") as plane:
        await announce(service, cast("ReadableLog", LostLog()), plane.service, URL)
    assert f"curl -s -w '\\n' '{URL}/connectors'" in capsys.readouterr().out


def test_an_empty_log_has_examples_without_connectors() -> None:
    """An empty log gives the examples without connectors."""
    assert lines(URL, ClusterState(KIP), None) == [
        f"curl -s -w '\\n' '{URL}/'",
        f"curl -s -w '\\n' '{URL}/connectors'",
        f"curl -s -w '\\n' '{URL}/connectors?profile=3.4'",
    ]


async def test_special_characters_are_quoted() -> None:
    """Special characters in a name are quoted for shell and curl."""
    name = "a'b/{c} \N{PILE OF POO}"
    key = f"connector-{name}".encode()
    entries = [Entry("connect-configs", 0, 0, 1, key, b'{"properties":{}}')]
    log = await memory_log(entries)
    shown = lines(URL, fold(entries, KIP), None)
    quoted = "a%27b%2F%7Bc%7D%20%F0%9F%92%A9"
    assert shown[1] == f"curl -s -w '\\n' '{URL}/connectors/{quoted}/status'"
    assert shown[2] == f"curl -s -w '\\n' '{URL}/connectors/{quoted}/status?profile={{3.4,3.9}}'"
    await log.close()


def test_a_past_contrast_has_its_moment() -> None:
    """The example has a moment if the releases differed only then."""
    entries = [Entry("connect-configs", 0, 0, 1, b"connector-a", b'{"properties":{}}')]
    contrast = Contrast("/connectors/a/status", "status@15")
    shown = lines(URL, fold(entries, KIP), contrast)[2]
    query = "?as_of=status@15&profile={3.4,3.9}"
    assert shown == f"curl -s -w '\\n' '{URL}/connectors/a/status{query}'"
