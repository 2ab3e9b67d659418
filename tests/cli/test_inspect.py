"""`controlplane inspect`: views of a log as tables and as JSON."""

import json
import re
from pathlib import Path

import pytest

from controlplane.cli.inspect import unreadable_summary
from controlplane.core.entry import Entry
from controlplane.core.moments import time_text
from controlplane.core.topic_names import GROUPS_TOPIC
from tests.cli.command_calls import CommandResult, call, embedded, shell

ODD = """\
CONNECTOR  TYPE     CLASS        TARGET STATE  TASKS  STATUS   TASK STATES  REMARKS
────────────────────────────────────────────────────────────────────────────────────────────────────
ghost      unknown  -            STOPPED       -      -        -            target state without a
                                                                            connector config
half       source   PagesSource  STARTED       2      RUNNING  2 RUNNING
other      source   PagesSource  STARTED       2      PAUSED   2 PAUSED
pages      source   PagesSource  STARTED       2      RUNNING  2 RUNNING
trailing   source   PagesSource  STOPPED       0      PAUSED   -

4 connectors, as a worker of 3.9.2 sees LOG
11 records that the worker cannot read, or ignores:
  config@10  unknown target state 'SLEEPING'
  config@17  unknown key
  config@18  undecodable value: no JSON: a value is missing at position 14
  config@19  properties is missing or not an object
  config@22  value is unexpectedly null
  … and 6 more; -o json has them
read up to {"connect-configs":[28],"connect-offsets":[11,9,2,3,2],"connect-status":[18,30,10]}
"""


def inspect(histories: Path, history: str, *options: str, columns: int = 120) -> CommandResult:
    """Inspect a history; fail unless it succeeds."""
    result = call("inspect", histories / f"{history}.log.jsonl", *options, columns=columns)
    assert result.code == 0, result.err
    return result


def test_the_default_view_has_connectors_and_their_problems(histories: Path) -> None:
    """The default view has a row per connector, then unreadable records, then the read end."""
    catalogue = str(histories / "catalogue.json")
    result = inspect(
        histories, "odd-records-3.9", "--profile", "3.9", "--plugins", catalogue, columns=100
    )
    assert result.out.replace(str(histories / "odd-records-3.9.log.jsonl"), "LOG") == ODD
    assert result.err == ""


def test_only_the_first_unreadable_records_are_kept(
    histories: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default view says how many of the unreadable records JSON has."""
    monkeypatch.setattr(unreadable_summary, "KEPT", 7)
    result = inspect(histories, "odd-records-3.9", "--profile", "3.9")
    assert "  … and 6 more; -o json has the first 7 records\n" in result.out


def test_the_remarks_column_appears_only_with_a_remark(tmp_path: Path) -> None:
    """The table has a column of remarks only if there is a remark."""
    record = Entry("connect-configs", 0, 0, 1, b"target-state-c", b'{"state":"PAUSED"}')
    assert "REMARKS" in call("inspect", embedded(tmp_path / "a.db", [record])).out
    nothing = Entry("connect-configs", 0, 0, 1, b"session-key", b"{")
    assert "REMARKS" not in call("inspect", embedded(tmp_path / "b.db", [nothing])).out


def test_json_has_all_facts_of_the_table(histories: Path) -> None:
    """JSON has all facts of the table, and every unreadable record."""
    document = inspect(histories, "odd-records-3.9", "--profile", "3.9", "-o", "json").json
    ghost, half = document["connectors"][:2]
    assert (ghost["name"], ghost["configured"], ghost["target_state"]) == (
        "ghost",
        False,
        "STOPPED",
    )
    assert half["task_states"] == {"0": "RUNNING", "1": "RUNNING"}
    assert document["profile"] == "3.9.2"
    assert document["unreadable"]["count"] == len(document["unreadable"]["records"]) == 11
    assert document["read_up_to"]["connect-configs"] == [28]


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_tables_fit_into_the_window(histories: Path, columns: int) -> None:
    """No row of a table exceeds the window's width."""
    result = inspect(histories, "odd-records-3.9", columns=columns)
    rows = result.out.split("\n\n")[0].splitlines()
    assert max(map(len, rows)) <= columns


def test_an_inconsistent_connector_is_marked(tmp_path: Path) -> None:
    """A task commit without its task configs marks the connector."""
    log = embedded(
        tmp_path / "log.db",
        [
            Entry("connect-configs", 0, 0, 1, b"connector-c", b'{"properties":{"name":"c"}}'),
            Entry("connect-configs", 0, 1, 2, b"commit-c", b'{"tasks":2}'),
        ],
    )
    (row,) = call("inspect", log, "-o", "json").json["connectors"]
    assert (row["tasks"], row["flags"]) == (0, ["inconsistent"])
    assert call("inspect", log).out.splitlines()[2].split()[-1] == "inconsistent"


@pytest.mark.parametrize(
    ("moment", "config"),
    [
        ("config@57", [58]),
        ("2026-11-20T22:50:11.982Z", [7]),
        ('{"connect-configs":[3],"connect-status":[2]}', [3]),
        ("1795215011983", [8]),
    ],
)
def test_a_moment_is_selected_in_each_form(histories: Path, moment: str, config: list[int]) -> None:
    """A record, a time, a vector, or milliseconds select a moment of all partitions."""
    document = inspect(histories, "life-3.9", "--as-of", moment, "-o", "json").json
    assert document["read_up_to"]["connect-configs"] == config


def test_as_of_takes_the_vector_that_it_prints(histories: Path) -> None:
    """The printed vector selects the same view."""
    once = inspect(histories, "life-3.9", "--as-of", "config@57")
    vector = once.out.splitlines()[-1].removeprefix("read up to ")
    assert inspect(histories, "life-3.9", "--as-of", vector).out == once.out


def test_a_vector_that_names_one_topic_leaves_out_the_others(histories: Path) -> None:
    """A partition that a vector does not name has no records in the view."""
    vector = '{"connect-configs":[100],"connect-status":[45]}'
    document = inspect(histories, "life-3.9", "--as-of", vector, "-o", "json").json
    assert document["read_up_to"]["connect-status"] == [45, 0, 0]
    assert document["read_up_to"]["connect-offsets"] == [0, 0, 0, 0, 0]


def test_the_vectors_of_a_story_are_valid(histories: Path) -> None:
    """A story's end offsets count transaction markers and empty partitions; the log lacks both."""
    story = (histories / "exactly-once-3.9.story.jsonl").read_bytes().splitlines()
    for line in story[1::20]:
        vector = json.dumps(json.loads(line)["positions"])
        document = inspect(histories, "exactly-once-3.9", "--as-of", vector, "-o", "json").json
        assert document["read_up_to"].keys() == json.loads(vector).keys()


def test_the_view_of_one_connector_has_its_whole_state(histories: Path) -> None:
    """The view has config, target state, tasks, status, offsets and topics."""
    document = inspect(histories, "life-3.9", "--connector", "pages", "-o", "json").json
    assert document["config"]["rows"] == "11"
    assert document["target_state"] == "STARTED"
    assert [task["status"]["state"] for task in document["task_list"]] == ["RUNNING"]
    (offset,) = [row for row in document["source_offsets"] if row["partition"] == {"page": 0}]
    assert offset["offset"] == {"row": 11}
    assert document["active_topics"] == ["alpha", "beta"]
    shown = inspect(histories, "life-3.9", "--connector", "pages").out
    assert '{"page": 0}' in shown
    assert "RUNNING on 127.0.0.1:8083, generation" in shown


def test_each_offset_has_the_time_since_it_is_unchanged(histories: Path) -> None:
    """Each offset has its record with time and age; a past moment has no age."""
    view = ("--connector", "pages")
    offsets = inspect(histories, "life-3.9", *view, "-o", "json").json["source_offsets"]
    changes = inspect(histories, "life-3.9", "--history", "pages", "-o", "json").json["events"]
    times = {event["at"]: time_text(event["record"]["timestamp"]) for event in changes}
    assert offsets
    for offset in offsets:
        assert times[offset["record"]] == offset["changed_at"]
    latest = max(offset["changed_at"] for offset in offsets)
    shown = inspect(histories, "life-3.9", *view).out
    assert re.search(re.escape(latest) + r" \(\d+ \w+\)", shown)
    past = inspect(histories, "life-3.9", *view, "--as-of", latest).out
    assert latest in past
    assert f"{latest} (" not in past


def test_a_task_count_that_no_worker_can_list_is_explained(tmp_path: Path) -> None:
    """Each view answers, also for a name with `=`; the view of the connector names the reason."""
    log = embedded(
        tmp_path / "log.db",
        [
            Entry("connect-configs", 0, 0, 1, b"connector-a=b", b'{"properties":{}}'),
            Entry("connect-configs", 0, 1, 1, b"task-a=b-0", b'{"properties":{"x":"y"}}'),
            Entry("connect-configs", 0, 2, 2, b"commit-a=b", b'{"tasks":2147483647}'),
        ],
    )
    for form in ([], ["-o", "json"]):
        for view in (["--connector"], ["--history"]):
            assert call("inspect", log, *view, "a=b", *form).code == 0
        assert call("inspect", log, "--compare", "3.4,3.9", *form).code == 0
    shown = call("inspect", log, "--connector", "a=b").out
    assert (
        "a worker fails at reading the connector's tasks: 2147483647 tasks are more than" in shown
    )


def test_offsets_of_a_sink_lie_elsewhere(histories: Path) -> None:
    """The view says that a sink's offsets are in its consumer group."""
    catalogue = str(histories / "catalogue.json")
    result = inspect(histories, "life-3.9", "--connector", "archive", "--plugins", catalogue)
    assert "its offsets lie in its consumer group, not in this log" in result.out


def test_an_embedded_log_has_the_offsets_of_its_sinks(tmp_path: Path) -> None:
    """The view shows offsets, ends and lag of a group that a worker has stored in the log."""
    config = b'{"properties":{"connector.class":"FileStreamSink","name":"s","topics":"t"}}'
    committed = b'["connect-s","t",0]'
    entries = [
        Entry("connect-configs", 0, 0, 1, b"connector-s", config),
        Entry(GROUPS_TOPIC, 0, 0, 1, committed, b'{"offset":1}'),
        *(Entry("t", 0, offset, 1, None, b"line") for offset in range(5)),
    ]
    log = embedded(tmp_path / "state.db", entries)
    view = ("inspect", log, "--connector", "s")
    assert call(*view).out.splitlines()[-4:] == [
        "TOPIC  PARTITION  OFFSET  END  LAG",
        "──────────────────────────────────",
        "t      0          1       5    4",
        "lag of consumer group connect-s: 4 records",
    ]
    assert call(*view, "-o", "json").json["consumer_group"] == {
        "group": "connect-s",
        "lag": 4,
        "offsets": [
            {"topic": "t", "partition": 0, "offset": 1, "end": 5, "lag": 4, "reason": None}
        ],
    }
    past = call(*view, "--as-of", "config@0", "-o", "json").json
    assert past["consumer_group"] is None
    assert "which is not read for a past moment" in call(*view, "--as-of", "config@0").out
    path = "/connectors/s/offsets"
    partition = {"kafka_topic": "t", "kafka_partition": 0}
    entry = {"partition": partition, "offset": {"kafka_offset": 1}}
    rest = call("inspect", log, "--rest", "--release", "3.9").json[path]
    assert rest == {"status": 200, "answer": {"offsets": [entry]}}
    assert call("inspect", log, "--rest", "--as-of", "config@0").json[path]["status"] == 500
    other = embedded(tmp_path / "other.db", entries[:1])
    shown = call("inspect", other, "--connector", "s").out
    assert "its offsets lie in its consumer group, not in this log" in shown


def test_an_offset_that_the_worker_cannot_reach_is_explained(histories: Path) -> None:
    """3.9 shows null for a key whose fields Java serialises in another order."""
    result = inspect(
        histories, "life-3.9", "--profile", "3.9", "--connector", "größe/ümläut 😀 %;+"
    )
    assert "null: the worker serializes this key differently than the log" in result.out


def test_rest_answers_are_those_of_the_recorded_worker(histories: Path) -> None:
    """`--rest` gives the answers of the recorded 3.9.1 worker at its end."""
    catalogue = str(histories / "catalogue.json")
    document = inspect(
        histories, "roll-3.4-3.9-3.4", "--rest", "--profile", "3.9.1", "--plugins", catalogue
    ).json
    assert document["/connectors"] == {"status": 200, "answer": ["born", "pages", "paused"]}
    assert document["/connectors/pages"]["answer"]["type"] == "source"
    assert document["/"]["answer"]["version"] == "3.9.1"


def test_a_sink_of_kafkas_own_needs_no_catalogue(histories: Path) -> None:
    """Every view shows the type of Kafka's own sink; none claims that it has no offsets."""
    table = inspect(histories, "life-3.9").out.splitlines()
    assert next(line.split() for line in table if line.startswith("archive"))[1:3] == [
        "sink",
        "FileStreamSink",
    ]
    depth = inspect(histories, "life-3.9", "--connector", "archive", "-o", "json").json
    assert depth["type"] == "sink"
    compared = inspect(histories, "life-3.9", "--compare", "3.4,3.9", "-o", "json").json
    (archive,) = (
        connector for connector in compared["connectors"] if connector["name"] == "archive"
    )
    assert {view["type"] for view in archive["seen"].values()} == {"sink"}
    rest = inspect(histories, "life-3.9", "--rest", "--profile", "3.9", "-o", "json").json
    offsets = rest["/connectors/archive/offsets"]
    assert offsets["status"] == 500
    assert "they lie in its consumer group" in offsets["answer"]["message"]


def test_rest_shows_the_404_of_an_endpoint_that_the_release_lacks(histories: Path) -> None:
    """2.3 has no endpoints for topics or offsets of a connector."""
    document = inspect(histories, "life-3.9", "--rest", "--profile", "2.3", "-o", "json").json
    lacking = {"error_code": 404, "message": "HTTP 404 Not Found"}
    for part in ("topics", "offsets", "tasks-config"):
        assert document[f"/connectors/pages/{part}"] == {"status": 404, "answer": lacking}
    assert document["/connectors/pages/config"]["status"] == 200


def test_aborted_records_are_seen_without_exactly_once_support(histories: Path) -> None:
    """A worker without exactly-once support has one connector more, from an aborted record."""
    without = inspect(histories, "aborted-3.9", "-o", "json").json["connectors"]
    having = inspect(histories, "aborted-3.9", "--exactly-once", "-o", "json").json["connectors"]
    names = [{row["name"] for row in rows} for rows in (without, having)]
    assert names[0] - names[1] == {"aborted"}


def test_worker_properties_name_topics_and_support(histories: Path, tmp_path: Path) -> None:
    """The worker's file sets topics and exactly-once support; flags win over the file."""
    properties = tmp_path / "worker.properties"
    properties.write_text(
        "config.storage.topic=elsewhere\nexactly.once.source.support=enabled\n", "utf-8"
    )
    options = ["--worker-properties", str(properties), "-o", "json"]
    lost = call("inspect", histories / "aborted-3.9.log.jsonl", *options)
    assert (lost.code, "there is no topic elsewhere" in lost.err) == (2, True)
    document = inspect(histories, "aborted-3.9", *options, "--config-topic", "connect-configs").json
    assert document["exactly_once"] is True


def test_a_release_too_new_to_be_known_is_read_as_the_newest(histories: Path) -> None:
    """A warning on standard error names the newest known release; JSON stays valid."""
    result = inspect(histories, "life-3.9", "--profile", "9.9", "-o", "json")
    assert result.json["profile"] == "4.3.0"
    assert result.err == "Warning: release 9.9 is not known; read as 4.3.0\n"


def test_terminal_codes_in_names_are_escaped(tmp_path: Path) -> None:
    """Terminal codes and direction marks in a connector's name are printed as escapes."""
    name = "\x1b[31mred\u202e[bold]"
    key = f"connector-{name}".encode()
    log = embedded(
        tmp_path / "log.db",
        [Entry("connect-configs", 0, 0, 1, key, b'{"properties":{"a\\u001b":"\\ud83d"}}')],
    )
    shown = "\\u001b[31mred\\u202e[bold]"
    for options, expected in (
        ([], shown),
        (["--connector", name], shown),
        (["--history", name], "\\u001b"),
        (["--compare", "3.4,kip"], shown),
    ):
        result = call("inspect", log, *options)
        assert result.code == 0
        assert "\x1b" not in result.out
        assert "\u202e" not in result.out
        assert expected in result.out


def test_different_views_exclude_each_other(histories: Path) -> None:
    """`inspect` refuses options of two views in one call."""
    log = histories / "life-3.9.log.jsonl"
    for options in (
        ["--rest", "--history", "pages"],
        ["--compare", "3.4,3.9", "--hazards"],
        ["--connector", "pages", "--rest"],
        ["--rest", "--hazards"],
        ["--hazards", "--rest"],
    ):
        result = call("inspect", log, *options)
        assert result.code == 2
        assert "are different views: give one of them" in result.err


def test_a_pipe_in_the_c_locale_gets_escaped_characters(histories: Path) -> None:
    """A pipe gets no colours; in the C locale `inspect` escapes all characters beyond ASCII."""
    result = shell("inspect", histories / "life-3.9.log.jsonl", LC_ALL="C", PYTHONUTF8="0")
    assert result.code == 0
    assert "\x1b" not in result.out
    assert r"gr\xf6\xdfe/\xfcml\xe4ut \U0001f600 %;+" in result.out
    assert result.out.isascii()
