"""`controlplane inspect --history`: every change of a connector; secrets stay secret."""

import json
from pathlib import Path

from controlplane.core.entry import Entry
from tests.cli.command_calls import call, embedded

BORN = """\
RECORD       TIME                      WHAT                    CHANGE
──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
config@12    2026-11-20T22:53:23.177Z  target state            ∅ → STOPPED
config@13    2026-11-20T22:53:23.177Z  connector               created
                                       config connector.class  ∅ → lab.PagesSourceConnector
                                       config name             ∅ → born
                                       config rows             ∅ → 2
                                       config tasks.max        ∅ → 2
                                       config topics           ∅ → born
status@1:44  2026-11-20T22:53:23.194Z  status                  ∅ → STOPPED on 127.0.0.1:8085
status@1:51  2026-11-20T22:53:57.113Z  status                  STOPPED → UNASSIGNED on 127.0.0.1:8085
status@1:54  2026-11-20T22:53:59.299Z  status                  UNASSIGNED on 127.0.0.1:8085 → PAUSED on 127.0.0.1:8083
status@1:64  2026-11-20T22:55:00.498Z  status                  PAUSED on 127.0.0.1:8083 → STOPPED on 127.0.0.1:8085

6 records, as our own worker (kip) sees LOG
"""  # noqa: E501 - printed so


def test_every_change_has_its_record_and_time(histories: Path) -> None:
    """Each change of a connector that was created STOPPED has its record and time."""
    log = histories / "roll-3.4-3.9-3.4.log.jsonl"
    result = call("inspect", log, "--history", "born", columns=160)
    assert (result.code, result.out) == (0, BORN.replace("LOG", str(log)))


def test_requests_offsets_and_task_configs_are_listed(histories: Path) -> None:
    """Restarts are events; task configs wait for their commit; offsets are listed by raw key."""
    log = histories / "life-3.9.log.jsonl"
    events = call("inspect", log, "--history", "pages", "-o", "json").json["events"]
    kinds = {event["what"] for event in events}
    assert {"restart", "task config", "task config 0", 'source offset {"page": 0}'} <= kinds
    moved = [event for event in events if event["what"] == 'source offset {"page": 1}']
    assert (moved[0]["before"], moved[0]["after"]) == (None, {"row": 4})
    assert any(event["after"] is None for event in moved)


def test_an_ignored_record_is_part_of_the_history(histories: Path) -> None:
    """A bad record of another program is shown with its fate and the reason."""
    log = histories / "odd-records-3.9.log.jsonl"
    result = call("inspect", log, "--history", "other", "--profile", "3.9", columns=200)
    (row,) = [line for line in result.out.splitlines() if "SLEEPING" in line]
    assert row.split(maxsplit=3)[2:] == ["ignored", "unknown target state 'SLEEPING'"]
    assert result.out.splitlines()[-1] == (
        f"29 records (6 changed nothing and are not shown), as a worker of 3.9.2 sees {log}"
    )


def test_records_without_an_effect_have_a_word(tmp_path: Path) -> None:
    """JSON calls a record ignored or unreadable, or says that it stops a worker."""
    values = [
        (b"connector-c", b'{"properties":{}}'),
        (b"target-state-c", b'{"state":"SLEEPING"}'),
        (b"connector-c", b"{"),
        (b"task-c-0", b"{}"),
        (b"commit-c", b'{"tasks":"x"}'),
    ]
    entries = [Entry("connect-configs", 0, n, n, *pair) for n, pair in enumerate(values)]
    log = embedded(tmp_path / "log.db", entries)
    events = call("inspect", log, "--history", "c", "--profile", "3.2", "-o", "json").json["events"]
    fates = {event["record"]["offset"]: event["what"] for event in events}
    assert (fates[1], fates[2], fates[3]) == ("ignored", "unreadable", "stops a worker")


def config(offset: int, **properties: str) -> Entry:
    """Config record of connector `c`; offsets are one second apart."""
    value = json.dumps({"properties": {"name": "c", **properties}}).encode()
    return Entry("connect-configs", 0, offset, offset * 1000, b"connector-c", value)


def test_secrets_are_hidden_everywhere(tmp_path: Path) -> None:
    """History, connector view and comparisons hide secrets; a changed secret still shows."""
    log = embedded(
        tmp_path / "log.db",
        [
            config(0, **{"db.password": "first-secret", "api.key": "${env:KEY}"}),
            config(1, **{"db.password": "other-secret", "url": "jdbc://me:third-secret@host/x"}),
            Entry("connect-configs", 0, 2, 5, b"target-state-c", b'{"state.v2":"STOPPED"}'),
        ],
    )
    history = call("inspect", log, "--history", "c").out
    assert "[hidden] → [hidden] (another value)" in history
    assert "${env:KEY}" in history
    depth = call("inspect", log, "--connector", "c").out
    assert "jdbc://me:[hidden]@host/x" in depth
    compared = call("inspect", log, "--compare", "3.4,3.9").out
    machines = [
        call("inspect", log, *view, "-o", "json").out
        for view in (["--history", "c"], ["--connector", "c"], ["--compare", "3.4,3.9"])
    ]
    assert not [text for text in (history, depth, compared, *machines) if "-secret" in text]


def test_rest_answers_as_connect_does(tmp_path: Path) -> None:
    """`--rest -o json` shows configs with secrets, as a worker does."""
    log = embedded(tmp_path / "log.db", [config(0, password="s3cret", rows="1")])
    document = call("inspect", log, "--rest", "-o", "json").json
    assert document["/connectors/c/config"]["answer"]["password"] == "s3cret"
    shown = call("inspect", log, "--rest").json["/connectors/c/config"]["answer"]
    assert (shown["password"], shown["rows"]) == ("[hidden]", "1")


def test_a_long_run_of_offsets_is_shortened(tmp_path: Path) -> None:
    """The table has the first offsets and counts the others; JSON has each."""
    offsets = [
        Entry("connect-offsets", 0, n, n, b'["c",{"f":1}]', b'{"at":%d}' % n) for n in range(30)
    ]
    log = embedded(tmp_path / "log.db", [config(0), *offsets, config(1, tasks="1")])
    result = call("inspect", log, "--history", "c")
    assert "… 20 more up to here" in result.out
    assert result.out.count("source offset {") == 10
    events = call("inspect", log, "--history", "c", "-o", "json").json["events"]
    assert sum(event["what"].startswith("source offset") for event in events) == 30


def test_unknown_and_impossible_times_are_shown(tmp_path: Path) -> None:
    """A record may have no time, or one beyond the calendar."""
    log = embedded(
        tmp_path / "log.db",
        [
            Entry("connect-configs", 0, 0, -1, b"connector-c", b'{"properties":{}}'),
            Entry("connect-configs", 0, 1, 2**62, b"connector-c", None),
        ],
    )
    out = call("inspect", log, "--history", "c").out
    assert out.splitlines()[2].split()[:2] == ["config@0", "unknown"]
    assert f"{2**62} ms" in out
