"""The path of a record and of a command through the code: files, and switches between them."""

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import httpx

import controlplane
from controlplane.core import views
from controlplane.core.commands import CreateConnector, StopConnector
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.core.state import Topics
from controlplane.logs.log import Record
from controlplane.logs.sqlite import SqliteLog
from controlplane.logs.sqlite.settings import SqliteSettings
from controlplane.plane import ControlPlane, Settings
from controlplane.projection.follower import Follower
from controlplane.projection.limits import FollowerLimits

PACKAGE = f"{Path(controlplane.__file__).parent}/"
ARCHITECTURE = Path(__file__).parent.parent / "docs/architecture.md"


class WalkLength(NamedTuple):
    """Files that a walk visits in the event loop's thread, and its switches between them.

    Lower both when the walk becomes shorter; a longer one needs a reason.
    """

    files: int
    switches: int


OF_A_RECORD = WalkLength(11, 27)
OF_A_STOP = WalkLength(22, 115)
OF_A_STOP_BY_HTTP = WalkLength(28, 144)

NEVER_MS = 3_600_000
"""Poll interval that no test reaches: a poll during the walk would count."""

CHANGED = ("orders", "invoices", "payments", "refunds", "returns")
"""Connectors to change. The shortest walk counts, because upkeep may run beside one of them."""

CONFIG = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "file": "/tmp/orders",
    "topic": "orders",
}


@contextmanager
def recorded_files() -> Iterator[list[str]]:
    """Record the file of each package frame that begins or resumes in this thread."""
    files: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            files.append(frame.f_code.co_filename.removeprefix(PACKAGE))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(before)


def check_walk(walks: list[list[str]], most: WalkLength) -> None:
    """Compare the shortest walk with its limits, and the limits with architecture.md."""
    files = min(walks, key=len)
    switches = [pair for pair in pairwise(files) if pair[0] != pair[1]]
    walk = "\n".join([files[0], *(after for _, after in switches)])
    measured = WalkLength(len(set(files)), len(switches))
    assert measured.files <= most.files, f"{measured}\n{walk}"
    assert measured.switches <= most.switches, f"{measured}\n{walk}"
    sentence = f"code in {most.files} source files, with {most.switches} switches between them"
    assert sentence in " ".join(ARCHITECTURE.read_text(encoding="utf-8").split())


async def test_a_record_takes_a_short_walk(tmp_path: Path) -> None:
    """A config record visits few files from its append to the state that has it."""
    unpolled = SqliteSettings(tail_poll_interval_ms=NEVER_MS)
    log = await SqliteLog.open(tmp_path / "state.db", settings=unpolled)
    topics, kip = Topics(), Profile.of(KIP)
    for topic in (topics.config, topics.offsets, topics.status):
        await log.create_topic(topic, 1)
    walks: list[list[str]] = []
    async with Follower(log, limits=FollowerLimits(topics_poll_ms=NEVER_MS)) as follower:
        await follower.state(kip)
        for name in ("first", *CHANGED):
            value = json.dumps({"properties": CONFIG}).encode()
            record = Record(topics.config, 0, 0, f"connector-{name}".encode(), value)
            positions = await log.append([record])
            with recorded_files() as files:
                await follower.wait_for_records(positions)
                state = await follower.state(kip)
            assert views.target(state, name) is not None
            walks.append(files)
    await log.close()
    check_walk(walks, OF_A_RECORD)


@asynccontextmanager
async def quiet_plane(folder: Path) -> AsyncIterator[ControlPlane]:
    """A plane with the connectors to change; it polls nothing while a walk is recorded."""
    unpolled = SqliteSettings(tail_poll_interval_ms=NEVER_MS)
    log = await SqliteLog.open(folder / "state.db", settings=unpolled)
    settings = Settings(follower=FollowerLimits(topics_poll_ms=NEVER_MS))
    async with ControlPlane.open(log, settings) as plane:
        for name in ("first", *CHANGED):
            await plane.execute(CreateConnector(name, CONFIG))
        yield plane
    await log.close()


async def test_a_stop_takes_a_short_walk(tmp_path: Path) -> None:
    """A stop visits few files and switches seldom; architecture.md has both numbers."""
    walks: list[list[str]] = []
    async with quiet_plane(tmp_path) as plane:
        await plane.execute(StopConnector("first"))  # imports the modules: later walks import none
        for name in CHANGED:
            with recorded_files() as files:
                await plane.execute(StopConnector(name))
            walks.append(files)
    check_walk(walks, OF_A_STOP)


async def test_a_stop_by_http_takes_a_short_walk(tmp_path: Path) -> None:
    """The walk includes the application: routing, middleware and response."""
    walks: list[list[str]] = []
    async with quiet_plane(tmp_path) as plane:
        transport = httpx.ASGITransport(plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://plane") as client:
            for name in ("first", *CHANGED):
                with recorded_files() as files:
                    answer = await client.put(f"/connectors/{name}/stop")
                assert answer.status_code == httpx.codes.NO_CONTENT
                walks.append(files)
    check_walk(walks[1:], OF_A_STOP_BY_HTTP)
