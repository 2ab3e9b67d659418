"""`history`, `diff --from`, `undo` and `watch`: past and present changes."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx
import pytest
import yaml

from controlplane.client.commands import watch_command
from controlplane.client.http.request_errors import Unavailable
from controlplane.rest.extensions import watch
from tests.cli.command_calls import call
from tests.cli.running_service import LIFE
from tests.client.client_calls import PARTITION, SOURCE, ClusterCalls, FakeWorker

pytestmark = pytest.mark.slow

CHANGES = len([*SOURCE, "name", "target state", "password", "topic"])


@pytest.fixture
def changed(cluster: ClusterCalls) -> ClusterCalls:
    """Connector whose topic was changed; its creation is at config@0."""
    cluster.create()
    cluster.output("patch", "orders", "-s", "topic=other", "-s", "password=hunter2")
    return cluster


def test_each_change_has_its_record(changed: ClusterCalls) -> None:
    """Each change has its record; `--as-of` accepts the first column."""
    events = changed.json("history", "orders", "--last", "2")["events"]
    assert [(event["what"], event["before"], event["after"]) for event in events] == [
        ("config password", None, "[hidden]"),
        ("config topic", "lines", "other"),
    ]
    place = events[0]["record"]["offset"]
    lines = changed.output("history", "orders").splitlines()
    assert any(line.startswith(f"config@{place} ") for line in lines)
    then = changed.json("describe", "orders", "--as-of", f"config@{place - 1}")
    assert then["config"] == {**SOURCE, "name": "orders"}


def test_diff_lists_facts_that_differ_between_two_moments(changed: ClusterCalls) -> None:
    """Exit code 1, with a line per fact, without secrets."""
    result = changed.ask("diff", "orders", "--from", "config@0")
    assert result.code == 1
    assert "config password" in result.out
    assert "lines → other" in result.out
    assert "hunter2" not in result.out
    assert changed.output("diff", "--from", "config@0", "--to", "config@0") == "no difference\n"


def test_a_deleted_connector_differs_in_its_config(changed: ClusterCalls) -> None:
    """A config that is gone is a difference; a connector that never existed is refused."""
    changed.output("delete", "orders")
    gone = json.loads(changed.ask("diff", "--from", "config@0", "-o", "json").out)
    facts = {
        difference["item"]: (difference["before"], difference["after"])
        for difference in gone
        if difference["aspect"] == "config"
    }
    assert facts["topic"] == ("lines", None)
    refused = changed.refused("diff", "nix", "--from", "config@0")
    assert "Connector nix exists at neither of the two moments" in refused


@pytest.mark.parametrize(
    ("done", "words"), [("pause", "STARTED → PAUSED"), ("stop", "STARTED → STOPPED")]
)
def test_diff_shows_a_pause_and_a_stop(cluster: ClusterCalls, done: str, words: str) -> None:
    """`diff` shows the changed target state, and ends with exit code 1."""
    cluster.create()
    cluster.output(done, "orders")
    result = cluster.ask("diff", "orders", "--from", "config@0")
    assert result.code == 1
    assert words in result.out


def test_difference_words_active_topics_as_the_history_does() -> None:
    """`diff` and `history` show active topics of a recorded connector in the same words."""
    by_diff, by_history = (
        [
            line
            for line in call("--cluster", LIFE, *arguments).out.splitlines()
            if "active topic" in line
        ]
        for arguments in (("diff", "pages", "--from", "config@2"), ("history", "pages"))
    )
    worded = [line.removeprefix("pages").split() for line in by_diff]
    assert ["active", "topic", "alpha", "∅", "→", "true"] in worded
    assert all(any(line.split()[2:] == words for line in by_history) for words in worded)


def test_difference_of_a_secret_hides_both_values(
    cluster: ClusterCalls,
) -> None:
    """JSON hides both values, and says that they differ."""
    cluster.create(config=SOURCE | {"database.password": "pearl"})
    cluster.output("patch", "orders", "-s", "database.password=ruby")
    result = cluster.ask("diff", "orders", "--from", "config@0", "-o", "json")
    (difference,) = json.loads(result.out)
    assert (difference["before"], difference["after"]) == ("[hidden]", "[hidden]")
    assert "another value" in difference["words"]
    assert "pearl" not in result.out + result.err
    assert "ruby" not in result.out + result.err


def test_difference_of_a_deleted_connector_leaves_its_offsets_out(cluster: ClusterCalls) -> None:
    """The offsets stay in the log; a new connector of that name inherits them."""
    cluster.create(initial_state="STOPPED")
    offsets = [{"partition": {"filename": "/f"}, "offset": {"position": 1}}]
    cluster.output("offsets", "alter", "orders", "-f", cluster.file("o.json", {"offsets": offsets}))
    before = cluster.json("history", "orders")["events"][-1]["record"]
    cluster.output("delete", "orders")
    moment = f"{before['topic']}@{before['partition']}:{before['offset']}"
    facts = json.loads(cluster.ask("diff", "orders", "--from", moment, "-o", "json").out)
    aspects = {fact["aspect"] for fact in facts}
    assert "config" in aspects
    assert "source offset" not in aspects


def test_undo_shows_the_plan_and_asks(changed: ClusterCalls) -> None:
    """Undo shows the plan and asks before writing."""
    result = changed.ask("undo", "orders", "--to", "config@0", typed="n\n")
    assert result.code == 1
    assert "orders would be put back to config@0: " in result.out
    assert changed.json("describe", "orders")["config"]["topic"] == "other"
    assert changed.output("undo", "orders", "--to", "config@0", "--yes") == (
        "orders: put back to config@0\n"
    )
    assert changed.json("describe", "orders")["config"] == {**SOURCE, "name": "orders"}


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_undo_shows_the_plan_beside_a_document(changed: ClusterCalls, output: str) -> None:
    """The plan and the question are on standard error; standard output has the document alone."""
    result = changed.ask("undo", "orders", "--to", "config@0", "-o", output, typed="y\n")
    assert result.code == 0
    assert yaml.safe_load(result.out) == [{"connector": "orders", "result": "put back to config@0"}]
    assert result.err.startswith("orders would be put back to config@0: ")
    assert "put orders back?" in result.err


def test_an_undo_says_that_it_deletes(changed: ClusterCalls) -> None:
    """A connector that did not exist at the moment is deleted; plan, question and result say so."""
    changed.create("later")
    result = changed.ask("undo", "later", "--to", "config@0", typed="n\n")
    assert "later would be deleted, as it did not exist at config@0: " in result.out
    assert "delete later?" in result.out + result.err
    deleted = changed.output("undo", "later", "--to", "config@0", "--yes")
    assert deleted == "later: deleted, as it did not exist at config@0\n"
    assert "there is no connector later" in changed.refused("describe", "later")


def test_an_undo_that_would_write_nothing_does_not_ask(changed: ClusterCalls) -> None:
    """An empty undo says so and writes nothing, also for machines and with --yes."""
    changed.output("undo", "orders", "--to", "config@0", "--yes")
    before = changed.json("history", "orders")
    result = changed.ask("undo", "orders", "--to", "config@0", typed="")
    assert (result.code, result.out) == (
        0,
        "orders: already as it was at config@0 (nothing is written)\n",
    )
    results = changed.json("undo", "orders", "--to", "config@0", "--yes")
    assert results[0]["result"] == "already as it was at config@0"
    assert changed.json("history", "orders") == before
    assert [command["command"] for command in changed.json("commands")["commands"]].count(
        "restore"
    ) == 1


def test_a_reset_without_offsets_does_not_ask(cluster: ClusterCalls) -> None:
    """A connector without offsets is reset without a question, with exit code 0."""
    cluster.create(initial_state="STOPPED")
    result = cluster.ask("offsets", "reset", "orders", typed="")
    assert (result.code, "remove" in result.out + result.err) == (0, False)


def test_an_undo_to_the_future_is_refused(changed: ClusterCalls) -> None:
    """A future moment is refused like a record behind the end."""
    for moment in ("2999-01-01", "4102444800000"):
        refused = changed.refused("undo", "orders", "--to", moment, "--yes")
        assert f"'{moment}' is in the future: give a time up to now, " in refused
        assert "is in the future" in changed.refused("describe", "orders", "--as-of", moment)


def test_an_undo_that_lets_a_paused_connector_run_warns(changed: ClusterCalls) -> None:
    """Releases before 3.7 cannot create it paused: it may run first."""
    changed.output("pause", "orders")
    place = changed.json("history", "orders")["events"][-1]["record"]["offset"]
    changed.output("delete", "orders")
    undo = "plan", changed.where, "--undo", "orders", "--to", f"config@{place}", "--release"
    message = "orders may run briefly before the command pause reaches it: 3.4.1 creates"
    assert message in " ".join(call(*undo, "3.4", columns=200).out.split())
    assert "may run briefly" not in call(*undo, "3.9").out


def test_an_undo_with_yes_prints_its_assumptions(changed: ClusterCalls) -> None:
    """With `--yes` the plan is not shown; its assumptions are."""
    offsets = [{"partition": PARTITION, "offset": {"position": 1}}]
    changed.output("stop", "orders")
    changed.output("offsets", "alter", "orders", "-f", changed.file("o.json", {"offsets": offsets}))
    changed.output("resume", "orders")
    result = changed.ask("undo", "orders", "--to", "config@0", "--offsets", "--yes")
    assert (result.code, result.out) == (0, "orders: put back to config@0\n")
    assert "Warning: assumed: no task of orders commits offsets after the stop" in result.err


def test_a_warning_hides_secrets(cluster: ClusterCalls) -> None:
    """The warning about an assumption hides a secret in the name that it quotes."""
    name = "password=hunter2"
    cluster.create(name, initial_state="STOPPED")
    offsets = [{"partition": PARTITION, "offset": {"position": 1}}]
    cluster.output("offsets", "alter", name, "-f", cluster.file("o.json", {"offsets": offsets}))
    cluster.output("resume", name)
    result = cluster.ask("undo", name, "--to", "config@0", "--offsets", "--yes")
    assert "Warning: assumed: no task of password=[hidden] commits offsets" in result.err


def test_a_long_run_of_offsets_is_shortened_for_people(cluster: ClusterCalls) -> None:
    """Tables shorten a long run of offsets; JSON has each."""
    offsets = [{"partition": {"filename": f"/{n}"}, "offset": {"position": 1}} for n in range(25)]
    cluster.create(initial_state="STOPPED")
    cluster.output("offsets", "alter", "orders", "-f", cluster.file("o.json", {"offsets": offsets}))
    assert "… 15 more; -o json has them" in cluster.output("history", "orders")
    events = cluster.json("history", "orders")["events"]
    assert sum(event["what"].startswith("source offset") for event in events) == 25


def test_watch_continues_after_the_last_change(changed: ClusterCalls) -> None:
    """`watch` prints changes from the log's beginning, and then after the last printed one."""
    printed = changed.output("watch", "orders", "--since", "{}", "--count", "4", "-o", "json")
    changes = [json.loads(line) for line in printed.splitlines()]
    assert {change["connector"] for change in changes} == {"orders"}
    printed = changed.output("watch", "--since", "{}", "--count", str(CHANGES), "-o", "json")
    *_, created, second, _ = (json.loads(line) for line in printed.splitlines())
    assert (created["item"], created["after"]) == ("", "STARTED")
    later = changed.output("watch", "--since", created["id"], "--count", "1", "-o", "json")
    assert json.loads(later) == second


def test_watch_continues_after_a_record(changed: ClusterCalls) -> None:
    """`--after` takes a position, as `--as-of` does; the error repeats an unknown one."""
    later = json.loads(changed.output("watch", "--after", "config@0", "--limit", "1", "-o", "json"))
    assert (later["record"]["topic"], later["record"]["offset"]) == ("connect-configs", 1)
    result = changed.ask("watch", "--after", "confg@0")
    assert result.code == 3
    assert "the log has no record at confg@0: unknown topic 'confg'" in result.err


def test_watch_prints_a_line_for_each_change(changed: ClusterCalls) -> None:
    """Each change has a line with hidden secrets."""
    printed = changed.output("watch", "--since", "{}", "--count", str(CHANGES))
    assert "orders: config topic: lines → other" in printed
    assert "hunter2" not in printed


EVENTS = {"content-type": "text/event-stream"}
CHANGE = b'id: {"connect-configs":[4]}\nevent: change\ndata: {"after": "PAUSED"}\n\n'


class BreakingStream(httpx.AsyncByteStream):
    """Stream of events that breaks before the first change."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the first block, then fail."""
        yield b': watching\nid: {"connect-configs":[3]}\n\n'
        raise httpx.ReadError("gone")


async def test_watch_resumes_if_the_connection_breaks_before_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second connection asks for the changes since the beginning of the first one."""
    monkeypatch.setattr(watch_command, "PAUSE_S", 0)
    worker = FakeWorker(
        httpx.Response(200, headers=EVENTS, stream=BreakingStream()),
        httpx.Response(200, headers=EVENTS, content=CHANGE),
    )
    async with aclosing(watch_command.changes(await worker.api(), None, None)) as changes:
        assert await anext(changes) == {"after": "PAUSED", "id": '{"connect-configs":[4]}'}
    assert [request.headers.get("last-event-id") for request in worker.requests] == [
        None,
        '{"connect-configs":[3]}',
    ]


async def test_watch_reconnects_after_a_long_silence() -> None:
    """A connection that died without a sign never ends by itself, so each read has a time-out."""
    worker = FakeWorker(httpx.Response(200, headers=EVENTS, content=CHANGE))
    async with aclosing(watch_command.changes(await worker.api(), None, None)) as changes:
        await anext(changes)
    assert worker.requests[0].extensions["timeout"]["read"] > watch.SILENCE_S


async def test_watch_reconnects_while_the_server_restarts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A 502 or 503 ends `watch` only before its first connection."""
    monkeypatch.setattr(watch_command, "PAUSE_S", 0)
    refusal = {"error_code": 503, "message": "Worker is shutting down"}
    restarting = httpx.Response(502), httpx.Response(503, json=refusal)
    worker = FakeWorker(
        httpx.Response(200, headers=EVENTS, stream=BreakingStream()),
        *restarting,
        httpx.Response(200, headers=EVENTS, content=CHANGE),
    )
    async with aclosing(watch_command.changes(await worker.api(), None, None)) as changes:
        assert await anext(changes) == {"after": "PAUSED", "id": '{"connect-configs":[4]}'}
    assert "Worker is shutting down: reconnecting" in capsys.readouterr().err
    worker = FakeWorker(*restarting)
    async with aclosing(watch_command.changes(await worker.api(), None, None)) as changes:
        with pytest.raises(Unavailable, match="502"):
            await anext(changes)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (httpx.Response(200, html="<html>"), "perhaps a page of a proxy"),
        (httpx.Response(200, json={}), "answers GET /watch with application/json, not with events"),
    ],
)
async def test_watch_ends_if_the_answer_has_no_events(answer: httpx.Response, says: str) -> None:
    """A success of another form is an error: repeated requests would get no change either."""
    worker = FakeWorker(answer)
    async with aclosing(watch_command.changes(await worker.api(), None, None)) as changes:
        with pytest.raises(Unavailable, match=says):
            await anext(changes)
