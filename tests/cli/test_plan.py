"""`controlplane plan`: records that a request or an undo writes at some point of a log."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from controlplane.cli.main import main
from controlplane.core.entry import Entry
from controlplane.core.topic_names import GROUPS_TOPIC
from controlplane.logs.dumps import read_dump
from tests.cli.command_calls import CommandResult, call, embedded, refusal
from tests.core.logs import config, connector, tasks
from tests.installed_package import STOPPED_WITH_HOOK, declare, declare_hook
from tests.recorded_requests import HISTORIES, recorded

LOG = HISTORIES / "life-3.9.log.jsonl"
EXACTLY_ONCE = HISTORIES / "exactly-once-3.9.log.jsonl"
PLUGINS = ("--plugins", HISTORIES / "catalogue.json")


def plan(*arguments: object, log: Path = LOG, columns: int = 120) -> CommandResult:
    """Plan a request on a recorded log; the output shows the log's path as LOG."""
    result = call("plan", log, *arguments, *PLUGINS, columns=columns)
    return result._replace(out=result.out.replace(str(log), "LOG"))


def planned(*arguments: object, log: Path = LOG) -> Any:
    """Plan a request; return the plan as JSON."""
    result = plan("-o", "json", *arguments, log=log)
    assert result.code == 0, result
    return result.json


def records(document: Any) -> list[tuple[str, str, str | None]]:
    """Topic, key and value of every record of a plan, in order."""
    return [
        (record["topic"], record["key"], record["value"])
        for step in document["steps"]
        for record in step["records"]
    ]


STOP = """\
a worker of 3.9.2 would write to LOG: 2 records, in 2 steps
STEP   TOPIC   PARTITION  KEY                 VALUE                                    THEN
────────────────────────────────────────────────────────────────────────────────────────────────
tasks  config  0          commit-pages        {"tasks":0}                              read back
state  config  0          target-state-pages  {"state":"PAUSED","state.v2":"STOPPED"}  read back
commit point: state
answer: 204
pages: target state: STARTED → STOPPED
pages: tasks: 1 → 0
"""


def test_a_plan_has_steps_gaps_and_outcome() -> None:
    """The plan has the steps with their records, the gaps between them, and the outcome."""
    result = plan("--profile", "3.9", "--as-of", "config@55", "put", "/connectors/pages/stop")
    assert (result.code, result.out, result.err) == (0, STOP, "")


@pytest.mark.parametrize("number", [3, 16, 30, 45, 54, 74, 82, 84, 102])
def test_a_plan_equals_the_records_of_the_cluster(number: int) -> None:
    """The plan of a recorded request has the records of the cluster, and the recorded answer."""
    request = next(
        request
        for request in recorded()
        if (request.history, request.step.n) == ("life-3.9", number)
    )
    body = [] if request.body is None else [request.body.decode()]
    moment = json.dumps(request.step.before)
    document = planned(
        "--profile",
        request.step.release,
        "--as-of",
        moment,
        request.step.method,
        request.step.path,
        *body,
    )
    written = [entry for entry in request.written_entries() if entry.topic == "connect-configs"]
    assert records(document) == [
        ("connect-configs", (entry.key or b"").decode(), entry.value and entry.value.decode())
        for entry in written[: len(records(document))]
    ]
    assert document["answer"]["status"] == request.step.status
    assert document["answer"]["body"] == request.step.answer


def test_our_profile_writes_one_step() -> None:
    """Our own profile writes related records in one transaction."""
    steps = planned("DELETE", "/connectors/pages")["steps"]
    assert [(step["name"], len(step["records"])) for step in steps] == [("config", 2)]


def test_a_release_without_the_endpoint_writes_nothing() -> None:
    """Exit code 1 with the release's answer and the reason."""
    result = plan("--profile", "3.4", "PUT", "/connectors/pages/stop")
    assert (result.code, result.err) == (1, "")
    assert result.out == (
        "a worker of 3.4.1 would write nothing to LOG: 404 HTTP 404 Not Found\n"
        "3.4.1 has no such endpoint, or not for this method\n"
    )


def test_refusals_are_those_of_the_worker() -> None:
    """The output is the worker's refusal, also as JSON."""
    body = '{"name":"pages","config":{"connector.class":"lab.PagesSourceConnector","topics":"t"}}'
    result = plan("--profile", "3.9", "POST", "/connectors", body)
    assert (result.code, result.err) == (1, "")
    assert result.out.endswith(": 409 Connector pages already exists\n")
    result = plan("--profile", "3.9", "-o", "json", "POST", "/connectors", body)
    assert result.code == 1
    assert result.json["refused"] == {"status": 409, "message": "Connector pages already exists"}


def test_an_unreadable_body_gives_the_error_of_the_release() -> None:
    """The release's error is printed on one line."""
    result = plan("--profile", "3.9", "PUT", "/connectors/pages/config", "{bad")
    assert result.code == 1
    assert ": 500 Unexpected character ('b' (code 98)): was expecting double-quote" in result.out
    assert len(result.out.splitlines()) == 1


def test_a_body_may_come_from_a_file_or_standard_input(tmp_path: Path) -> None:
    """`@FILE` and `-` work as in curl."""
    file = tmp_path / "body.json"
    file.write_text('{"rows":"10"}', encoding="utf-8")
    request = ("--profile", "3.9", "PATCH", "/connectors/pages/config")
    inline = records(planned(*request, '{"rows":"10"}'))
    assert '"rows":"10"' in (inline[0][2] or "")
    assert records(planned(*request, f"@{file}")) == inline
    words = ["plan", str(LOG), "-o", "json", *map(str, PLUGINS), *request, "-"]
    read = CliRunner().invoke(main, words, input=file.read_bytes())
    assert records(json.loads(read.stdout)) == inline


def test_secrets_are_hidden_from_people() -> None:
    """A table shows no secret; JSON, for programs, has the bytes."""
    body = '{"connector.class":"lab.PagesSourceConnector","topics":"t","password":"s3cret"}'
    result = plan("PUT", "/connectors/new/config", body)
    assert "s3cret" not in result.out
    assert result.out.count("[hidden]") == 3  # the record, the answer, the effect
    document = planned("PUT", "/connectors/new/config", body)
    assert '"password":"s3cret"' in records(document)[0][2]  # type: ignore[operator]


def test_secrets_in_a_refusal_are_hidden_from_people() -> None:
    """The table hides secrets in the config that Connect's refusal repeats."""
    request = ("PUT", "/connectors/new/config", '{"database.password":"s3cret, and more"}')
    result = plan(*request)
    assert result.code == 1
    assert "{name=new, database.password=[hidden]} contains no connector type" in result.out
    message = "Connector config {name=new, database.password=s3cret, and more} contains no"
    assert plan("-o", "json", *request).json["refused"]["message"].startswith(message)


def test_secrets_in_assumptions_are_hidden_from_people() -> None:
    """An assumption hides the secret in a class that the config names."""
    request = ("PUT", "/connectors/new/config", '{"connector.class":"password=s3cret"}')
    result = plan("--trust-unknown-classes", *request)
    assert "assumed: password=[hidden] exists and accepts this config" in result.out
    assert "s3cret" not in result.out


def test_connectors_of_installed_packages_are_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Declared connectors are known to `plan`, with a catalogue and without one."""
    declare(monkeypatch, tmp_path, a="declared:A")
    request = ("PUT", "/connectors/new/config", '{"connector.class":"declared.A"}')
    for result in (call("plan", LOG, *request), plan(*request)):
        assert result.code == 0
        assert "assumed" not in result.out
    assert call("plan", LOG, "-o", "json", *request).json["answer"]["body"]["type"] == "source"


def test_hooks_in_python_are_called_or_trusted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A Python hook is called, unless `--believe-hooks` is given."""
    created = declare_hook(monkeypatch, tmp_path)
    log = embedded(tmp_path / "log.db", config(*STOPPED_WITH_HOOK))
    arguments = ("plan", log, "DELETE", "/connectors/a/offsets")
    result = call(*arguments, "--believe-hooks")
    assumption = "alterOffsets of acting.A accepts these offsets; it was not called"
    assert f"assumed: {assumption}" in result.out
    assert not created.exists()
    assert "assumed: alterOffsets of acting.A returns true" in call(*arguments).out
    assert created.exists()


def test_a_package_that_cannot_be_loaded_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A plugin that cannot be loaded is named in one sentence."""
    declare(monkeypatch, tmp_path, b="declared:B")
    message = refusal(call("plan", LOG, "PUT", "/connectors/pages/stop"))
    assert "declared:B cannot be loaded: AttributeError" in message


def test_nothing_is_written(tmp_path: Path) -> None:
    """Planning leaves every byte of the log as it was."""
    log = embedded(tmp_path / "log.db", read_dump(LOG).entries)
    before = hashlib.sha256(log.read_bytes()).digest()
    assert planned("PUT", "/connectors/pages/stop", log=log)["steps"]
    assert hashlib.sha256(log.read_bytes()).digest() == before


# --- consumer groups and assumptions ------------------------------------------------------------

ARCHIVE = [
    connector("archive", **{"connector.class": "FileStreamSink", "topics": "t", "file": "f"}),
    *tasks("archive", 0),
    ("target-state-archive", '{"state":"PAUSED","state.v2":"STOPPED"}'),
]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Log with one stopped sink connector."""
    return embedded(tmp_path / "archive.db", _with_topics(config(*ARCHIVE)))


def _with_topics(entries: list[Entry]) -> list[Entry]:
    others = [Entry(f"connect-{name}", 0, 0, 0, b"x", None) for name in ("offsets", "status")]
    return [*entries, *others]


def test_offsets_of_a_sink_are_set_in_its_consumer_group(archive: Path) -> None:
    """The plan says that the offsets are in a consumer group."""
    body = json.dumps(
        {
            "offsets": [
                {
                    "partition": {"kafka_topic": "t", "kafka_partition": 0},
                    "offset": {"kafka_offset": 5},
                },
                {"partition": {"kafka_topic": "t", "kafka_partition": 1}},
            ]
        }
    )
    result = plan("PATCH", "/connectors/archive/offsets", body, log=archive)
    assert result.code == 0
    assert "1 action outside of the log, in 1 step" in result.out
    assert "in consumer group connect-archive: set t-0 to 5; remove t-1" in result.out


def test_a_group_is_assumed_to_be_empty(archive: Path) -> None:
    """The group is assumed to be empty unless its offsets are given."""
    reset = ("DELETE", "/connectors/archive/offsets")
    document = planned(*reset, log=archive)
    nothing = "consumer group connect-archive has committed nothing; give its offsets with --group"
    assert nothing in document["assumed"]
    assert document["steps"][0]["action"]["action"] == "delete-group"
    committed = planned("--group", "t:0=5, t:1=7", *reset, log=archive)
    assert (
        "consumer group connect-archive has committed the offsets of --group"
        in committed["assumed"]
    )


def test_a_group_in_an_embedded_log_is_known(tmp_path: Path) -> None:
    """The plan has the offsets that a worker has stored; a plan for the past assumes none."""
    commit = Entry(GROUPS_TOPIC, 0, 0, 0, b'["connect-archive","t",3]', b'{"offset":1}')
    log = embedded(tmp_path / "run.db", [*_with_topics(config(*ARCHIVE)), commit])
    reset = ("DELETE", "/connectors/archive/offsets")
    hook = "alterOffsets of FileStreamSink returns true"
    assert planned(*reset, log=log)["assumed"] == [hook]
    assert len(planned("--as-of", "config@2", *reset, log=log)["assumed"]) == 2


def test_answers_of_hooks_are_reported() -> None:
    """The plan reports the catalogue's answer of a Java hook, because no Java runs here."""
    body = '{"offsets":[{"partition":{"page":0},"offset":{"row":1}}]}'
    at = ("--profile", "3.9", "--as-of", "config@57")
    result = plan(*at, "PATCH", "/connectors/pages/offsets", body)
    assert result.code == 0
    assert "assumed: alterOffsets of lab.PagesSourceConnector returns true" in result.out
    assert 'answer: 200 {"message": "The offsets for this connector have been altered' in result.out


def test_an_unknown_class_is_refused_unless_it_is_trusted() -> None:
    """A flag or a setting trusts unknown classes; the plan then reports its assumption."""
    arguments = ("plan", LOG, "PUT", "/connectors/new/config", '{"connector.class":"no.Such"}')
    refused = call(*arguments)
    assert refused.code == 1
    assert "Failed to find any class that implements Connector" in refused.out
    assumed = "assumed: no.Such exists and accepts this config; check it with --plugins"
    for trusting in (("--trust-unknown-classes",), ("--override", "plugins.trust.unknown=true")):
        result = call(*arguments, *trusting)
        assert result.code == 0
        assert assumed in result.out


def test_classes_are_declared_by_a_setting(tmp_path: Path) -> None:
    """The setting for the catalogue works as its flag does."""
    file = tmp_path / "catalogue.json"
    file.write_text('[{"class": "no.Such", "type": "source"}]', "ascii")
    arguments = ("plan", LOG, "PUT", "/connectors/new/config", '{"connector.class":"no.Such"}')
    environment = {"CONTROLPLANE_PLUGINS_CATALOGUE": str(file)}
    assert call(*arguments, environment=environment).code == 0
    missing = call(*arguments, "--override", f"plugins.catalogue={tmp_path / 'nowhere.json'}")
    assert missing.code == 2
    assert "nowhere.json cannot be read (No such file or directory): check the path" in missing.err


def test_fencing_is_explained() -> None:
    """With `--exactly-once`, the plan names the producers that it would fence."""
    at = ("--exactly-once", "--profile", "3.9", "--signed")
    request = (*at, "--as-of", "config@24", "PUT", "/connectors/pages/fence")
    result = plan(*request, log=EXACTLY_ONCE, columns=160)
    assert result.code == 0
    assert "fence the producers connect-cluster-pages-0, connect-cluster-pages-1" in result.out
    assert "a worker of 3.9.2 with exactly-once support would write to" in result.out


def test_exactly_once_support_changes_a_refusal() -> None:
    """A connector that requires exactly-once support has another refusal without it."""
    request = ("--profile", "3.9", "PUT", "/connectors/new/config")
    config = {"connector.class": "lab.PagesSourceConnector", "topics": "t"}
    body = json.dumps({**config, "exactly.once.support": "required"})
    without = plan(*request, body, log=EXACTLY_ONCE)
    assert "This worker does not have exactly-once source support enabled." in without.out
    with_ = plan("--exactly-once", *request, body, log=EXACTLY_ONCE)
    assert "The connector does not implement the API required" in with_.out
    assert (without.code, with_.code) == (1, 1)


def test_a_workers_file_applies(tmp_path: Path) -> None:
    """Settings of the `--worker` file decide about a plan."""
    file = tmp_path / "worker.properties"
    file.write_text("topic.tracking.allow.reset=false\n", encoding="utf-8")
    result = plan("--worker", file, "PUT", "/connectors/pages/topics/reset")
    assert result.code == 1
    assert ": 403 Topic tracking reset is disabled" in result.out


def test_a_plan_without_steps_says_so() -> None:
    """A plan without steps says so and exits with 0."""
    result = plan("PUT", "/connectors/nobody/topics/reset")
    assert result.code == 0
    assert result.out == (
        "our own worker (kip) would write to LOG: nothing has to be done\nanswer: 200\n"
    )


def test_undo_of_a_step_is_shown() -> None:
    """A step that a failure reverts is shown with its undo."""
    body = {
        "name": "new",
        "config": {"connector.class": "lab.PagesSourceConnector", "topics": "t"},
        "initial_offsets": [{"partition": {"page": 0}, "offset": {"row": 1}}],
    }
    result = plan("POST", "/connectors", json.dumps(body))
    assert result.code == 0
    (line,) = (line for line in result.out.splitlines() if line.startswith("(undo-write)"))
    assert line.split()[-4:] == ["if", "a", "step", "fails"]
    document = planned("POST", "/connectors", json.dumps(body))
    assert document["steps"][0]["undo"]["records"][0]["value"] is None


# --- undo ---------------------------------------------------------------------------------------


def test_an_undo_has_a_plan() -> None:
    """The plan has the records that restore a connector, and their outcome."""
    result = plan(
        "--profile", "3.9", "--as-of", "config@60", "--undo", "pages", "--to", "config@20"
    )
    assert (result.code, result.err) == (0, "")
    names = [line.split()[0] for line in result.out.splitlines() if line.startswith(("put", "res"))]
    assert names == ["put-config", "resume-state"]
    assert "commit point: resume-state" in result.out
    assert "pages: target state: STOPPED → STARTED" in result.out
    assert "answer" not in result.out


def test_undo_with_offsets_stops_a_running_connector() -> None:
    """The connector becomes STOPPED; the plan says that it cannot know when its tasks end."""
    undo = ("--profile", "3.9", "--undo", "pages", "--to", "config@9", "--offsets")
    document = planned("--as-of", "config@30", *undo)
    steps = ["stop-tasks", "stop-state", "put-config", "offsets-write", "resume-state"]
    assert [step["name"] for step in document["steps"]] == steps
    doubt = "no task of pages commits offsets after the stop; to be sure, stop pages first and let"
    assert f"{doubt} its tasks end" in document["assumed"]
    fenced = planned("--as-of", "config@30", "--exactly-once", *undo)
    assert not any(doubt in sentence for sentence in fenced["assumed"])
    document = planned("--as-of", "config@57", *undo)
    topics = [topic for topic, _, _ in records(document)]
    assert topics[0] == "connect-configs"
    assert "connect-offsets" in topics
    assert records(document)[-1][1] == "target-state-pages"


def test_an_undo_deletes_a_connector_that_did_not_exist() -> None:
    """A connector that did not exist then is deleted; one that never existed is refused."""
    document = planned("--undo", "pages", "--to", "config@0", "--as-of", "config@20")
    assert [record[2] for record in records(document)] == [None, None]
    result = plan("--undo", "nobody", "--to", "config@20")
    assert refusal(result).startswith(
        "there is no connector 'nobody', neither now nor at config@20: "
    )


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "a request is missing: METHOD PATH"),
        (("PUT",), "a request is missing: METHOD PATH"),
        (("PUT", "connectors"), "'connectors' is no path"),
        (("GET", "/connectors"), "GET writes nothing"),
        (("--undo", "a"), "--undo and --to belong together"),
        (("--to", "config@1", "PUT", "/"), "--undo and --to belong together"),
        (
            ("--undo", "a", "--to", "config@1", "PUT", "/"),
            "a request and --undo exclude each other",
        ),
        (("--offsets", "PUT", "/connectors/a/stop"), "--offsets needs --undo"),
        (("--group", "t=5", "PUT", "/connectors/a/stop"), "'t=5' is not of the form"),
        (("PUT", "/connectors/a/config", "@/no/such/file"), "/no/such/file cannot be read"),
        (("--profile", "9.x", "PUT", "/connectors/a/stop"), "unknown release"),
        (("--as-of", "config@9999", "PUT", "/connectors/a/stop"), "config@9999"),
        (("--undo", "pages", "--to", "config@9999"), "config@9999"),
    ],
)
def test_bad_input_is_refused_with_the_remedy(arguments: tuple[str, ...], sentence: str) -> None:
    """Bad input gives one sentence with the remedy, exit code 2."""
    result = plan(*arguments)
    assert (result.code, result.out) == (2, "")
    assert sentence in result.err
