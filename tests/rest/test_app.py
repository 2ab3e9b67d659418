"""The application: paths, methods, media types, errors, and `as_of` and `profile`."""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from controlplane.core.context import DecisionSettings
from controlplane.logs.log import LogUnavailable
from controlplane.logs.memory import MemoryLog
from controlplane.projection.follower import Follower
from controlplane.projection.limits import FollowerLimits
from controlplane.rest.app import NOTICE, App
from controlplane.rest.errors import Answer
from controlplane.rest.worker_endpoints import NO_PAST
from tests.outages import FarAway, until
from tests.rest.served_history import client_of, following, served, service_of, vector

NO_PATH = {"error_code": 404, "message": "HTTP 404 Not Found"}
NO_METHOD = {"error_code": 405, "message": "HTTP 405 Method Not Allowed"}
ENCODED_NAME = "gr%C3%B6%C3%9Fe%2F%C3%BCml%C3%A4ut%20%F0%9F%98%80%20%25%3B%2B"
"""A connector of the history: `größe/ümläut 😀 %;+`."""


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """A client of a 3.9 cluster's history, answered as 3.9."""
    async with served("life-3.9", "3.9.1") as client:
        yield client


async def test_the_root_shows_the_release(client: httpx.AsyncClient) -> None:
    """`GET /` shows the release of the dialect, in Connect's form."""
    response = await client.get("/")
    assert response.json() == {
        "version": "3.9.1",
        "commit": "unknown",
        "kafka_cluster_id": "cluster-1",
    }
    assert response.headers["server"] == "controlplane"


@pytest.mark.parametrize(
    "path",
    [
        f"/connectors/{ENCODED_NAME}",
        f"/connectors/{ENCODED_NAME}/",
        f"/connectors;a=b/{ENCODED_NAME};c=d/?x=y",
    ],
)
async def test_raw_paths_lead_to_the_connector(client: httpx.AsyncClient, path: str) -> None:
    """A name with a slash, matrix parameters and a trailing slash lead to the connector."""
    response = await client.get(path)
    assert response.status_code == 200
    assert response.json()["name"] == "größe/ümläut 😀 %;+"
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "path",
    ["/nix", "/Connectors", "/%63onnectors", "//connectors"],
)
async def test_an_unknown_path_gets_no_content_type(client: httpx.AsyncClient, path: str) -> None:
    """An unknown path gets a JSON body without a content type, as in Connect."""
    response = await client.request("GET", httpx.URL("http://connect" + path))
    assert (response.status_code, response.json()) == (404, NO_PATH)
    assert "content-type" not in response.headers


@pytest.mark.parametrize("task", ["x", "1.0", "99999999999"])
async def test_an_invalid_task_number_gets_a_content_type(
    client: httpx.AsyncClient, task: str
) -> None:
    """The route matches before the number is read, so the answer has a content type (3.9.1)."""
    response = await client.get(f"/connectors/pages/tasks/{task}/status")
    assert (response.status_code, response.json()) == (404, NO_PATH)
    assert response.headers["content-type"] == "application/json"


async def test_an_unknown_connector_gets_a_content_type(client: httpx.AsyncClient) -> None:
    """An error of an endpoint has the content type JSON."""
    response = await client.get("/connectors/nix")
    assert response.json() == {"error_code": 404, "message": "Connector nix not found"}
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "get"])
async def test_an_unsupported_method_gets_405(client: httpx.AsyncClient, method: str) -> None:
    """An unsupported method is answered with 405 without an `Allow` header."""
    app = client._transport
    assert isinstance(app, httpx.ASGITransport)
    status, headers, body = await _ask_raw(app.app, method, b"/connectors")
    assert (status, body) == (405, b'{"error_code":405,"message":"HTTP 405 Method Not Allowed"}')
    assert not headers.keys() & {b"allow", b"content-type"}


async def _ask_raw(app: Any, method: str, path: bytes) -> tuple[int, Mapping[bytes, bytes], bytes]:
    """Pass one request to the application as a server does; httpx would change method and path."""
    sent: list[dict[str, Any]] = []

    async def send(event: dict[str, Any]) -> None:
        sent.append(event)

    async def receive() -> dict[str, Any]:
        raise AssertionError("a read request has no body to wait for")

    scope = {
        "type": "http",
        "method": method,
        "raw_path": path,
        "path": "",
        "query_string": b"",
        "headers": [],
    }
    await app(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


async def test_an_unknown_path_gets_404_for_a_post(client: httpx.AsyncClient) -> None:
    """A POST to an unknown path gets 404, not 405."""
    response = await client.post("/nix")
    assert response.json() == NO_PATH


@pytest.mark.parametrize("path", ["/connectors/pages/stop", "/connectors/nix/stop?dry_run=true"])
async def test_a_read_only_service_refuses_a_change(client: httpx.AsyncClient, path: str) -> None:
    """A read-only service refuses a change with the reason; a release's dialect has no reason."""
    response = await client.put(path)
    assert response.status_code == 405
    assert response.json()["message"].startswith("This service only reads its log")
    assert (await client.put(f"/compat/3.9{path}")).json() == NO_METHOD


async def test_get_of_a_path_for_commands_gets_405_or_404(client: httpx.AsyncClient) -> None:
    """GET of a path for commands only gets 405, or 404 where the release has no such command."""
    path = "/connectors/pages/stop"
    assert (await client.get(path)).json() == NO_METHOD
    assert (await client.get(path, params={"profile": "3.4"})).json() == NO_PATH


async def test_head_has_the_length_and_type_of_get(client: httpx.AsyncClient) -> None:
    """HEAD has the length and the type of the response to GET."""
    head, get = await client.head("/connectors/pages"), await client.get("/connectors/pages")
    assert head.content == b""
    assert head.headers["content-length"] == str(len(get.content))
    assert head.headers["content-type"] == get.headers["content-type"]


async def test_options_lists_the_methods(client: httpx.AsyncClient) -> None:
    """OPTIONS lists the methods of an existing endpoint."""
    response = await client.options("/connectors/pages")
    assert (response.text, response.headers["allow"]) == ("HEAD, GET, OPTIONS", "HEAD,GET,OPTIONS")
    assert (await client.options("/nix")).status_code == 404


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json", 200),
        ("application/json;q=0", 200),
        ("text/html, */*;q=0.1", 200),
        ("application/*", 200),
        ("*/json", 200),
        ("", 200),
        ("text/html", 406),
        ("application/vnd.kip+json", 406),
        ("garbage", 406),
    ],
)
async def test_clients_that_do_not_accept_json_get_406(
    client: httpx.AsyncClient, accept: str, status: int
) -> None:
    """A client that does not accept JSON gets a 406, in JSON without a content type."""
    response = await client.get("/connectors", headers={"accept": accept})
    assert response.status_code == status
    assert ("content-type" in response.headers) == (status == 200)


@pytest.mark.parametrize(
    ("path", "sent", "body", "status"),
    [
        ("/connectors", "application/json", b"", 200),
        ("/connectors", "APPLICATION/JSON; charset=utf-16", b"{}", 200),
        ("/connectors", "application/x-www-form-urlencoded", b"a=b", 415),
        ("/connectors", "text/plain", b"", 415),
        ("/connectors", "*/*", b"", 200),
        ("/connectors", "*/*", b"{}", 415),
        ("/", "text/plain", b"", 200),
    ],
)
async def test_requests_that_are_not_json_are_refused(
    client: httpx.AsyncClient, path: str, sent: str, body: bytes, status: int
) -> None:
    """A request that is not JSON is refused even if its body is unused, except at the root."""
    headers = {"content-type": sent}
    response = await client.request("GET", path, headers=headers, content=body)
    assert response.status_code == status


async def test_the_content_type_is_checked_before_accept(client: httpx.AsyncClient) -> None:
    """The content type of the request is checked before Accept."""
    headers = {"content-type": "text/plain", "accept": "text/html"}
    response = await client.get("/connectors", headers=headers)
    assert response.status_code == 415


async def test_jetty_12_refuses_paths() -> None:
    """Releases 4.x answer an encoded slash with their server's own page."""
    async with served("life-4.3", "4.3.0") as client:
        response = await client.get("/connectors/a%2Fb")
        bare = await client.put("/connectors/a%2Fb/pause")
    assert (bare.status_code, bare.content) == (400, b"")
    assert "content-type" not in bare.headers
    assert response.status_code == 400
    assert "Ambiguous URI path separator" in response.text
    assert response.headers["content-type"] == "text/html;charset=iso-8859-1"
    assert response.headers["cache-control"] == "must-revalidate,no-cache,no-store"


async def test_profile_changes_the_endpoints(client: httpx.AsyncClient) -> None:
    """An endpoint that a release lacks is unknown under its profile."""
    assert (await client.get("/connectors/pages/offsets")).status_code == 200
    older = await client.get("/connectors/pages/offsets?profile=3.4")
    assert (older.status_code, older.json()) == (404, NO_PATH)


@pytest.mark.parametrize(
    ("release", "read_as"), [("7.0", "4.3.0"), ("3.9.99", "3.9.2"), ("3.9", None), ("kip", None)]
)
async def test_a_release_too_new_is_noticed(
    client: httpx.AsyncClient, release: str, read_as: str | None
) -> None:
    """An unknown newer release is read as the newest known one; a header says so."""
    response = await client.get(f"/?profile={release}")
    notice = read_as and f"release {release} is not known; read as {read_as}"
    assert (response.status_code, response.headers.get("x-controlplane-notice")) == (200, notice)
    if read_as is not None:
        assert response.json()["version"] == read_as
    assert "x-controlplane-notice" not in (await client.get("/")).headers


async def test_a_notice_comes_with_errors(client: httpx.AsyncClient) -> None:
    """A 404 has the notice, too: the unknown release may be its cause."""
    for path in ("/connectors/nix?profile=7.0", "/nix?profile=%0d%0a7.0%0d%0a"):
        response = await client.get(path)
        assert response.status_code == 404
        assert response.headers["x-controlplane-notice"] == (
            "release 7.0 is not known; read as 4.3.0"
        )


async def test_a_release_without_exactly_once_support_is_refused() -> None:
    """A service that reads with exactly-once support refuses a release that lacks the support."""
    async with served("aborted-3.9", exactly_once=True) as client:
        for query in ("profile=3.2", "profile=3.2.3&as_of=config@0"):
            response = await client.get(f"/connectors?{query}")
            assert response.status_code == 400
            assert response.json() == {
                "error_code": 400,
                "message": "3.2.3 has no exactly-once support, which came with KIP-618: "
                "name a release from 3.3.0 on, or read without that support",
            }
        for query in ("", "profile=3.3.0", "profile=kip&as_of=config@0"):
            assert (await client.get(f"/connectors?{query}")).status_code == 200
    async with served("aborted-3.9") as client:
        assert (await client.get("/connectors?profile=3.2")).status_code == 200


READ_TO = "it is read to its end, not to 99"
VECTORS: list[tuple[dict[str, list[int]], list[str]]] = [
    ({"connect-configs": [57], "connect-offsets": [0] * 5, "connect-status": [1, 2, 3]}, []),
    (
        {"connect-configs": [57], "connect-status": [1]},
        [
            "the vector does not name connect-offsets: that topic is not read",
            "the vector names 1 of 3 partitions of connect-status: the others are not read",
        ],
    ),
    (
        {"connect-configs": [570], "connect-offsets": [99] * 5, "connect-status": [990] * 3},
        [
            "connect-configs ends at 100: it is read to its end, not to 570",
            f"connect-offsets partition 0 ends at 25: {READ_TO}",
            f"connect-offsets partition 1 ends at 11: {READ_TO}",
            f"connect-offsets partition 2 ends at 6: {READ_TO}",
            f"connect-offsets partition 3 ends at 8: {READ_TO}",
            "and 4 more notices",
        ],
    ),
]


@pytest.mark.parametrize(("ends", "notices"), VECTORS)
async def test_gaps_of_a_vector_are_noticed(
    client: httpx.AsyncClient, ends: dict[str, list[int]], notices: list[str]
) -> None:
    """A header lists topics that a vector omits and offsets beyond the log, up to five notices."""
    for path in ("/connectors", "/connectors/nix"):
        response = await client.get(f"{path}?as_of={vector(ends)}")
        notice = response.headers.get("x-controlplane-notice", "")
        assert notice == "; ".join(notices)
    newer = await client.get(f"/connectors?profile=9.0&as_of={vector(ends)}")
    unknown = "release 9.0 is not known; read as 4.3.0"
    is_full = len(notices) > 5
    shown = [*notices[:4], unknown, "and 5 more notices"] if is_full else [*notices, unknown]
    assert newer.headers["x-controlplane-notice"] == "; ".join(shown)


async def test_a_notice_is_shown_once(client: httpx.AsyncClient) -> None:
    """Endpoints without a past add no second copy of a notice about the moment."""
    moment = vector({"connect-configs": [570], "connect-offsets": [0] * 5, "connect-status": [0]})
    for path in ("/connector-plugins", "/connector-plugins/FileStreamSource/config"):
        response = await client.get(f"{path}?as_of={moment}")
        notices = response.headers["x-controlplane-notice"]
        assert notices.count("connect-configs ends at 100") == 1
        assert NO_PAST in notices


async def test_as_of_ends_the_log_at_a_record(client: httpx.AsyncClient) -> None:
    """`as_of=config@N` answers as if that record were the last one."""
    before = await client.get("/connectors?as_of=config@0")
    after = await client.get("/connectors")
    assert len(before.json()) < len(after.json())


@pytest.mark.parametrize("zone", ["Z", "%2B00:00", "+00:00"])
async def test_as_of_accepts_a_time_with_its_zone(client: httpx.AsyncClient, zone: str) -> None:
    """`as_of=` accepts a time with its zone; a time before the first record gets 400."""
    now = datetime.now(UTC).replace(tzinfo=None).isoformat()
    response = await client.get(f"/connectors?as_of={now}{zone}")
    assert (response.status_code, response.json()) == (
        200,
        (await client.get("/connectors")).json(),
    )
    late = await client.get(f"/connectors?as_of=2999-01-01T00:00:00{zone}")
    assert (late.status_code, "is in the future" in late.text) == (400, True)
    early = await client.get(f"/connectors?as_of=2001-01-01T00:00:00{zone}")
    assert (early.status_code, "is before the first record" in early.text) == (400, True)


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("as_of=nope", "'nope' is no point in time"),
        ("as_of=", "is no point in time"),
        ("as_of=config@99999", "the log has no record at config@99999"),
        ("as_of=%7B%22nix%22:[1]%7D", "the log has no topic"),
        ("as_of=%7B%22connect-configs%22:1%7D", "not a vector of end offsets"),
        ("as_of=%7B%22x%22:[1],%22x%22:[2]%7D", "the vector names the topic 'x' twice"),
        ("as_of=" + "9" * 5000, "a moment has at most 4096 characters"),
        ("profile=9.x", "unknown release '9.x'"),
        ("profile=", "unknown release ''"),
    ],
)
async def test_invalid_queries_are_refused(
    client: httpx.AsyncClient, query: str, says: str
) -> None:
    """An invalid query is refused with one sentence, in Connect's form."""
    response = await client.get(f"/connectors?{query}")
    assert response.status_code == 400, response.text
    assert says in response.json()["message"]
    assert response.json()["error_code"] == 400


async def test_two_releases_at_once_are_refused(client: httpx.AsyncClient) -> None:
    """Two different releases in one request are refused; the same release twice is accepted."""
    response = await client.get("/?profile=3.4.0&profile=2.8.2")
    assert response.status_code == 400
    response = await client.get("/?profile=3.4.0&profile=3.4.0")
    assert response.json()["version"] == "3.4.0"


async def test_the_application_works_beneath_a_mount() -> None:
    """The application works beneath a path of another one, and gets raw names."""
    async with following("life-3.9") as follower:
        app = App(service_of(follower, "3.9"))
        outer = Starlette(routes=[Mount("/compat/3.9", app)])
        transport = httpx.ASGITransport(outer)
        async with httpx.AsyncClient(transport=transport, base_url="http://connect") as client:
            response = await client.get(f"/compat/3.9/connectors/{ENCODED_NAME}/config")
            root = await client.get("/compat/3.9/")
    assert response.json()["name"] == "größe/ümläut 😀 %;+"
    assert root.status_code == 200


async def test_disabled_topic_tracking_hides_active_topics() -> None:
    """Disabled topic tracking hides active topics (KIP-558)."""
    async with following("life-3.9") as follower:
        worker = DecisionSettings(topic_tracking_enable=False)
        app = App(service_of(follower, "3.9", worker=worker))
        async with client_of(app) as client:
            response = await client.get("/connectors/pages/topics")
    assert (response.status_code, response.json()["message"]) == (
        403,
        "Topic tracking is disabled.",
    )


async def test_websockets_are_refused() -> None:
    """The application raises NotImplementedError for a websocket."""
    async with following("life-3.9") as follower:
        app = App(service_of(follower, "3.9"))
        with pytest.raises(NotImplementedError, match="websocket is not supported"):
            await app({"type": "websocket"}, None, None)  # type: ignore[arg-type]


async def test_answers_that_may_be_old_say_so() -> None:
    """While the follower has failed, a header of every answer gives the reason."""
    log = MemoryLog()
    await log.create_topic("connect-configs", 1)
    far = FarAway(log)
    async with Follower(far, limits=FollowerLimits(interruption_poll_ms=5)) as follower:
        app = App(service_of(follower, "3.9"))
        async with client_of(app) as client:
            assert NOTICE not in (await client.get("/connectors")).headers
            far.interruption = LogUnavailable("the leader at gr\u00f6\u00dfe\u20ac\0 is gone\r\n")
            await until(lambda: follower.failure is not None)
            for path, status in (("/connectors", 200), ("/connectors/nix", 404), ("/nix", 404)):
                old = await client.get(path)
                assert old.status_code == status
                assert old.headers[NOTICE] == (
                    "the log is not followed at present, this answer may be old: "
                    r"the leader at gr\xf6\xdfe\u20ac\x00 is gone"
                )
            both = await client.get("/?profile=7.0")
            assert both.headers[NOTICE].startswith("release 7.0 is not known; read as 4.3.0; the l")
            far.interruption = None
            await until(lambda: follower.failure is None)
            assert NOTICE not in (await client.get("/connectors")).headers
    await log.close()


async def test_the_known_state_is_answered_while_the_log_fails() -> None:
    """The known state is still answered; requests that need the log get 503 with the reason."""
    async with following("life-3.9") as follower:
        app = App(service_of(follower, "3.9"))
        async with client_of(app) as client:
            before = await client.get("/connectors")
            await follower._log.close()
            assert (await client.get("/connectors")).json() == before.json()
            refused = await client.get("/connectors?as_of=config@3")
    assert refused.status_code == 503
    assert refused.json()["error_code"] == 503
    assert refused.headers["retry-after"] == "1"


async def test_an_answer_that_cannot_be_encoded_is_a_defect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A failure to encode an answer gets JSON with the status of a defect, as in Connect."""
    async with following("life-3.9") as follower:
        broken = Answer(200, {"a": object()})

        async def answer(*_: object) -> Answer:
            return broken

        app = App(service_of(follower, "3.9"))
        monkeypatch.setattr(app, "answer", answer)
        async with client_of(app) as client:
            response = await client.get("/connectors")
    assert (response.status_code, response.json()["error_code"]) == (500, 500)
