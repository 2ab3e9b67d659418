"""Workers that are upgraded while a service runs: one warning, and refusals that are true."""

from collections.abc import Iterable
from functools import partial

import httpx
import msgspec
import pytest

from controlplane.attached.cluster_check import IdentifiedCluster
from controlplane.attached.connect_client import WorkerInfo
from controlplane.attached.release_watch import RELEASE_CHANGED, ReleaseWatch
from controlplane.core.releases.profiles import Profile
from controlplane.rest.app import App
from controlplane.rest.errors import NOTICE
from tests.attached.test_attached_plane import CONFIG
from tests.attached.test_worker_admission import (
    BRIEF,
    PAUSE,
    REFUSED,
    AttachedParts,
    SwitchedWorker,
    attached_parts,
)
from tests.outages import until
from tests.worker.worker_fixture import RecordedNotices

EAGER = msgspec.structs.replace(BRIEF, release_check_ms=1)
"""Limits of a service that asks its workers all the time."""

ORIGIN = "found out at its start (restart it after an upgrade of the workers)"


def warned(notices: RecordedNotices) -> list[tuple[str, str]]:
    """Both releases of each warning: that of the plans, and that of the workers."""
    facts = notices.of(RELEASE_CHANGED)
    assert all(each["advice"].startswith("restart this service") for each in facts)
    return [(each["planned_as"], each["workers_run"]) for each in facts]


OLD, NEW = "3.4.1", "3.9.1"


@pytest.mark.parametrize(
    ("versions", "warnings"),
    [
        ([("w0", NEW)], []),
        ([("w0", NEW), ("w1", NEW)], [NEW]),
        ([("w0", NEW), ("w1", NEW), ("w0", NEW), ("w1", NEW)], [NEW]),
        ([("w0", NEW), ("w1", "4.3.0"), ("w0", "4.3.0")], ["4.3.0"]),
        ([("w0", NEW), ("w1", NEW), ("w0", "4.3.0"), ("w1", "4.3.0")], [NEW, "4.3.0"]),
        ([("w0", NEW), ("w1", NEW), ("w0", OLD), ("w1", OLD)], [NEW]),
        ([("w0", NEW), ("w1", NEW), ("w1", OLD), ("w0", OLD), ("w0", NEW), ("w1", NEW)], [NEW] * 2),
        ([("w0", "7.5.0-ccs"), ("w1", "7.5.0-ccs")], ["7.5.0-ccs"]),
        ([("w0", "3.4.2"), ("w1", "3.4.2")], []),
    ],
    ids=["mixed", "rolled", "once", "jump", "twice", "back", "again", "fork", "unknown patch"],
)
def test_each_complete_change_is_reported_once(
    versions: Iterable[tuple[str, str]], warnings: list[str]
) -> None:
    """While the workers run several releases, the upgrade goes on."""
    notices = RecordedNotices()
    workers = [WorkerInfo(name, OLD, "here") for name in ("w0", "w1")]
    watch = ReleaseWatch(IdentifiedCluster(tuple(workers), Profile.of(OLD)), notices)
    for name, version in versions:
        watch.update(WorkerInfo(name, version, "here"))
    assert warned(notices) == [(OLD, release) for release in warnings]


async def test_a_service_that_lives_through_an_upgrade_warns_once() -> None:
    """The first worker is upgraded, then the second one, as the service runs."""
    workers, notices = (SwitchedWorker(), SwitchedWorker()), RecordedNotices()
    async with attached_parts(*workers, limits=EAGER, notices=notices):
        for worker in workers:
            assert warned(notices) == []
            worker.version = "4.3.0"
            await rounds(workers)
        assert warned(notices) == [("3.9.1", "4.3.0")]


async def rounds(workers: Iterable[SwitchedWorker]) -> None:
    """Wait until the service has asked each worker twice: then it has judged the first answers."""
    for worker in workers:
        enough = len(worker.paths) + 2
        await until(partial(has_requests, worker, enough))


def has_requests(worker: SwitchedWorker, count: int) -> bool:
    """True once the worker has got so many requests."""
    return len(worker.paths) >= count


async def test_a_worker_that_is_gone_does_not_count() -> None:
    """A worker that was removed does not hide an upgrade, and a foreign one does not count."""
    stays, gone, foreign = SwitchedWorker(), SwitchedWorker(), SwitchedWorker()
    notices = RecordedNotices()
    async with attached_parts(stays, gone, foreign, limits=EAGER, notices=notices):
        gone.failure, foreign.cluster_id, stays.version = REFUSED, "there", "4.3.0"
        await until(lambda: bool(warned(notices)))
    assert warned(notices) == [("3.9.1", "4.3.0")]


async def test_a_named_release_is_not_watched() -> None:
    """The user of `--release` knows which release the service plans as."""
    worker, notices = SwitchedWorker(), RecordedNotices()
    named = Profile.of("3.4.1")
    async with attached_parts(worker, limits=EAGER, notices=notices, release=named) as parts:
        worker.failure = REFUSED
        with pytest.raises(Exception, match="cannot be reached"):
            await parts.client.send(PAUSE)
        worker.failure, worker.version = None, "4.3.0"
        await parts.client.send(PAUSE)
        assert worker.paths.count("/") == 2  # at the start, and when the worker was back
        sentence = await refusal(parts)
    assert warned(notices) == []
    assert "this service plans as 3.4.1, named with --release: " in sentence


async def test_a_worker_that_comes_back_upgraded_is_reported_at_once() -> None:
    """The check of a worker that was away has its version; the next interval is far away."""
    worker, notices = SwitchedWorker(), RecordedNotices()
    async with attached_parts(worker, notices=notices) as parts:
        worker.failure = REFUSED
        with pytest.raises(Exception, match="cannot be reached"):
            await parts.client.send(PAUSE)
        worker.failure, worker.version = None, "4.3.0"
        await parts.client.send(PAUSE)
    assert warned(notices) == [("3.9.1", "4.3.0")]


async def ask(parts: AttachedParts, method: str, path: str, body: object = None) -> httpx.Response:
    """Answer of the service."""
    transport = httpx.ASGITransport(App(parts.service))
    async with httpx.AsyncClient(transport=transport, base_url="http://ours") as rest:
        return await rest.request(method, path, json=body)


async def refusal(parts: AttachedParts) -> str:
    """Sentence about a creation that needs workers of 3.7."""
    body = {"name": "new", "config": CONFIG | {"name": "new"}, "initial_state": "STOPPED"}
    answer = await ask(parts, "POST", "/connectors", body)
    assert answer.status_code == httpx.codes.BAD_REQUEST
    return str(answer.json()["message"])


@pytest.mark.parametrize(
    ("method", "path", "notice"),
    [
        ("PUT", "/connectors/orders/stop", f"this service answers as Connect 3.4.1, {ORIGIN}"),
        ("PATCH", "/connectors/orders/offsets", f"this service answers as Connect 3.4.1, {ORIGIN}"),
        ("PUT", "/compat/3.4/connectors/orders/stop", None),
        ("PUT", "/connectors/orders/stop?profile=3.4", None),
        ("PUT", "/connectors/orders/halt", None),
        ("PATCH", "/connectors/orders/status", None),
    ],
    ids=["path", "method", "compat", "profile", "no release", "no method"],
)
async def test_the_root_says_why_it_lacks_a_request(
    method: str, path: str, notice: str | None
) -> None:
    """The body stays a worker's; the notice tells that the release was found out at the start."""
    worker = SwitchedWorker()
    worker.version = "3.4.1"
    async with attached_parts(worker) as parts:
        answer = await ask(parts, method, path)
        assert f"this service plans as 3.4.1, {ORIGIN}: " in await refusal(parts)
    assert answer.json()["message"] in ("HTTP 404 Not Found", "HTTP 405 Method Not Allowed")
    assert answer.headers.get(NOTICE) == notice
