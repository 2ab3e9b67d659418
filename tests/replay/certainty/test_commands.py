"""Commands and the Python API name offsets that are missing in an archive."""

import json
from pathlib import Path

import pyarrow.dataset as ds
import pytest

import replay
from controlplane.core.entry import Entry, batch_of
from controlplane.core.state import Topics
from replay.archive.appender import Appender
from replay.archive.stores.store import FolderStore
from replay.doubts import PROMPT_MS
from tests.core.logs import START_MS, Pair, config, connector
from tests.replay.archive.archives import NAME, SMALL, capture, log_of
from tests.replay.certainty.lossy_archive import commit_at
from tests.replay.cli.replay_calls import call
from tests.replay.report.page_reader import read

FIRST: list[Pair] = [connector("a"), connector("b"), connector("c")]
LATER: list[Pair] = [connector("a", version="2"), connector("d"), connector("a", version="3")]

TOPIC = "connect-configs"
SPAN = "connect-configs partition 0: the state between offset 0 and offset 5 is unknown: "
WHY = "2 offsets are not archived (compacted, or markers of transactions)"
CERTAIN = f'{NAME}: certain from {{"connect-configs":[6]}}'


@pytest.fixture
def compacted(tmp_path: Path) -> Path:
    """Archive whose only look (capture) lacks two compacted configs, the holes: b at 1, a at 3."""
    log = [entry for entry in config(*FIRST, *LATER) if entry.offset not in {1, 3}]
    return archived(tmp_path, log)


@pytest.fixture
def compacted_later(tmp_path: Path) -> Path:
    """Archive whose second look lacks a compacted config: a at 3."""
    archived(tmp_path, config(*FIRST))
    return archived(tmp_path, [e for e in config(*FIRST, *LATER) if e.offset != 3])


def archived(folder: Path, log: list[Entry]) -> Path:
    """Capture a log into an archive and return its folder."""
    capture(folder / "archive", log_of(log), sizes=SMALL)
    return folder / "archive"


# --- states -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "is_reported"),
    [
        ('{"connect-configs":[1]}', False),
        ('{"connect-configs":[2]}', True),
        ('{"connect-configs":[5]}', True),
        ('{"connect-configs":[6]}', False),
        ("config@0", False),
        ("config@4", True),
        ("config@5", False),
        (str(START_MS + 4000), True),
        (str(START_MS + 5000), False),
    ],
)
def test_a_state_between_a_hole_and_the_end_of_its_look_is_unknown(
    compacted: Path, moment: str, *, is_reported: bool
) -> None:
    """The state is certain before the first hole, and again from the end of the look on."""
    result = call("state", compacted, "--as-of", moment, "-o", "json")
    assert result.code == 0
    assert (f"{NAME}: {SPAN}{WHY}" in result.err.splitlines()) is is_reported
    assert (CERTAIN in result.err.splitlines()) is is_reported
    (answer,) = result.json
    assert answer["certain_from"] == ({"connect-configs": [6]} if is_reported else answer["as_of"])
    assert call("state", compacted, "--as-of", json.dumps(answer["certain_from"])).err == ""
    doubts = [(doubt["kind"], doubt["after"], doubt["until"]) for doubt in result.json[0]["doubts"]]
    assert doubts == ([("state unknown", 0, 6)] if is_reported else [])


def test_a_folder_of_states_has_the_same_doubts(compacted: Path, tmp_path: Path) -> None:
    """`state --folder` prints doubts as `state` does, and writes them to the table of summaries."""
    moment = ("--as-of", "config@4")
    folder = tmp_path / "states"
    written = call("state", compacted, *moment, "-o", "parquet", "--folder", folder)
    assert written.err == call("state", compacted, *moment).err
    (row, *_) = ds.dataset(folder / "summaries").to_table().to_pylist()
    assert f"{NAME}: {row['doubts'][0]}" in written.err
    assert f"{NAME}: certain from {row['certain_from']}" == CERTAIN


def test_a_later_hole_leaves_facts_in_doubt_that_need_earlier_records(
    compacted_later: Path,
) -> None:
    """The last record of each key is certain; facts that need earlier records are not."""
    result = call("state", compacted_later, "-o", "json")
    (doubt,) = result.json[0]["doubts"]
    assert (doubt["kind"], doubt["after"], doubt["missing"]) == ("earlier records unknown", 2, 1)
    assert result.err == ""
    shown = call("state", compacted_later).out
    assert f"{NAME}: earlier records are missing in connect-configs" in shown


def test_an_unfinished_look_leaves_the_state_unknown(tmp_path: Path) -> None:
    """The capture crashed within its look: unread records may have replaced a missing one."""
    log = [entry for entry in config(*FIRST, *LATER) if entry.offset != 1]
    folder = archived(tmp_path, log)
    manifest = folder / f"cluster={NAME}" / "_manifest" / "0000000001.json"
    text = manifest.read_text()
    assert text.count('"partial": false') == 1
    manifest.write_text(text.replace('"partial": false', '"partial": true'))
    result = call("state", folder, "-o", "json")
    (doubt,) = result.json[0]["doubts"]
    assert (doubt["kind"], doubt["until"]) == ("state unknown", None)
    assert result.json[0]["certain_from"] is None
    never = f"{NAME}: the state stays uncertain up to the end of the archive: offsets were removed "
    reasons = "between two captures, or the last capture did not reach the end of the log"
    assert never + reasons in result.err.splitlines()


def test_a_difference_has_a_certain_moment_for_each_side(compacted: Path) -> None:
    """The first side is certain as it is; the second one only later."""
    result = call("diff", compacted, "--from", "config@0", "--to", "config@4", "-o", "json")
    (document,) = result.json
    assert document["certain_from"] == [{"connect-configs": [1]}, {"connect-configs": [6]}]
    assert result.err.splitlines() == [f"{NAME}: {SPAN}{WHY}", CERTAIN]


# --- the past -----------------------------------------------------------------------------------


def test_a_timeline_says_first_seen_and_unknown_between(compacted: Path) -> None:
    """Only a's first config lies before the holes; c and d may be older than their first record."""
    result = call("timeline", compacted, "-o", "json")
    rows = [row for row in result.json[0]["intervals"] if row["aspect"] == "config"]
    certainty_by_record = {
        (row["connector"], row["since"]["offset"]): (row["first_seen"], row["unknown"])
        for row in rows
    }
    assert certainty_by_record == {
        ("a", 0): (False, {"after": 0, "until": 4, "missing": 2}),
        ("a", 5): (True, None),
        ("c", 2): (True, {"after": 2, "until": 4, "missing": 1}),
        ("d", 4): (True, None),
    }
    shown = call("timeline", compacted, "--connector", "c").out
    assert "first seen, unknown between config@2 and config@4" in " ".join(shown.split())
    assert f"{NAME}: {SPAN}{WHY}" in result.err
    assert CERTAIN in result.err.splitlines()
    assert result.json[0]["certain_from"] == {"connect-configs": [6]}


def test_a_history_names_the_certain_moment(compacted: Path) -> None:
    """`history` names it as `timeline` does."""
    result = call("history", compacted, "--connector", "a", "-o", "json")
    assert CERTAIN in result.err.splitlines()
    assert result.json[0]["certain_from"] == {"connect-configs": [6]}


def test_a_timeline_without_holes_has_no_certainty_column(tmp_path: Path) -> None:
    """The timeline of a complete archive has no column about certainty."""
    result = call("timeline", archived(tmp_path, config(*FIRST)))
    assert "CERTAINTY" not in result.out
    assert result.err == ""


def test_digests_compute_no_doubts(compacted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A digest describes a state and not the past, so the command looks for no missing offsets."""
    printed = call("timeline", compacted, "--digests", "-o", "json")

    def refused(*_: object) -> None:
        raise AssertionError("digests have no doubts")

    monkeypatch.setattr("replay.timeline.timeline_rows.IntervalDoubts", refused)
    monkeypatch.setattr("replay.cli.commands.timeline.IntervalDoubts", refused)
    assert call("timeline", compacted, "--digests", "-o", "json") == printed


def test_an_audit_asserts_no_creation_behind_a_hole(compacted: Path) -> None:
    """Connectors behind the first hole are reported as first seen; the one before it as created."""
    result = call("audit", compacted, "-o", "json")
    document = result.json
    begun = {
        finding["connector"]: finding["kind"]
        for finding in document["findings"]
        if finding["kind"] != "config-changed"
    }
    first = "connector-first-seen"
    assert begun == {"a": "connector-created", "c": first, "d": first}
    assert [doubt["after"] for doubt in document["doubts"][NAME]] == [0]
    assert document["certain_from"] == {NAME: {"connect-configs": [6]}}
    assert CERTAIN in result.err.splitlines()


def test_an_audit_says_that_changes_may_be_missing(compacted: Path) -> None:
    """A change behind a hole may be the sum of several; one before it has no remark."""
    document = call("audit", compacted, "-o", "json", "--kind", "config-changed").json
    (change,) = (finding["sentence"] for finding in document["findings"])
    assert change.endswith("; earlier changes may be missing, because not all offsets are archived")
    whole = archived(compacted.parent / "whole", config(*FIRST, *LATER))
    changes = call("audit", whole, "-o", "json", "--kind", "config-changed").json["findings"]
    assert len(changes) == 2
    assert not any("may be missing" in finding["sentence"] for finding in changes)


def test_a_connector_of_a_later_look_was_created(compacted_later: Path) -> None:
    """Connector e is new: the previous look ended without it, and its own look lacks no record."""
    archived(compacted_later.parent, config(*FIRST, *LATER, connector("e")))
    document = call("audit", compacted_later, "-o", "json").json
    kinds = {
        finding["connector"]: finding["kind"]
        for finding in document["findings"]
        if "crea" in finding["kind"]
    }
    assert kinds == dict.fromkeys(("a", "b", "c", "e"), "connector-created")


def test_a_report_shows_unknown_spans(compacted: Path, tmp_path: Path) -> None:
    """The report names the unknown span, and marks connectors that begin in it as `first seen`."""
    file = tmp_path / "page.html"
    call("report", compacted, "--file", file, "--towards", "4.3")
    page = read([file.read_text(encoding="utf-8")])
    (missing,) = page.by_id("c0-read").all("li")
    assert missing.text.startswith(SPAN)
    counted = [
        row.text for row in page.all("li") if str(row.attributes.get("id")).endswith("-seen")
    ]
    assert counted
    assert all(text.startswith("1first seen") for text in counted), counted
    assert CERTAIN.removeprefix(f"{NAME}: ") in page.by_id("c0-read").text


# --- the archive --------------------------------------------------------------------------------


def test_verify_lists_unknown_spans_and_holes(compacted: Path) -> None:
    """`verify` lists the unknown span and the missing offsets; compaction is no error."""
    result = call("verify", compacted, "-o", "json")
    (document,) = result.json
    (part,) = document["partitions"]
    assert result.code == 0
    assert (part["first_offset"], part["last_offset"], part["records"]) == (0, 5, 4)
    assert (part["first_ms"], part["latest_ms"]) == (START_MS, START_MS + 5000)
    assert part["ranges"] == [{"start": 1, "end": 2}, {"start": 3, "end": 4}]
    assert (part["missing"], part["holes"], part["lost"], part["looks"]) == (2, 2, 0, 1)
    assert document["certain_from"] == {"connect-configs": [6]}
    assert document["doubts"] == []
    shown = call("verify", compacted, "--per-partition").out
    assert f"{NAME}: unknown: {SPAN}{WHY}" in shown
    assert CERTAIN in shown
    assert "config@5" in shown


def test_verify_names_doubts_about_deletions(tmp_path: Path) -> None:
    """A look that comes late and lacks an offset may have missed a tombstone of connector a."""
    store = FolderStore(str(tmp_path))
    for look, entries in enumerate((config(*FIRST), config(*FIRST, *LATER)[4:])):
        appender = Appender(store, NAME, Topics())
        appender.add(batch_of(entries))
        appender.reached(TOPIC, 0, 0, entries[-1].offset + 1)
        commit_at(store, appender, look * PROMPT_MS)
    result = call("verify", tmp_path, "-o", "json")
    (document,) = result.json
    kinds = ["deletions unknown", "earlier records unknown"]
    assert [doubt["kind"] for doubt in document["doubts"]] == kinds
    assert document["doubts"] == call("state", tmp_path, "-o", "json").json[0]["doubts"]
    assert document["certain_from"] is None
    shown = call("verify", tmp_path).out
    assert f"{NAME}: unknown: {document['doubts'][0]['sentence']}" in shown
    assert f"{NAME}: the state stays uncertain up to the end of the archive: " in shown


def test_the_api_has_the_same(compacted: Path) -> None:
    """The API's `partitions`, `timeline` and `summaries` report missing offsets, too."""
    archive = replay.open(str(compacted))
    (part,) = archive.partitions().to_pylist()
    assert (part["missing"], part["known_from"]) == (2, 6)
    assert part["unknown"] == [{"after": 0, "until": 6, "missing": 2}]
    assert {row["first_seen"] for row in archive.timeline().to_pylist()} == {True, False}
    (summary,) = archive.summaries(as_of="config@4").to_pylist()
    assert summary["doubts"] == [SPAN + WHY]
    assert summary["certain_from"] == '{"connect-configs":[6]}'
