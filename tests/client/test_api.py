"""Meaning of a server's answers: refusals, failures, and endpoints that a worker of Kafka lacks."""

from typing import Any

import httpx
import pytest

from controlplane.client.http.api import Api, connector, segment
from controlplane.client.http.request_errors import Declined, Unavailable, Unsupported
from controlplane.terminal.command_errors import InputRefused
from tests.client.client_calls import ClusterCalls, FakeWorker, error

REBALANCE = "Cannot complete request momentarily due to stale configuration"


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (error(404, "Connector x not found"), Declined, "Connector x not found"),
        (error(409, "Connector x already exists"), Declined, "already exists"),
        (
            error(404, "HTTP 404 Not Found"),
            Unsupported,
            "is Kafka Connect 3.9.1, which has no PUT /x",
        ),
        (error(405, "HTTP 405 Method Not Allowed"), Unsupported, "which has no PUT /x"),
        (error(500, "Request timed out"), Unavailable, "failed: Request timed out"),
        (error(500, None), Unavailable, "failed: HTTP 500 Internal Server Error"),
        (
            error(401, "no"),
            Declined,
            "http://worker refuses access (no): give --user NAME:PASSWORD or --token TOKEN",
        ),
        (
            httpx.Response(
                401,
                content=b"User cannot access the resource.",
                headers={"content-type": "application/json", "www-authenticate": "Basic"},
            ),
            Declined,
            "(User cannot access the resource.): give --user NAME:PASSWORD",
        ),
        (httpx.Response(401), Declined, "(HTTP 401 Unauthorized): give --user"),
        (error(403, "You may only view"), Declined, "You may only view"),
        (
            httpx.Response(400, html="<html>Bad"),
            Declined,
            "refuses PUT /x before Connect sees it (HTTP 400 Bad Request)",
        ),
        (
            httpx.Response(400, html="<tr><th>MESSAGE:</th><td>A&amp;B</td></tr>"),
            Declined,
            "is Kafka Connect 3.9.1, whose HTTP server refuses PUT /x before Connect sees it (A&B)",
        ),
        (httpx.Response(400, html="<pre>reason: Bad URI</pre>"), Declined, "sees it (Bad URI)"),
    ],
)
async def test_the_status_selects_the_exception(
    answer: httpx.Response, kind: type[Exception], says: str
) -> None:
    """The status selects the exception; the text is the server's."""
    api = await FakeWorker(answer).api()
    with pytest.raises(kind) as refused:
        await api.send("PUT", "/x")
    assert says in str(refused.value.message)  # type: ignore[attr-defined]  # click's exceptions


async def test_a_refusal_hides_secrets_and_keeps_its_lines() -> None:
    """The refusal of a config, which Connect repeats, hides secrets and keeps its lines."""
    message = "2 errors:\nConnector config {password=hunter2, name=x} contains no type\x1b[31m"
    api = await FakeWorker(error(400, message)).api()
    with pytest.raises(Declined) as refused:
        await api.send("POST", "/connectors", {})
    assert refused.value.message == (
        "2 errors:\nConnector config {password=[hidden], name=x} contains no type\\u001b[31m"
    )


async def test_a_missing_connector_is_no_failure() -> None:
    """`find` distinguishes a missing connector from a missing endpoint."""
    assert await (await FakeWorker(error(404, "Connector x not found")).api()).find("/x") is None
    with pytest.raises(Unsupported):
        await (await FakeWorker(error(404, "HTTP 404 Not Found")).api()).find("/x")


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(404, html="<tr><th>MESSAGE:</th><td>Not Found</td></tr>"),
        httpx.Response(404, text="404 page not found"),
    ],
)
async def test_a_404_of_another_server_says_nothing_about_a_connector(
    answer: httpx.Response,
) -> None:
    """Jetty answers 404 before Connect has started, and so does a proxy without its worker."""
    with pytest.raises(Unavailable, match="gave no answer of Kafka Connect to GET /x") as failed:
        await (await FakeWorker(answer).api()).find("/x")
    assert "may have been made" not in failed.value.message


@pytest.mark.parametrize(
    "refused",
    [
        error(409, REBALANCE),
        error(500, "Request cannot be completed because a rebalance is expected"),
    ],
)
async def test_the_client_waits_for_a_rebalance(refused: httpx.Response) -> None:
    """The client repeats the request with the same key, because a rebalance ends by itself."""
    worker = FakeWorker(refused, httpx.Response(204))
    await (await worker.api()).send("PUT", "/connectors/x/stop")
    assert [request.method for request in worker.requests] == ["PUT", "PUT"]
    keys = {request.headers["idempotency-key"] for request in worker.requests}
    assert len(keys) == 1


async def test_the_wait_for_a_rebalance_ends() -> None:
    """After the patience the command prints the refusal."""
    with pytest.raises(Declined, match="stale configuration"):
        await (await FakeWorker(error(409, REBALANCE)).api(patience_s=0)).send("PUT", "/x")


@pytest.mark.parametrize(
    ("view", "option"), [({"as_of": "config@1"}, "--as-of"), ({"profile": "3.4"}, "--release")]
)
async def test_queries_of_the_past_are_not_sent_to_kafka(view: dict[str, str], option: str) -> None:
    """A worker of Kafka would ignore `as_of=` and `profile=`, and answer another question."""
    worker = FakeWorker(httpx.Response(200, json=[]))
    with pytest.raises(Unsupported, match=f"which has no {option}: read its log"):
        await worker.api(view=view)
    assert not worker.requests


async def test_a_dry_run_is_not_sent_to_a_worker_of_kafka() -> None:
    """A worker of Kafka would ignore the parameter and delete, so the client sends nothing."""
    worker = FakeWorker(httpx.Response(204))
    with pytest.raises(Unsupported, match="which has no dry run"):
        await (await worker.api()).send("DELETE", "/connectors/x", dry_run=True)
    assert not worker.requests


@pytest.mark.parametrize("server", ["controlplane", "uvicorn, controlplane"])
async def test_our_service_gets_dry_runs(server: str) -> None:
    """The Server header identifies our service, also behind another server's name."""
    worker = FakeWorker(httpx.Response(200, json={"steps": []}), server=server)
    await (await worker.api()).send("DELETE", "/connectors/x", dry_run=True)
    assert worker.requests[0].url.query == b"dry_run=true"


async def test_a_notice_is_passed_on_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Several requests of one command print one notice."""
    noticed = httpx.Response(200, json=[], headers={"x-controlplane-notice": "read as 4.3.0"})
    api = await FakeWorker(noticed, server="controlplane").api()
    for _ in range(2):
        await api.get("/connectors")
    assert capsys.readouterr().err == "Warning: read as 4.3.0\n"


async def test_unsupported_method_without_compat_names_the_profile() -> None:
    """The error advises to remove /compat/ only if the URL has it."""
    worker = FakeWorker(error(404, "HTTP 404 Not Found"), server="controlplane")
    with pytest.raises(Unsupported, match=r"is controlplane as 3\.9\.1, which has no PUT /x$"):
        await (await worker.api()).send("PUT", "/x")


async def test_an_ignored_dry_run_is_reported() -> None:
    """A proxy may drop the parameter; the answer then has no plan."""
    worker = FakeWorker(httpx.Response(204), server="controlplane")
    with pytest.raises(Unavailable, match=r"gave no plan\. .* change was made"):
        await (await worker.api()).send("DELETE", "/connectors/x", dry_run=True)


@pytest.mark.parametrize("answer", [{"json": ["x"]}, {"html": "<p>"}, {"text": "hello"}])
async def test_other_servers_than_connect_are_refused(answer: dict[str, Any]) -> None:
    """A wrong port or a wrong path gives one sentence."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200, **answer))
    api = Api(httpx.AsyncClient(transport=transport, base_url="http://x"), "http://x")
    says = r"http://x answers, but is no Kafka Connect \(HTTP 200 OK\): give the URL"
    with pytest.raises(Declined, match=says):
        await api.identify()


@pytest.mark.parametrize("status", [200, 202])
@pytest.mark.parametrize(("method", "doubts"), [("GET", False), ("PUT", True), ("DELETE", True)])
async def test_a_page_of_a_proxy_is_no_success(status: int, method: str, *, doubts: bool) -> None:
    """A success with an HTML page is not Connect's; a change is in doubt."""
    api = await FakeWorker(httpx.Response(status, html="<html>Log in")).api()
    with pytest.raises(Unavailable, match=f"no answer of Kafka Connect to {method} /x") as refused:
        await (api.get("/x") if method == "GET" else api.send(method, "/x"))
    assert f"(HTTP {status}, text/html; charset=utf-8)" in refused.value.message
    assert ("may have been made; check" in refused.value.message) is doubts


@pytest.mark.parametrize("status", [200, 202, 204])
async def test_an_empty_body_is_a_success_of_a_change_only(status: int) -> None:
    """Connect answers some changes without a body, and every read with JSON."""
    api = await FakeWorker(httpx.Response(status)).api()
    assert await api.send("PUT", "/connectors/x/stop") == (False, None)
    with pytest.raises(Unavailable, match=rf"\(HTTP {status}, no content type\), perhaps a page"):
        await api.get("/connectors")


@pytest.mark.parametrize(
    ("method", "says"),
    [("GET", "gave no answer to GET /x"), ("DELETE", "the change may have been made; check")],
)
async def test_a_silent_worker_leaves_the_change_in_doubt(method: str, says: str) -> None:
    """The error says that the result of the sent change is unknown."""

    def silent(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("too slow", request=request)

    api = Api(httpx.AsyncClient(transport=httpx.MockTransport(silent), base_url="http://w"), "w")
    with pytest.raises(Unavailable, match=says):
        await (api.get("/x") if method == "GET" else api.send(method, "/x"))


@pytest.mark.parametrize(
    "words", [("describe", "x" * 70_000), ("stop", "x" * 70_000), ("watch", "x" * 70_000)]
)
def test_a_name_too_long_for_a_url_is_refused(cluster: ClusterCalls, words: tuple[str]) -> None:
    """A name of more than 64 KiB fits into no URL; nothing is sent."""
    cluster.create()
    says = cluster.refused(*words, code=2)
    assert says.startswith("the request does not fit into a URL (")
    assert says.endswith("too long): give a shorter name")


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a/b", "/connectors/a%2Fb/stop"),
        ("..", "/connectors/%2E%2E/stop"),
        ("größe %;?#", "/connectors/gr%C3%B6%C3%9Fe%20%25%3B%3F%23/stop"),
    ],
)
async def test_names_reach_the_server_whole(name: str, path: str) -> None:
    """A name is one segment of the path, with any characters."""
    worker = FakeWorker(httpx.Response(204))
    await (await worker.api()).send("PUT", connector(name, "stop"))
    assert worker.requests[0].url.raw_path.decode() == path


def test_a_plugin_or_logger_that_no_url_can_hold_is_refused() -> None:
    """A segment of a path is quoted whole; half of a surrogate pair is refused."""
    assert segment("a/b.c") == "a%2Fb.c"
    with pytest.raises(InputRefused, match="half of a surrogate pair"):
        segment("\ud800")
