"""`as_of=` and `profile=`: every GET endpoint accepts both, and refuses invalid values."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import httpx
import pytest

from controlplane.core.releases.profiles import Profile
from controlplane.rest.endpoints.router import ENDPOINTS
from controlplane.rest.errors import NOTICE
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


async def test_every_endpoint_accepts_as_of() -> None:
    """`as_of` works for every endpoint; one without a past says so in a notice."""
    async with at_rest() as scene:
        assert len((await _get(scene.client, "connectors")).json()) == 3
        assert (await _get(scene.client, "connectors", as_of="config@1")).json() == ["orders"]
        for path in PATHS:
            answer = await _get(scene.client, path, as_of="config@9")
            assert answer.status_code == (404 if path.endswith("/status") else 200), path
            timeless = path.startswith(NO_RECORDS)
            assert (NO_PAST in answer.headers.get("x-controlplane-notice", "")) is timeless, path


@pytest.mark.parametrize("plus", ["+", "%2B"])
@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/connectors?as_of="),
        ("GET", "/diff?from="),
        ("GET", "/commands?since="),
        ("HEAD", "/watch?since="),
        ("POST", "/connectors/orders/undo?dry_run=true&to="),
    ],
)
async def test_every_time_may_have_a_zone_with_a_plain_plus(
    method: str, target: str, plus: str
) -> None:
    """In a query, `+` means a space; the zone of a time is read as meant."""
    async with at_rest() as scene:
        now = datetime.now(timezone(timedelta(hours=1))).isoformat().replace("+", plus)
        answer = await scene.client.request(method, f"{target}{now}")
        assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("base", ["", "/compat/4.3.0"])
async def test_validation_accepts_as_of_as_other_endpoints_of_plugins(base: str) -> None:
    """Validation ignores `as_of=` and says so in a notice; a moment that the log lacks gets 400."""
    path = f"{base}/connector-plugins/FileStreamSource/config/validate"
    config = {"connector.class": "FileStreamSource", "name": "orders", "topic": "orders"}
    async with at_rest() as scene:
        present = await scene.client.put(path, json=config)
        assert (present.status_code, NOTICE in present.headers) == (200, False)
        answer = await scene.client.put(path, json=config, params={"as_of": "config@1"})
        assert (answer.status_code, answer.headers[NOTICE]) == (200, NO_PAST)
        assert answer.content == present.content
        for moment in ("config@99", "yesterday"):
            refused = await scene.client.put(path, json=config, params={"as_of": moment})
            assert (refused.status_code, moment in refused.text) == (400, True)


@pytest.mark.parametrize("question", [{"as_of": "yesterday"}, {"profile": "9x"}])
async def test_every_endpoint_refuses_invalid_values(question: dict[str, str]) -> None:
    """An invalid value gets 400, and the message repeats it."""
    (nonsense,) = question.values()
    async with at_rest() as scene:
        for path in PATHS:
            answer = await _get(scene.client, path, **question)
            assert (answer.status_code, nonsense in answer.text) == (400, True), path


async def test_endpoints_are_missing_in_releases_that_lack_them() -> None:
    """An endpoint that a release lacks is missing under that `profile`."""
    async with at_rest() as scene:
        for release in ("2.3", "3.4", "3.9", "4.3"):
            paths = {*_paths(release)}
            for path in PATHS:
                answer = await scene.client.get(f"/{path}", params={"profile": release})
                missing = answer.json() == {"error_code": 404, "message": "HTTP 404 Not Found"}
                assert missing is (path not in paths), (release, path)
