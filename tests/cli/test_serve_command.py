"""`controlplane serve` as a process of its own."""

import asyncio
import json
import os
import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from controlplane.cli.serve.serve_command import serve
from controlplane.event_loop import cancel_on_signals
from controlplane.logs.log import Record
from controlplane.logs.sqlite import SqliteLog
from controlplane.rest.http.server import listen
from tests.cli.command_calls import call, embedded, refusal, shell
from tests.cli.running_service import CURLS, HISTORIES, LIFE, running
from tests.core.logs import config
from tests.installed_package import STOPPED_WITH_HOOK, declare_hook
from tests.patience import PATIENCE_S

NOT_OURS = "203.0.113.1"
"""Documentation address (RFC 5737), which no machine has."""


def urls(line: str) -> list[str]:
    """URLs of a curl line, with `{a,b}` expanded as by curl."""
    match = re.fullmatch(r"  curl -s -w '\\n' '([^']+)'", line)
    assert match is not None, line
    stem, *choices = re.split(r"[{}]", match[1])
    return [stem + choice for choice in choices[0].split(",")] if choices else [stem]


@pytest.mark.parametrize(("release", "dialect"), [("3.4", "3.4.1"), ("4.3.0", "4.3.0")])
async def test_prints_the_address_for_tools_of_every_release(release: str, dialect: str) -> None:
    """`serve` prints the address for Connect's tools, as the root serves more than Connect."""
    async with running(LIFE, "--release", release) as service:
        message = f"For tools that expect Kafka Connect, use {service.url}/compat/{dialect}"
        assert service.lines[1] == message


async def test_prints_working_examples() -> None:
    """The three curl lines work; the last one shows a connector that differs by release."""
    async with running(LIFE) as service, httpx.AsyncClient() as client:
        assert service.lines[0].startswith(f"{LIFE}: 10 connectors, answered as kip on http://127.")
        label, compat = service.lines[1].rsplit(" ", 1)
        assert (label, compat) == (
            "For tools that expect Kafka Connect, use",
            f"{service.url}/compat/3.9",
        )
        offsets = (await client.get(f"{compat}/connectors/pages/offsets")).json()["offsets"]
        assert isinstance(offsets, list)  # as in Kafka; an object in KIP-875, and so on `/`
        answers = [[await client.get(url) for url in urls(line)] for line in service.lines[3:]]
        assert [len(group) for group in answers] == [1, 1, 2]
        assert all(answer.status_code == 200 for group in answers for answer in group)
        older, newer = answers[2]
        assert older.json()["connector"] != newer.json()["connector"]


@pytest.fixture
def hangups() -> Iterator[None]:
    """SIGHUP has its usual effect in this process and its children, also under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_ends_on_signals(how: signal.Signals) -> None:
    """Ctrl-C, SIGTERM and a closed terminal end it with exit code 0; requests have log lines."""
    async with running(LIFE) as service, httpx.AsyncClient() as client:
        await client.get(f"{service.url}/connectors/nix%0a")
        code, stderr = await service.end(how)
    assert code == 0
    (line,) = stderr.splitlines()
    assert " event=request method=GET target=/connectors/nix%0a dialect= " in line
    assert " principal=anonymous status=404 " in line
    assert " peer=127.0.0.1 " in line


def test_a_service_under_nohup_outlives_its_terminal() -> None:
    """An ignored SIGHUP stays ignored, as in Java."""

    async def reaction() -> object:
        cancel_on_signals()
        return signal.getsignal(signal.SIGHUP)

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert asyncio.run(reaction()) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups")
async def test_a_second_hangup_has_no_effect() -> None:
    """A shell that exits sends SIGHUP twice; the end of the service must not be cancelled, too."""

    async def work() -> int:
        cancel_on_signals()
        task = asyncio.current_task()
        assert task is not None
        try:
            signal.raise_signal(signal.SIGHUP)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            signal.raise_signal(signal.SIGHUP)
            await asyncio.sleep(0.05)  # a second cancellation would end this
        return task.cancelling()

    try:
        assert await asyncio.create_task(work()) == 1
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().remove_signal_handler(number)


@pytest.mark.parametrize("source", ["flag", "environment"])
async def test_log_lines_are_json_objects(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line of standard error is a JSON object: requests with their sender, and warnings."""
    worker = tmp_path / "worker.properties"
    worker.write_text("group.idd=fleet\n", "ascii")
    arguments = [LIFE, "--worker-properties", str(worker)]
    if source == "environment":
        monkeypatch.setenv("CONTROLPLANE_LOG_FORMAT", "json")
        worker.write_text("", "ascii")
    else:
        arguments += ["--log-format", "json"]
    async with running(*arguments, "--host", "0.0.0.0") as service, httpx.AsyncClient() as client:
        port = service.url.rpartition(":")[2]
        for _ in range(2):  # the second response comes from the cache
            await client.get(f"http://127.0.0.1:{port}/connectors")
        code, written = await service.end()
    assert code == 0
    lines = [json.loads(line) for line in written.splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert len(requests) == 2
    assert {(line["principal"], line["peer"]) for line in requests} == {("anonymous", "127.0.0.1")}
    warnings = [line["text"] for line in lines if line["event"] == "setup_warning"]
    assert any("every client that reaches 0.0.0.0" in warning for warning in warnings)
    assert any("group.idd" in warning for warning in warnings) == (source == "flag")


async def test_listens_where_the_workers_file_says(tmp_path: Path) -> None:
    """The service uses the first plain listener of the worker's file."""
    with listen("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
    worker = tmp_path / "worker.properties"
    worker.write_text(f"listeners=http://127.0.0.1:{port},https://x:1\n", "ascii")
    async with running(LIFE, "--worker", str(worker), port=()) as service:
        assert service.url == f"http://127.0.0.1:{port}"


def test_listeners_do_not_apply_to_a_cluster(tmp_path: Path) -> None:
    """Listeners of a worker's file do not apply when serving a cluster."""
    worker = tmp_path / "worker.properties"
    worker.write_text(f"listeners=http://{NOT_OURS}:1\n", "ascii")
    beside = ["serve", "kafka://127.0.0.1:1", "--worker", worker, "--port", 0]
    assert "connection refused" in refusal(call(*beside))
    override = ["--override", f"listeners=http://{NOT_OURS}:2"]
    assert f"cannot listen on {NOT_OURS}:0" in refusal(call(*beside, *override))


async def test_quiet_suppresses_request_lines() -> None:
    """With `--quiet`, `serve` prints nothing about requests."""
    async with running(LIFE, "--quiet") as service, httpx.AsyncClient() as client:
        await client.get(service.url)
        assert await service.end() == (0, "")


async def test_options_set_dialect_and_plugins() -> None:
    """Options set the release of the answers, and the types of connectors."""
    options = ("--dialect", "3.4", "--plugins", str(HISTORIES / "catalogue.json"))
    async with running(LIFE, *options) as service, httpx.AsyncClient() as client:
        root = await client.get(service.url)
        info = await client.get(f"{service.url}/connectors/archive")
    assert root.json()["version"] == "3.4.1"
    assert info.json()["type"] == "sink"


async def test_unknown_classes_are_refused_unless_a_flag_trusts_them(tmp_path: Path) -> None:
    """With the flag, a connector of any class can be created."""
    body = {"name": "a", "config": {"connector.class": "org.example.Jdbc"}}
    for number, (flags, status) in enumerate((((), 400), (("--trust-unknown-classes",), 201))):
        log = f"sqlite:///{tmp_path / f'{number}.db'}"
        async with running(log, *flags) as service, httpx.AsyncClient() as client:
            posted = await client.post(f"{service.url}/connectors", json=body)
            assert posted.status_code == status, posted.text


async def test_undeclared_classes_of_a_log_are_named_at_the_start(tmp_path: Path) -> None:
    """A warning at the start names undeclared classes, unless a flag trusts them."""
    log = str(tmp_path / "life.db")
    assert (await asyncio.to_thread(call, "import", LIFE, log)).code == 0
    async with running(log, "--quiet") as service:
        _, stderr = await service.end()
    assert f"Warning: {log}: connectors use" in stderr
    assert "classes that are not declared: lab.PagesSourceConnector. Changes of their" in stderr
    async with running(log, "--quiet", "--trust-unknown-classes") as service:
        _, stderr = await service.end()
    assert "not declared" not in stderr


async def test_read_only_logs_can_be_planned_for() -> None:
    """A dry run on a file shows the plan of a worker; the same request without it is refused."""
    async with running(LIFE) as service, httpx.AsyncClient() as client:
        answer = await client.put(f"{service.url}/connectors/archive/stop?dry_run=true")
        assert (answer.status_code, answer.json()["commit_point"]) == (200, "state")
        refused = await client.put(f"{service.url}/connectors/archive/stop")
        assert refused.status_code == 405
        assert refused.json()["message"].endswith(". dry_run=true shows what would be written")


@pytest.mark.parametrize("options", [(), ("--read-only",)])
async def test_a_dry_run_calls_no_hook(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A dry run calls no hook of a connector in Python: its plan assumes that the hook accepts.

    A service that may write calls the hook for the request itself.
    """
    created = declare_hook(monkeypatch, tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    log = await asyncio.to_thread(embedded, tmp_path / "log.db", config(*STOPPED_WITH_HOOK))
    async with running(str(log), *options) as service, httpx.AsyncClient() as client:
        reset = f"{service.url}/connectors/a/offsets"
        planned = (await client.delete(reset, params={"dry_run": "true"})).json()
        assumption = "alterOffsets of acting.A accepts these offsets; it was not called"
        assert assumption in planned["assumed"]
        assert not created.exists()
        await client.delete(reset)
        assert created.exists() is (options == ())


async def test_exactly_once_support_hides_aborted_records() -> None:
    """A worker with that support does not see aborted records; other workers do."""
    log = str(HISTORIES / "aborted-3.9.log.jsonl")
    connectors = []
    for options in ((), ("--exactly-once",)):
        async with running(log, *options) as service, httpx.AsyncClient() as client:
            connectors.append((await client.get(f"{service.url}/connectors")).json())
    assert set(connectors[0]) - set(connectors[1]) == {"aborted"}


async def test_follows_an_embedded_log(tmp_path: Path) -> None:
    """The service soon has records of another process (this one)."""
    path = tmp_path / "connect.db"
    log = await SqliteLog.open(path)
    for topic in ("connect-configs", "connect-offsets", "connect-status"):
        await log.create_topic(topic, 1)
    async with running(str(path)) as service, httpx.AsyncClient() as client:
        assert (await client.get(f"{service.url}/connectors")).json() == []
        value = b'{"properties":{"name":"new"}}'
        await log.append([Record("connect-configs", 0, 1, b"connector-new", value)])
        async with asyncio.timeout(PATIENCE_S):
            while (await client.get(f"{service.url}/connectors")).json() != ["new"]:
                pass  # the service does not report when it has read the record
        assert (await service.end())[0] == 0
    await log.close()


async def test_faults_of_topics_are_reported(tmp_path: Path) -> None:
    """The service reports a config topic with two partitions, which stops most workers."""
    log = await SqliteLog.open(tmp_path / "connect.db")
    await log.create_topic("connect-configs", 2)
    await log.close()
    async with running(str(tmp_path / "connect.db")) as service:
        code, stderr = await service.end()
    assert code == 0
    assert "the config topic connect-configs has 2 partitions" in stderr


async def test_unreadable_records_are_counted(tmp_path: Path) -> None:
    """One line has the number and the command that lists them; a log without any has no line."""
    log = await SqliteLog.open(tmp_path / "connect.db")
    for topic in ("connect-configs", "connect-offsets", "connect-status"):
        await log.create_topic(topic, 1)
    await log.append([Record("connect-configs", 0, 1, b"connector-a", b"{")])
    await log.append([Record("connect-status", 0, 1, b"status-connector-a", b"{")])
    await log.close()
    async with running(str(tmp_path / "connect.db")) as service:
        code, stderr = await service.end()
    assert (code, stderr.count("\n")) == (0, 1)
    assert stderr.startswith("Warning: ")
    assert "at least 2 records of configs and statuses cannot be read, or are ignored. " in stderr


async def test_an_empty_log_is_served(tmp_path: Path) -> None:
    """The service serves a log without connectors, and the printed examples work."""
    log = await SqliteLog.open(tmp_path / "connect.db")
    await log.create_topic("connect-configs", 1)
    await log.close()
    async with running(str(tmp_path / "connect.db")) as service, httpx.AsyncClient() as client:
        assert ": 0 connectors, answered as kip on " in service.lines[0]
        assert len(service.lines) == 3 + CURLS
        for line in service.lines[3:]:
            assert (await client.get(urls(line)[0])).status_code == 200


def _refused(*arguments: str) -> str:
    """Run `serve`, which must fail before it listens; return its error."""
    result = CliRunner().invoke(serve, list(arguments))
    assert result.exit_code == 2, result.output
    return result.stderr.removeprefix("Error: ").rstrip()


def test_a_port_in_use_is_refused() -> None:
    """A used port gives one sentence."""
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        message = _refused(LIFE, "--port", str(port))
    assert message == (
        f"cannot listen on 127.0.0.1:{port} (Address already in use): "
        "choose another port with --port"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["nix.db"],
            "nix.db does not exist: check the path. `controlplane serve sqlite:///nix.db`",
        ),
        (["sqlite:///nix.db", "--read-only"], "--read-only and --no-follow create no log"),
        ([LIFE, "--host", "nix.invalid"], "'nix.invalid' is neither an address nor a known name"),
        ([LIFE, "--host", NOT_OURS], "this machine has no such address): give an address of this"),
        (
            [LIFE, "--override", "admin.listeners=http://nix.invalid:1"],
            "a known name): name an address of this machine there",
        ),
        ([str(HISTORIES)], "is a directory"),
        (["kafka://127.0.0.1:1"], "no broker"),
        ([LIFE, "--dialect", "9.x"], "unknown release '9.x'"),
        ([LIFE, "--dialect", "2.0", "--exactly-once"], "2.0.1 has no exactly-once support"),
        ([LIFE, "--config-topic", "nix"], "there is no topic nix"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(arguments: Sequence[str], says: str) -> None:
    """Bad input gives one sentence and exit code 2."""
    done = shell("serve", "--port", "0", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: ")
    assert says in done.err
    assert len(done.err.splitlines()) == 1


async def test_administrators_may_have_a_listener_of_their_own(tmp_path: Path) -> None:
    """Only that listener has the admin endpoints (KIP-495); a new log level applies at once."""
    with listen("127.0.0.1", 0) as free:
        apart = f"http://127.0.0.1:{free.getsockname()[1]}"
    properties = tmp_path / "worker.properties"
    properties.write_text(f"admin.listeners={apart}\n", encoding="ascii")
    async with running(LIFE, "--worker-properties", str(properties)) as service:
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{service.url}/admin/loggers")).status_code == 404
            assert (await client.get(f"{apart}/connectors")).status_code == 404
            level = f"{apart}/admin/loggers/controlplane"
            assert (await client.get(level)).json()["level"] == "INFO"
            assert (await client.put(level, json={"level": "WARN"})).status_code == 200
            await client.get(f"{service.url}/connectors/unheard-of")
        _, printed = await service.end()
    assert "target=/admin/loggers " in printed
    assert "unheard-of" not in printed
