"""`as_of=` and `profile=`: every GET endpoint accepts both, and refuses invalid values."""

from collections.abc import Iterator

import httpx
import pytest

from controlplane.core.releases.profiles import Profile
from controlplane.rest.endpoints.router import ENDPOINTS
from controlplane.rest.worker_endpoints import NO_PAST
from tests.rest.settled_cluster import at_rest

NAMES = {
    "connectors": "orders",
    "tasks": "0",
    "connector-plugins": "FileStreamSource",
    "loggers": "root",
}
NO_RECORDS = ("admin/", "connector-plugins", "health", "openapi.json")
ENDLESS = "watch"
"""Endpoint with an endless answer, which has its own tests."""


def _paths(release: str) -> Iterator[str]:
    """Paths that a release answers to GET."""
    for row in ENDPOINTS:
        if row.method == "GET" and row.is_offered(Profile.of(release)):
            filled = [
                NAMES[before] if part == "{}" else part
                for before, part in zip(("", *row.template), row.template, strict=False)
            ]
            yield "/".join(filled)


PATHS = sorted({*_paths("kip"), *_paths("3.9")} - {ENDLESS})


async def _get(client: httpx.AsyncClient, path: str, **query: str) -> httpx.Response:
    release = {} if path in _paths("kip") else {"profile": "3.9"}
    needed = {"from": "config@0"} if path == "diff" else {}
    return await client.get(f"/{path}", params={**needed, **release, **query})


async def test_every_endpoint_has_its_moments() -> None:
    """`as_of` works for every endpoint; one without a past says so in a notice."""
    async with at_rest() as scene:
        assert len((await _get(scene.client, "connectors")).json()) == 3
        assert (await _get(scene.client, "connectors", as_of="config@1")).json() == ["orders"]
        for path in PATHS:
            answer = await _get(scene.client, path, as_of="config@9")
            assert answer.status_code == (404 if path.endswith("/status") else 200), path
            timeless = path.startswith(NO_RECORDS)
            assert (NO_PAST in answer.headers.get("x-controlplane-notice", "")) is timeless, path


@pytest.mark.parametrize("question", [{"as_of": "yesterday"}, {"profile": "9x"}])
async def test_every_endpoint_refuses_nonsense(question: dict[str, str]) -> None:
    """An invalid value gets 400, and the message repeats it."""
    (nonsense,) = question.values()
    async with at_rest() as scene:
        for path in PATHS:
            answer = await _get(scene.client, path, **question)
            assert (answer.status_code, nonsense in answer.text) == (400, True), path


async def test_every_endpoint_is_that_of_a_release() -> None:
    """An endpoint that a release lacks is missing under that `profile`."""
    async with at_rest() as scene:
        for release in ("2.3", "3.4", "3.9", "4.3"):
            paths = {*_paths(release)}
            for path in PATHS:
                answer = await scene.client.get(f"/{path}", params={"profile": release})
                missing = answer.json() == {"error_code": 404, "message": "HTTP 404 Not Found"}
                assert missing is (path not in paths), (release, path)
