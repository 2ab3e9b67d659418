"""`controlplane verify LOG --against URL`: live workers beside a log."""

import asyncio
import socket
from pathlib import Path

import httpx
import pytest

from controlplane.cli.verify.worker_check.checked_worker import (
    REFUSED_PATH,
    CheckedWorker,
    check_cluster,
)
from controlplane.client.http.connection import ANSWER_S
from controlplane.client.http.request_errors import Declined
from controlplane.core.releases.profiles import KIP, Profile
from controlplane.rest.http.server import listen, serving, url_of
from tests.cli.command_calls import CommandResult, call
from tests.cli.running_service import running
from tests.cli.worker_check.stand_in import PreparedAnswer, StandIn, standing_in
from tests.client.client_calls import ClusterCalls

REBALANCE = "Request cannot be completed because a rebalance is expected"
SECONDS = ("--settle", "0.5", "--timeout", "60")


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterCalls:
    """Embedded log with the connectors `orders` and `a/b`."""
    calls = ClusterCalls(f"sqlite:///{tmp_path}/state.db", tmp_path)
    for name in ("orders", "a/b"):
        config = {"connector.class": "FileStreamSource", "topic": "t", "file": "f"}
        calls.output("apply", "-f", calls.file("one.json", {"name": name, "config": config}))
    return calls


async def verify(log: str, *words: object) -> CommandResult:
    """Run `verify` in a thread, since the worker answers on this loop."""
    return await asyncio.to_thread(call, "verify", log, *words, columns=250)


def empty(folder: Path) -> Path:
    """Write a log that has one commit record and no connectors."""
    log = folder / "log.jsonl"
    record = '"topic":"connect-configs","partition":0,"offset":0,"timestamp":5'
    log.write_text(f'{{{record},"key":"commit-x","value":"{{\\"tasks\\":0}}"}}\n')
    return log


def answers(names: object = (), **by_path: list[PreparedAnswer]) -> dict[str, list[PreparedAnswer]]:
    """Answers of a worker with connectors of these names."""
    return {
        "/connectors": [PreparedAnswer(200, names)],
        **{f"/{path}": prepared for path, prepared in by_path.items()},
    }


async def test_a_service_agrees_with_its_log(cluster: ClusterCalls) -> None:
    """Root and releases agree; a name that 4.x cannot address is left out.

    `--release` overrides the release that the worker names.
    """
    async with running(cluster.where, "--quiet") as service:
        for path, release in (("", "kip"), ("/compat/3.9", "3.9.2"), ("/compat/4.3", "4.3.0")):
            url = f"{service.url}{path}"
            result = await verify(cluster.where, "--against", url, "-o", "json")
            (worker,) = result.json["workers"]
            assert (result.code, worker["release"], result.json["differences"]) == (0, release, [])
            assert worker["same"] == worker["compared"] >= 8
            assert result.json["stood_still"]
        both = f"{service.url}/compat/3.9,{service.url}/compat/3.4"
        words = ("--release", "3.4", *SECONDS, "-o", "json")
        document = (await verify(cluster.where, "--against", both, *words)).json
        assert [worker["version"] for worker in document["workers"]] == ["3.9.2", "3.4.1"]
        assert {worker["release"] for worker in document["workers"]} == {"3.4.1"}


async def test_a_service_is_compared_as_the_release_that_it_answers_as(
    cluster: ClusterCalls,
) -> None:
    """An attached service, too, may answer as the newest release, whose version `kip` reports."""
    async with running(cluster.where, "--quiet", "--release", "4.3") as service:
        result = await verify(cluster.where, "--against", service.url, "-o", "json")
    (worker,) = result.json["workers"]
    assert (result.code, worker["release"], result.json["differences"]) == (0, "4.3.0", [])


async def test_the_refusal_of_a_proxy_does_not_make_a_service_a_release(tmp_path: Path) -> None:
    """A proxy such as nginx refuses the path itself, and passes on our other answers."""
    root = {"version": Profile.of(KIP).kafka_release, "commit": "x"}
    page = PreparedAnswer(400, "<html>Bad Request</html>", is_page=True, server="nginx")
    prepared = {
        "/": [PreparedAnswer(200, root, server="controlplane")],
        REFUSED_PATH: [page],
        "/connectors": [PreparedAnswer(200, [], server="controlplane")],
    }
    async with standing_in(prepared) as url:
        result = await verify(str(empty(tmp_path)), "--against", url, *SECONDS, "-o", "json")
    assert result.json["workers"][0]["release"] == KIP


@pytest.mark.slow
async def test_a_worker_that_lacks_a_connector_has_a_row(cluster: ClusterCalls) -> None:
    """The row has worker, endpoint, both answers, and the missed record with key and time."""
    async with standing_in(answers(["a/b"])) as url:
        result = await verify(cluster.where, "--against", url, *SECONDS)
        machine = await verify(cluster.where, "--against", url, *SECONDS, "-o", "json")
    rows = [line for line in result.out.splitlines() if " /connectors " in line]
    assert result.code == 1
    assert url in rows[0]
    assert '∅ → "orders"' in rows[0]
    assert "config@0 connector-orders" in rows[0]
    assert rows[0].endswith("Z  the worker answers as before this record")
    difference = next(
        difference
        for difference in machine.json["differences"]
        if difference["path"] == "/connectors"
    )
    assert difference["worker"] == url
    assert difference["of_worker"] == {"status": 200, "answer": ["a/b"]}
    assert difference["of_log"]["answer"] == ["a/b", "orders"]
    assert difference["cause"]["key"] == "connector-orders"
    assert not difference["order_edge"]


async def test_a_worker_of_other_topics_is_suspected(cluster: ClusterCalls) -> None:
    """The sentence suspects other topics: the worker has none of the log's connectors."""
    async with standing_in(answers(["pages"])) as url:
        result = await verify(cluster.where, "--against", url, *SECONDS)
    assert result.code == 1
    assert f"{url} has none of the connectors of this log: it may read other topics" in result.out


@pytest.mark.parametrize("listed", [{"error_code": 500, "message": "no"}, 5])
async def test_an_error_lists_no_connectors(tmp_path: Path, listed: object) -> None:
    """The fields of an error are no names of connectors, and no endpoint of them is compared."""
    worker = StandIn({"/connectors": [PreparedAnswer(500, listed)]})
    async with serving(worker, listening := listen("127.0.0.1", 0)):
        log = str(empty(tmp_path))
        assert (await verify(log, "--against", url_of(listening), *SECONDS)).code == 1
    assert not [path for path in worker.requested_paths if path.startswith("/connectors/")]


@pytest.mark.slow
async def test_requests_are_repeated_while_a_worker_starts_or_rebalances(tmp_path: Path) -> None:
    """Requests are repeated while Jetty has no paths, and while the worker starts or rebalances."""
    prepared = {
        "/": [
            PreparedAnswer(404, "<html>Not Found</html>", is_page=True),
            PreparedAnswer(503, {"error_code": 503, "message": "starting"}),
            PreparedAnswer(200, {"version": "2.2.0", "commit": "x"}),
        ],
        "/connectors": [
            PreparedAnswer(500, {"error_code": 500, "message": REBALANCE}),
            PreparedAnswer(409, {"error_code": 409, "message": "Cannot complete the request"}),
            PreparedAnswer(200, []),
        ],
    }
    async with standing_in(prepared) as url:
        result = await verify(str(empty(tmp_path)), "--against", url)
    assert (result.code, result.out) == (0, f"{url} (2.2.0): 1 of 1 answer agrees with the log\n")


async def test_an_endless_rebalance_is_no_difference(tmp_path: Path) -> None:
    """A rebalance is no difference: exit code 5 with the worker's own message."""
    refused = [PreparedAnswer(500, {"error_code": 500, "message": REBALANCE})]
    words = ("--settle", "0", "--timeout", "1", "-o", "json")
    async with standing_in({"/connectors": refused}) as url:
        result = await verify(str(empty(tmp_path)), "--against", url, *words)
    assert result.code == 5
    assert REBALANCE in result.json["workers"][0]["unsettled"]["/connectors"]
    assert not result.json["stood_still"]


@pytest.mark.slow
async def test_a_worker_that_never_stands_still_gives_exit_code_5(tmp_path: Path) -> None:
    """If the answers of a worker change until --timeout, the exit code is 5."""
    log = empty(tmp_path)
    old = PreparedAnswer(200, {"version": "2.2.0", "commit": "x"})
    moving = [PreparedAnswer(200, [f"c{number}"]) for number in range(10_000)]
    async with standing_in({"/": [old], "/connectors": moving}) as url:
        result = await verify(str(log), "--against", url, "--settle", "9", "--timeout", "2")
    assert result.code == 5
    assert f"{url} never stood still within --timeout: " in result.out


async def test_a_name_that_fits_into_no_url_is_left_out(tmp_path: Path) -> None:
    """The name is compared in lists of connectors only."""
    async with standing_in(answers(["a" * 70_000])) as url:
        result = await verify(str(empty(tmp_path)), "--against", url, *SECONDS, "-o", "json")
    assert result.code == 1
    paths = {difference["path"].partition("?")[0] for difference in result.json["differences"]}
    assert paths == {"/connectors"}


async def test_a_password_is_asked_for_once(tmp_path: Path) -> None:
    """All workers get the password that was typed once."""
    prepared = {
        "/": [PreparedAnswer(200, {"version": "2.2.0", "commit": "x"})],
        "/connectors": [PreparedAnswer(200, [])],
    }
    async with standing_in(prepared) as first, standing_in(prepared) as second:
        urls = f"{first},{second}"
        words = (str(empty(tmp_path)), "--against", urls, "--user", "ada", *SECONDS)
        result = await asyncio.to_thread(lambda: call("verify", *words, typed="pw\n"))
    assert (result.code, result.err.count("password of ada: ")) == (0, 1), result


async def test_a_worker_that_is_down_is_named(cluster: ClusterCalls) -> None:
    """The command compares nothing; the error names the worker and the option."""
    async with standing_in({}) as url:
        result = await verify(cluster.where, "--against", f"{url},http://127.0.0.1:1")
    assert (result.code, result.out) == (4, "")
    assert "http://127.0.0.1:1 cannot be reached" in result.err
    assert result.err.strip().endswith("check --against")


async def test_a_worker_that_hangs_is_waited_for_until_the_timeout(cluster: ClusterCalls) -> None:
    """A worker that accepts requests without an answer delays the command by `--timeout` only."""
    with socket.create_server(("127.0.0.1", 0)) as hung:
        url = f"http://127.0.0.1:{hung.getsockname()[1]}"
        async with asyncio.timeout(ANSWER_S / 2):
            result = await verify(cluster.where, "--against", url, "--timeout", "1")
    assert result.code == 4
    assert result.err.endswith(f"Error: {url} gave no answer to GET / (ReadTimeout)\n")


async def test_an_imported_log_is_compared_with_workers_of_kafka(tmp_path: Path) -> None:
    """The id of an embedded log is its own: no worker of Kafka can have it."""
    imported = tmp_path / "imported.db"
    await asyncio.to_thread(call, "import", empty(tmp_path), imported)
    root = {"version": "2.2.0", "commit": "x", "kafka_cluster_id": "another"}
    prepared = {"/": [PreparedAnswer(200, root)], **answers([])}
    async with standing_in(prepared) as url:
        result = await verify(str(imported), "--against", url)
        live = CheckedWorker(
            url, httpx.AsyncClient(), Profile.of("2.2.0"), "2.2.0", False, "another", ours=False
        )
    assert (result.code, result.out) == (0, f"{url} (2.2.0): 1 of 1 answer agrees with the log\n")
    with pytest.raises(Declined, match="belongs to the Kafka cluster another, and kafka://b:1 to"):
        check_cluster([live], "kafka://b:1", "mine")


@pytest.mark.slow
async def test_servers_that_are_no_worker_of_the_cluster_are_refused(cluster: ClusterCalls) -> None:
    """Other servers are refused: a web server, another log's service, an unknown release."""
    async with standing_in({"/": [PreparedAnswer(200, {"hello": "world"})]}) as url:
        result = await verify(cluster.where, "--against", url)
    assert (result.code, result.out) == (3, "")
    assert f"{url} answers, but is no Kafka Connect" in result.err
    other = ClusterCalls(f"sqlite:///{cluster.folder}/other.db", cluster.folder)
    await asyncio.to_thread(other.create)
    async with running(other.where, "--quiet") as service:
        result = await verify(cluster.where, "--against", service.url)
    assert (result.code, result.out) == (3, "")
    assert f"{service.url} belongs to the Kafka cluster " in result.err
    fork = {"version": "7.9.0-ccs"}
    async with standing_in({"/": [PreparedAnswer(200, fork)]}) as url:
        result = await verify(cluster.where, "--against", url)
        with_release = await verify(cluster.where, "--against", url, "--release", "3.9", *SECONDS)
    assert (result.code, result.out) == (2, "")
    assert "is of the unknown release 7.9.0-ccs: set --release to the release" in result.err
    assert with_release.code == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--against", "w1:8083"], "'w1:8083' is no URL of a worker"),
        (["--against", ""], "an empty name is no URL of a worker"),
        (["--against", "http://w1,,http://w2"], "an empty name is no URL of a worker"),
        (["--against", "http://w1,HTTP://W1:80/"], "is named twice in --against"),
        (["--against", "http://w1", "--against", "http://w1"], "is named twice"),
        (["--against", "http://w1:99999999"], "is no URL"),
        (["--against", "http://w1", "--exactly-once", "http://w2"], "none of the workers"),
        (["--against", "http://w1", "--user", "a:b", "--token", "c"], "exclude each other"),
        (["--against", "http://w1", "--before", "x"], "leave out --before"),
        (["--against", "http://w1", "--timeout", "0"], "'--timeout'"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, words: list[str], sentence: str) -> None:
    """Bad options are refused with exit code 2, before the worker is asked."""
    log = empty(tmp_path)
    result = call("verify", log, *words)
    assert (result.code, result.out) == (2, "")
    assert sentence in result.err


def test_a_worker_with_exactly_once_support_may_have_a_login(tmp_path: Path) -> None:
    """`--exactly-once` takes the URL of `--against`; a wrong one is shown without its login."""
    log, url = empty(tmp_path), "http://ada:se@same@127.0.0.1:1"
    both = call("verify", log, "--against", url, "--exactly-once", url, "--timeout", "1")
    wrong = call("verify", log, "--against", url, "--exactly-once", url.replace(":1", ":2"))
    assert (both.code, "http://127.0.0.1:1 cannot be reached" in both.err) == (4, True)
    assert wrong.code == 2
    assert "'http://127.0.0.1:2' is none of the workers of --against" in wrong.err
    assert "same" not in both.err + wrong.err


def test_verify_takes_a_story_or_workers(histories: Path) -> None:
    """`verify` takes a story or workers, and refuses options of the other."""
    log, story = (histories / f"mirror-3.9.{kind}.jsonl" for kind in ("log", "story"))
    both = call("verify", log, story, "--against", "http://w1")
    assert (both.code, "leave out STORY" in both.err) == (2, True)
    for option in (("--timeout", "5"), ("--release", "3.9"), ("--token", "x")):
        alone = call("verify", log, story, *option)
        assert (alone.code, f"{option[0]} needs --against" in alone.err) == (2, True)


@pytest.mark.slow
async def test_secrets_are_hidden(cluster: ClusterCalls) -> None:
    """Table and JSON hide secrets; a differing secret still shows."""
    await asyncio.to_thread(cluster.output, "patch", "orders", "-s", "database.password=pearl")
    config = {"connector.class": "FileStreamSource", "database.password": "ruby"}
    prepared = answers(["orders"])
    prepared["/connectors/orders/config"] = [PreparedAnswer(200, config)]
    async with standing_in(prepared) as url:
        table = await verify(cluster.where, "--against", url, *SECONDS)
        machine = await verify(cluster.where, "--against", url, *SECONDS, "-o", "json")
    for shown in (table.out, machine.out):
        assert "pearl" not in shown
        assert "ruby" not in shown
        assert "[hidden] (differs)" in shown
