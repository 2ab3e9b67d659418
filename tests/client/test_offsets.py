"""`offsets edit`, `alter` and `reset`: changes made in an editor, and questions before them."""

import asyncio
from base64 import b64encode
from pathlib import Path
from typing import Any

import click
import httpx
import pytest

from controlplane.client.commands import offset_commands
from controlplane.client.commands.plan_tables import print_plan, print_plans
from controlplane.client.http.request_errors import Unavailable, WaitTimedOut
from controlplane.core.entry import Entry
from tests.cli.command_calls import embedded
from tests.client.client_calls import PARTITION, SOURCE, ClusterCalls, FakeWorker, error
from tests.core.logs import config, connector

ALTER = ("offsets", "alter", "orders")


@pytest.fixture
def stopped(cluster: ClusterCalls) -> ClusterCalls:
    """Cluster with the stopped connector `orders` at position 5."""
    cluster.create(initial_state="STOPPED")
    at = {"offsets": [{"partition": PARTITION, "offset": {"position": 5}}]}
    cluster.output(*ALTER, "-f", cluster.file("five.json", at))
    return cluster


def present(cluster: ClusterCalls) -> list[dict[str, Any]]:
    """Offsets of the connector."""
    offsets: list[dict[str, Any]] = cluster.json("offsets", "orders")["offsets"]
    return offsets


def position(cluster: ClusterCalls) -> int | None:
    """Offset of the connector; None without one."""
    offsets = present(cluster)
    return offsets[0]["offset"]["position"] if offsets else None


def test_an_edit_is_shown_and_confirmed(stopped: ClusterCalls) -> None:
    """Each change is shown, and made after a yes."""
    editor = stopped.editor('"position": 5', '"position": 2')
    result = stopped.ask("offsets", "edit", "orders", editor=editor, typed="y\n")
    assert result.code == 0, result
    row = '{"filename": "/in.txt"}  {"position": 5}  {"position": 2}'
    assert row in result.out
    assert "alter 1 offset of orders? [y/N]" in result.err
    assert position(stopped) == 2


def test_a_no_changes_nothing(stopped: ClusterCalls) -> None:
    """The answer no after an edit ends with exit code 1; the offset stays."""
    editor = stopped.editor('"position": 5', '"position": 2')
    assert stopped.ask("offsets", "edit", "orders", editor=editor, typed="n\n").code == 1
    assert position(stopped) == 5


def test_a_partition_deleted_in_the_editor_loses_its_offset(stopped: ClusterCalls) -> None:
    """A partition that is deleted from the text loses its offset."""
    editor = stopped.editor('"partition".*', "")
    script = stopped.file("editor.sh", '#!/bin/sh\necho \'{"offsets": []}\' > "$1"\n')
    assert editor == str(script)
    assert "∅" in stopped.output("offsets", "edit", "orders", "--yes", editor=editor)
    assert position(stopped) is None


def test_an_unchanged_text_sends_nothing(stopped: ClusterCalls) -> None:
    """An edit without a change says so and asks no question."""
    assert stopped.output("offsets", "edit", "orders", editor="true") == "orders: unchanged\n"


def test_a_parse_error_offers_another_edit(stopped: ClusterCalls) -> None:
    """After a syntax error the command asks whether to edit the text again."""
    editor = stopped.editor("{", "")
    result = stopped.ask("offsets", "edit", "orders", editor=editor, typed="n\n")
    assert result.code == 1
    assert "these are no offsets: it cannot be parsed" in result.err
    assert "edit them again? [y/N]" in result.err


def test_yes_turns_a_parse_error_into_bad_input(stopped: ClusterCalls) -> None:
    """With --yes nobody can edit the text again: the command asks nothing, and changes nothing."""
    editor = stopped.editor("{", "")
    result = stopped.ask("offsets", "edit", "orders", "--yes", editor=editor)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Error: these are no offsets: it cannot be parsed")
    assert "edit them again?" not in result.err
    assert position(stopped) == 5


@pytest.mark.parametrize(
    ("editor", "says"),
    [("false", "false: Editing failed"), ("./no-editor", "./no-editor: Editing failed: [Errno 2]")],
)
def test_a_failing_editor_is_named(stopped: ClusterCalls, editor: str, says: str) -> None:
    """A failed editor is bad input, not a finding; the offset stays."""
    result = stopped.ask("offsets", "edit", "orders", editor=editor)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"Error: the editor failed ({says}")
    assert result.err.endswith("): check $VISUAL and $EDITOR\n")
    assert position(stopped) == 5


def test_an_editor_that_saves_no_utf_8_is_named(stopped: ClusterCalls) -> None:
    """The editor may have another encoding than the terminal; the offset stays."""
    editor = stopped.file("latin.sh", "#!/bin/sh\nprintf '\\351' >> \"$1\"\n")
    editor.chmod(0o700)
    result = stopped.ask("offsets", "edit", "orders", editor=str(editor))
    assert (result.code, result.out) == (2, "")
    assert "the editor saved bytes that are no UTF-8: set its encoding" in result.err
    assert position(stopped) == 5


def test_half_a_surrogate_pair_can_be_edited(stopped: ClusterCalls) -> None:
    """The editor's file has it as an escape."""
    partition = '{"filename": "\\ud800"}'
    words = ("--source-partition", partition, "--source-offset", '{"position": 7}')
    stopped.output(*ALTER, *words)
    editor = stopped.editor('"position": 7', '"position": 8')
    stopped.output("offsets", "edit", "orders", "--yes", editor=editor)
    offsets = {str(each["partition"]): each["offset"] for each in present(stopped)}
    assert offsets[str({"filename": "\ud800"})] == {"position": 8}


def test_a_running_connector_opens_no_editor(stopped: ClusterCalls) -> None:
    """A connector that is not stopped is refused before the editor opens."""
    stopped.output("resume", "orders")
    result = stopped.ask("offsets", "edit", "orders", editor="false")
    assert result.code == 3
    assert result.err == f"Error: orders is not stopped, {SAY_STOP}"


SAY_STOP = (
    "and only a stopped connector's offsets can be changed: add --stop, or run `controlplane stop "
    "orders` first\n"
)


@pytest.mark.parametrize("options", [("--yes",), ("--dry-run",)])
def test_running_connectors_must_be_stopped_first(
    stopped: ClusterCalls, options: tuple[str, ...]
) -> None:
    """The error names the command to stop the connector."""
    stopped.output("resume", "orders")
    refusal = stopped.refused("offsets", "reset", "orders", *options)
    assert refusal == f"orders is not stopped, {SAY_STOP}".strip()


def test_a_dry_run_stops_nothing(stopped: ClusterCalls) -> None:
    """A dry run with `--stop` stops nothing either, so it cannot show the later records."""
    stopped.output("resume", "orders")
    refusal = stopped.refused("offsets", "reset", "orders", "--stop", "--dry-run")
    assert "a dry run stops nothing, so run `controlplane stop orders` first" in refusal
    assert stopped.json("history", "orders")["events"][-1]["after"] == "STARTED"


def test_a_dry_run_of_an_edit_writes_nothing(stopped: ClusterCalls) -> None:
    """The dry run shows the records and writes none."""
    editor = stopped.editor('"position": 5', '"position": 2')
    printed = stopped.output("offsets", "edit", "orders", "--dry-run", editor=editor)
    assert "orders would be altered: 1 record" in printed
    assert position(stopped) == 5


BASE64_KEY = '["orders",{"password":"hunter2é"}]'.encode("utf-16-be")
"""Key that a plan shows in Base64: workers read it, and it is no UTF-8."""


def test_a_dry_run_hides_a_secret_in_base64(tmp_path: Path) -> None:
    """The table of a dry run hides the secret in a key that is no UTF-8."""
    state = ("target-state-orders", b'{"state":"PAUSED","state.v2":"STOPPED"}')
    offset = Entry("connect-offsets", 0, 0, 0, BASE64_KEY, b'{"position":5}')
    status = Entry("connect-status", 0, 0, 0, b"x", None)
    entries = [*config(connector("orders", **SOURCE), state), offset, status]
    log = ClusterCalls(str(embedded(tmp_path / "log.db", entries)), tmp_path)
    printed = log.output("offsets", "reset", "orders", "--dry-run")
    assert "[hidden]" in printed
    assert b64encode(BASE64_KEY).decode()[-12:] not in printed


def test_plans_hide_secrets_in_remote_records_and_assumptions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Tables of plans hide secrets in an action's records and in assumptions."""
    encoded = {"base64": b64encode(b'{"password":"hunter2\xff"}').decode()}
    records = [{"key": encoded, "value": None}, {"key": "k", "value": {"base64": "no Base64"}}]
    action = {"action": "write-offsets", "records": records}
    step = {"name": "write", "records": [], "action": action, "read_back": []}
    plan = {"steps": [step], "assumed": ["password=hunter2 exists"]}
    print_plan("one", plan)
    print_plans("several", [("orders", plan), ("others", plan)])
    printed = capsys.readouterr().out
    assert "assumed: password=[hidden] exists" in printed
    assert "assumed of others: password=[hidden] exists" in printed
    assert printed.count("[hidden]") == 2 * 3
    assert encoded["base64"][:12] not in printed


def test_plans_hide_secrets_under_repeated_names(capsys: pytest.CaptureFixture[str]) -> None:
    """Tables of plans show only the last member of a name, which is the one that Jackson reads."""
    record = {"topic": "t", "key": "k", "value": '{"password":"hunter2","password":"","x":1}'}
    step = {"name": "write", "records": [record], "read_back": []}
    print_plan("one", {"steps": [step], "assumed": []})
    assert '{"password": "", "x": 1}' in capsys.readouterr().out


@pytest.mark.parametrize("words", [("delete", "offsets"), ("offsets", "reset")])
def test_reset_works_under_both_names(stopped: ClusterCalls, words: tuple[str, ...]) -> None:
    """`delete offsets` and `offsets reset` remove the offsets after the answer yes."""
    result = stopped.ask(*words, "orders", typed="y\n")
    assert result.code == 0
    assert "remove 1 offset of orders? [y/N]" in result.err
    assert position(stopped) is None


def test_a_connector_is_stopped_for_a_change(stopped: ClusterCalls) -> None:
    """With `--stop` a running connector is stopped, reset and resumed."""
    stopped.output("resume", "orders")
    stopped.output("offsets", "reset", "orders", "--stop", "--yes")
    events = stopped.json("history", "orders")["events"]
    assert [event["after"] for event in events if event["what"] == "target state"] == [
        *("STOPPED", "STARTED"),
        *("STOPPED", "STARTED"),
    ]
    assert position(stopped) is None


@pytest.mark.parametrize(("verb", "state"), [("pause", "PAUSED"), ("stop", "STOPPED")])
def test_the_target_state_returns_after_a_change(
    stopped: ClusterCalls, verb: str, state: str
) -> None:
    """The connector returns to its target state, even if no worker has reported it."""
    stopped.output(verb, "orders")
    stopped.output("offsets", "reset", "orders", "--stop", "--yes")
    targets = [
        event["after"]
        for event in stopped.json("history", "orders")["events"]
        if event["what"] == "target state"
    ]
    assert targets[-1] == state
    assert position(stopped) is None


@pytest.mark.parametrize(
    ("partition", "offset", "reason"),
    [
        ('{"filename": "/in.txt"}', '{"position": -1}', "should be a non-negative value"),
        ('{"filename": "/in.txt"}', '{"position": "x"}', "is expected to be a Long value"),
        ('{"file": "/in.txt"}', '{"position": 1}', "should contain the key 'filename'"),
    ],
)
def test_offsets_that_the_connector_refuses_stay_unchanged(
    stopped: ClusterCalls, partition: str, offset: str, reason: str
) -> None:
    """A worker answers 500 with the connector's reason: exit code 4, and nothing is changed."""
    pair = ("--source-partition", partition, "--source-offset", offset)
    assert reason in stopped.refused(*ALTER, *pair, code=4)
    assert position(stopped) == 5


def test_one_offset_is_altered_in_the_words_of_kcctl(stopped: ClusterCalls) -> None:
    """Single offsets of a source are given as JSON, as in kcctl."""
    partition = ("--source-partition", '{"filename": "/in.txt"}')
    stopped.output("patch", "offsets", "orders", *partition, "--source-offset", '{"position": 9}')
    assert position(stopped) == 9
    stopped.output(*ALTER, *partition, "--source-offset", "null")
    assert position(stopped) is None


@pytest.mark.parametrize(
    "flags",
    [
        ("--source-partition", '{"filename": "/in.txt"}', "--source-offset", '{"position": 9}'),
        ("--kafka-offset", "9"),
    ],
)
def test_a_file_and_single_offsets_are_refused(
    stopped: ClusterCalls, flags: tuple[str, ...]
) -> None:
    """The command takes a file or flags; with both, nothing is sent."""
    listed = stopped.file("none.json", {"offsets": []})
    result = stopped.ask(*ALTER, "-f", listed, *flags)
    assert (result.code, "give -f FILE; or --source-partition" in result.err) == (2, True), result
    assert position(stopped) == 5


@pytest.mark.parametrize("bad", ["--source-partition", "--source-offset"])
def test_bad_json_is_reported_with_its_option(stopped: ClusterCalls, bad: str) -> None:
    """The message names the option whose value is no JSON; nothing is sent."""
    pair = {"--source-partition": "{}", "--source-offset": "{}", bad: "{x"}
    words = [word for option in pair.items() for word in option]
    result = stopped.ask(*ALTER, *words)
    assert result.code == 2
    assert f"Error: {bad}: '{{x' is no JSON" in result.err
    assert position(stopped) == 5
    deep = stopped.ask(*ALTER, *[word.replace("{x", "[" * 50_000) for word in words])
    assert (deep.code, f"Error: {bad}: '[[[[" in deep.err) == (2, True)


RUNNING = [
    httpx.Response(200, json={"name": "orders", "config": {}, "tasks": []}),
    httpx.Response(200, json={"connector": {"state": "RUNNING", "worker_id": "w"}, "tasks": []}),
]
ACCEPTED = (httpx.Response(202), error(404, "No status found for connector orders"))
"""Answers of our service to a stop, and to the question for a status."""
STILL_STOPPED = "orders is still stopped: `controlplane resume orders` starts it again\n"


async def test_a_wait_for_the_stop_that_times_out_is_noted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The worker has accepted the stop, so the connector stays stopped."""
    monkeypatch.setattr(offset_commands, "STOP_S", 0)
    worker = FakeWorker(*RUNNING, httpx.Response(202), *RUNNING)
    with pytest.raises(WaitTimedOut):
        async with offset_commands.stopped(await worker.api(), "orders", stop=True):
            raise AssertionError("the connector is not stopped yet")
    assert capsys.readouterr().err.endswith(STILL_STOPPED)


@pytest.mark.parametrize("failure", [asyncio.CancelledError(), httpx.ReadTimeout("late")])
async def test_a_stop_without_an_answer_is_noted(
    failure: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C and a time-out leave a connector that may be stopped."""

    class SilentWorker(FakeWorker):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            if request.method == "PUT":
                raise failure
            return super().__call__(request)

    api = await SilentWorker(*RUNNING).api()
    with pytest.raises((asyncio.CancelledError, Unavailable)):
        async with offset_commands.stopped(api, "orders", stop=True):
            raise AssertionError("the connector is not stopped yet")
    assert capsys.readouterr().err == (
        "orders may be stopped: `controlplane resume orders` starts it again\n"
    )


async def test_ctrl_c_while_a_connector_is_stopped_is_noted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Ctrl-C cancels the command, and the note says that the connector stays stopped."""
    targets = httpx.Response(200, json={"targets": {"orders": "RUNNING"}})
    worker = FakeWorker(*RUNNING, targets, *ACCEPTED, server="controlplane")
    api = await worker.api()
    with pytest.raises(asyncio.CancelledError):
        async with offset_commands.stopped(api, "orders", stop=True):
            raise asyncio.CancelledError
    assert capsys.readouterr().err == STILL_STOPPED
    assert [request.url.path for request in worker.requests if request.method == "PUT"] == [
        "/connectors/orders/stop"
    ]


async def test_a_failed_restoration_is_noted(capsys: pytest.CaptureFixture[str]) -> None:
    """If the target state cannot be restored, the note says that the connector stays stopped."""
    targets = httpx.Response(200, json={"targets": {"orders": "RUNNING"}})
    answers = (*RUNNING, targets, *ACCEPTED, error(500, "no"))
    api = await FakeWorker(*answers, server="controlplane").api()
    with pytest.raises(click.ClickException):
        async with offset_commands.stopped(api, "orders", stop=True):
            pass
    assert capsys.readouterr().err == STILL_STOPPED


@pytest.mark.parametrize(
    ("state", "advice"),
    [("RUNNING", "resume orders` starts"), ("PAUSED", "pause orders` pauses")],
)
async def test_any_exception_while_a_connector_is_stopped_is_noted(
    state: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A defect leaves the connector stopped; the note names the command of its target state."""
    targets = httpx.Response(200, json={"targets": {"orders": state}})
    api = await FakeWorker(*RUNNING, targets, *ACCEPTED, server="controlplane").api()
    with pytest.raises(TypeError):
        async with offset_commands.stopped(api, "orders", stop=True):
            raise TypeError
    noted = capsys.readouterr().err
    assert noted == f"orders is still stopped: `controlplane {advice} it again\n"


@pytest.mark.parametrize("value", ["!!binary aGk=", "!!set {a, b}"])
def test_yaml_values_that_json_lacks_are_refused(stopped: ClusterCalls, value: str) -> None:
    """Values without a form in JSON are refused when the file is read; nothing is sent."""
    entry = f"{{partition: {{filename: /in.txt}}, offset: {{position: {value}}}}}"
    listed = stopped.file("offsets.yaml", f"offsets: [{entry}]")
    sentence = stopped.refused(*ALTER, "-f", listed, "--stop", code=2)
    assert f"{listed} has no offsets: it cannot be parsed (could not determine" in sentence
    assert position(stopped) == 5


def test_a_sink_partition_that_is_no_map_is_refused(stopped: ClusterCalls) -> None:
    """The cluster refuses a partition of another type, also in the form of KIP-875's draft."""
    listed = stopped.file("o.json", {"offsets": {"sink": [{"partition": "x", "offset": 5}]}})
    assert "String value ('x')" in stopped.refused(*ALTER, "-f", listed)
    assert position(stopped) == 5
