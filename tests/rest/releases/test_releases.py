"""Comparison of `/compat/{release}` with recorded workers of every minor release.

Status, headers that clients use, and body are equal; a table has a reason for each difference.
"""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import NamedTuple

import msgspec
import pytest
from starlette.types import ASGIApp

from controlplane.core.plugins import Plugins
from controlplane.core.releases.profiles import Profile
from controlplane.logs.memory import MemoryLog
from controlplane.observe import silent
from controlplane.plane import ControlPlane, Surroundings
from controlplane.plane_settings import plane_settings
from controlplane.plugins import catalogued
from controlplane.rest.http.server import listen, serving
from controlplane.rest.security.middleware import Protection, protected
from controlplane.settings import Configuration, SourcedValue, ValueSource
from tests.conftest import sampled
from tests.kafka.real_kafka import WORKER
from tests.rest.broker import SimulatedBroker
from tests.rest.probes.comparison import differences
from tests.rest.probes.raw_requests import ClientAddress, Response, call
from tests.rest.probes.rows import ProbeRow
from tests.rest.probes.runtime import KEY, Recording, Runtime
from tests.rest.releases.cases import CROSS_ORIGIN, cases, cross_origin_cases
from tests.rest.releases.exceptions import reason_of
from tests.rest.releases.recorder import RELEASES, delete_all, sent_until_ready
from tests.rest.releases.recordings import read

pytestmark = pytest.mark.slow

COMPARED = ("2.8.2", "4.3.0")
"""Releases that `make test` compares; `make prove` compares all."""

_TASKS, _NONE = re.compile(r'"tasks":\[[^\]]*\]'), '"tasks":[]'

FILE = "org.apache.kafka.connect.file.FileStream"


class ReleaseWorker(NamedTuple):
    """A control plane that answers as a worker of a release."""

    app: ASGIApp
    address: ClientAddress
    prefix: str
    plane: ControlPlane


@asynccontextmanager
async def served(release: str, settings: Mapping[str, object]) -> AsyncIterator[ReleaseWorker]:
    """Serve with the settings of the recorded workers; the root answers as the release."""
    source = ValueSource("file", "worker.properties")
    configuration = Configuration(
        {key: SourcedValue(str(value), source) for key, value in settings.items()}
    )
    log, broker, profile = MemoryLog(), SimulatedBroker(), Profile.of(release)
    around = Surroundings(_plugins(), broker, notices=silent())
    of_plane = msgspec.structs.replace(plane_settings(configuration), profile=release)
    async with ControlPlane.open(log, of_plane, around) as plane:
        app = protected(plane.app, Protection.from_configuration(configuration), dialect=profile)
        await Runtime(log, plane, broker, Recording({}, {}), profile).lead()
        async with serving(app, listening := listen("127.0.0.1", 0)):
            yield ReleaseWorker(app, listening.getsockname(), f"/compat/{release}", plane)


def _plugins() -> Plugins:
    listed = [{"class": f"{FILE}{kind}Connector"} for kind in ("Source", "Sink")]
    return catalogued(msgspec.json.encode(listed))


async def exchanged(
    served: ReleaseWorker, rows: Sequence[ProbeRow]
) -> list[tuple[ProbeRow, list[str]]]:
    """The requests, each with the differences between our answer and the recorded one."""
    results = []
    for row in rows:
        plain = row.sent is None or "Content-Length" in dict(row.headers)
        if row.target.isascii() and plain:
            response = await sent_until_ready(served.address, row, served.prefix)
        else:
            response = await call(served.app, row, served.prefix, KEY)
        results.append((row, _differences(row, response, served)))
        if served.plane.state.config.connectors:
            await delete_all(served.address, served.prefix)
    return results


def _differences(row: ProbeRow, response: Response | None, served: ReleaseWorker) -> list[str]:
    if response is None:
        return [] if row.status == 0 else ["no answer"]
    host, port = served.address
    own = f"{host}:{port}"
    text = response.body.replace(served.prefix.encode(), b"")
    for base in (b"http://" + own.encode(), b"http://connect"):
        text = text.replace(base, b"http://127.0.0.1:8083")
    if row.method == "HEAD":  # no client reads a body there, though Jetty 12 may send one
        row, text = msgspec.structs.replace(row, answer=""), b""
    if row.status == HTTPStatus.CREATED:  # some workers have made tasks by then, others have not
        row = msgspec.structs.replace(row, answer=_TASKS.sub(_NONE, row.answer or ""))
        text = _TASKS.sub(_NONE, text.decode()).encode()
    return differences(row, response._replace(body=text))


async def _unexplained(
    release: str, settings: Mapping[str, str], rows: list[ProbeRow]
) -> list[str]:
    async with served(release, {**WORKER, **settings}) as ours:
        results = await exchanged(ours, rows)
    messages = []
    for row, wrong in results:
        reason = reason_of(row, Profile.of(release))
        if wrong and reason is None:
            request_line = f"{row.n} {row.method} {row.target[:70]!r} {row.headers!s:.90}"
            messages.append("\n  ".join([request_line, *(line[:600] for line in wrong)]))
        if reason is not None and not wrong:
            messages.append(f"{row.n} {row.method} {row.target[:70]!r} does not differ: {reason}")
    return messages


@pytest.mark.parametrize("release", sampled(RELEASES, *COMPARED))
async def test_answers_are_those_of_the_release(release: str) -> None:
    """Each request of the corpus is answered as a worker of the release answered it."""
    wrong = await _unexplained(release, {}, read("usual", cases(), release))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("release", sampled(RELEASES, *COMPARED))
async def test_browsers_are_answered_as_by_the_release(release: str) -> None:
    """Each CORS request and each preflight gets the release's headers."""
    rows = read("cross-origin", cross_origin_cases(), release)
    wrong = await _unexplained(release, CROSS_ORIGIN, rows)
    assert not wrong, "\n".join(wrong)
