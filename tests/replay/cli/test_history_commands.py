"""`replay timeline`, `diff` and `history` on the command line."""

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import replay
from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import UnknownRelease
from replay.errors import NoArchive
from tests.conftest import PROVE, sampled
from tests.recorded_requests import HISTORIES
from tests.replay.archive.archives import archive as archived
from tests.replay.cli.replay_calls import call, refusal

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of two recorded clusters."""
    folder = tmp_path_factory.mktemp("archive")
    logs = (f"{name}={HISTORIES / log}.log.jsonl" for name, log in CLUSTERS.items())
    assert call("capture", *logs, folder).code == 0
    return folder


CLUSTERS = {"life": "life-3.9", "roll": "roll-3.4-3.9-3.4"}


def test_a_timeline_groups_releases_with_equal_rows(archive: Path) -> None:
    """A row has a value, the releases that read it, and the records that began and ended it."""
    words = ("--cluster", "roll", "--connector", "pages", "--profile", "3.4", "--profile", "3.9")
    (timeline,) = call("timeline", archive, *words, "-o", "json").json
    assert (timeline["cluster"], timeline["releases"]) == ("roll", ["3.4.1", "3.9.2"])
    states = [
        (
            interval["value"],
            interval["releases"],
            interval["since"]["offset"],
            (interval["until"] or {}).get("offset"),
        )
        for interval in timeline["intervals"]
        if interval["aspect"] == "target state"
    ]
    assert sorted(states, key=lambda row: (row[2], row[1])) == [
        ("STARTED", ["3.4.1", "3.9.2"], 1, 11),
        ("PAUSED", ["3.4.1"], 11, 16),
        ("STOPPED", ["3.9.2"], 11, 15),
        ("PAUSED", ["3.9.2"], 15, 16),
        ("STARTED", ["3.4.1", "3.9.2"], 16, None),
    ]


def test_a_timeline_shows_changed_settings(archive: Path) -> None:
    """A changed config is shown as its changed settings."""
    result = call("timeline", archive, "--cluster", "roll", "--connector", "pages")
    assert result.code == 0
    assert "rows: 4 → 6" in result.out
    assert "roll: " in result.out.splitlines()[-1]
    assert "source offset" not in result.out
    with_offsets = call("timeline", archive, "--cluster", "roll", "--offsets")
    assert 'source offset {"page":0}' in with_offsets.out


def test_a_timeline_in_parquet_has_the_rows_of_json(archive: Path, tmp_path: Path) -> None:
    """Parquet has the rows of JSON; bad paths and unknown connectors are refused without a file."""
    file = tmp_path / "timeline.parquet"
    assert call("timeline", archive, "-o", "parquet", "--to", file).code == 0
    rows = pq.read_table(file).to_pylist()
    document = call("timeline", archive, "-o", "json").json
    intervals = [interval for timeline in document for interval in timeline["intervals"]]
    for row, interval in zip(rows, intervals, strict=True):
        row["value"] = json.loads(row["value"])
        assert {key: row[key] for key in interval} == interval
    for place in (tmp_path / "x" / "y", file / "y"):
        sentence = refusal(call("timeline", archive, "-o", "parquet", "--to", place))
        assert "cannot be written" in sentence
    words = ("-o", "parquet", "--to", tmp_path / "none.parquet", "--connector", "nobody")
    refusal(call("timeline", archive, *words))
    assert [path.name for path in tmp_path.iterdir()] == ["timeline.parquet"]


def test_every_config_record_has_the_digests_of_all_releases(archive: Path) -> None:
    """Each config record has a row per digest; the row lists the releases with this digest."""
    (timeline,) = call(
        "timeline", archive, "--cluster", "roll", "--digests", "--profile", "all", "-o", "json"
    ).json
    offsets = [digest["after"]["offset"] for digest in timeline["digests"]]
    assert sorted(set(offsets)) == list(range(19))
    assert all(len(digest["digest"]) == 64 for digest in timeline["digests"])
    for offset in set(offsets):
        behind = [digest for digest in timeline["digests"] if digest["after"]["offset"] == offset]
        assert sorted(chain(*(digest["releases"] for digest in behind))) == sorted(
            timeline["releases"]
        )
        assert len({digest["digest"] for digest in behind}) == len(behind)
    assert call("timeline", archive, "--digests", "--offsets").code == 2
    result = call("timeline", archive, "--cluster", "roll", "--digests")
    assert result.out.count("config@") == 19


def test_digests_in_parquet_have_the_rows_of_json(archive: Path, tmp_path: Path) -> None:
    """The Parquet file has the same rows as JSON."""
    words = ("timeline", archive, "--cluster", "roll", "--digests", "--profile", "all")
    file = tmp_path / "digests.parquet"
    assert call(*words, "-o", "parquet", "--to", file).code == 0
    (timeline,) = call(*words, "-o", "json").json
    assert pq.read_table(file).to_pylist() == timeline["digests"]


def test_diff_shows_differences_between_moments(archive: Path) -> None:
    """`diff` prints the differences. Exit code 1: there are some. 0: there are none."""
    result = call("diff", archive, "--cluster", "roll", "--from", "config@9", "--to", "config@11")
    assert result.code == 1
    assert "STARTED → STOPPED" in result.out
    words = ("--cluster", "roll", "--from", "config@9", "--to", "config@9")
    same = call("diff", archive, *words)
    assert (same.code, same.out) == (0, "roll: no differences\n")


def test_diff_compares_two_releases_at_one_moment(archive: Path) -> None:
    """Two releases are compared at the moment of `--from`."""
    words = ("--cluster", "roll", "--profile", "3.4", "--to-profile", "3.9", "-o", "json")
    result = call("diff", archive, "--from", "config@11", *words)
    (diff,) = result.json
    assert (result.code, diff["from"]["release"], diff["to"]["release"]) == (1, "3.4.1", "3.9.2")
    assert diff["from"]["as_of"] == diff["to"]["as_of"]
    (target,) = [change for change in diff["changes"] if change["aspect"] == "target state"]
    assert (target["before"], target["after"], target["cause"]["offset"]) == (
        "PAUSED",
        "STOPPED",
        11,
    )


def test_diff_compares_a_connector_in_two_clusters(archive: Path) -> None:
    """One connector is compared in both clusters."""
    words = ("--cluster", "roll", "--to-cluster", "life", "--connector", "paused", "-o", "json")
    result = call("diff", archive, *words)
    (diff,) = result.json
    assert result.code == 1
    assert (diff["from"]["cluster"], diff["to"]["cluster"]) == ("roll", "life")
    assert {change["connector"] for change in diff["changes"]} == {"paused"}


def test_as_of_ends_a_diff(archive: Path) -> None:
    """`--as-of` is the second moment of a diff.

    Without `--from`, two releases or two clusters are compared at this one moment.
    """
    words = ("diff", archive, "--cluster", "roll", "-o", "json")
    assert call(*words, "--from", "config@9", "--as-of", "config@11") == call(
        *words, "--from", "config@9", "--to", "config@11"
    )
    for other in (("--profile", "3.4", "--to-profile", "3.9"), ("--to-cluster", "life")):
        both = call(*words, *other, "--as-of", "config@11")
        assert both == call(*words, *other, "--from", "config@11", "--to", "config@11")
        (apart,) = call(*words, *other, "--from", "config@9", "--as-of", "config@11").json
        assert apart["from"]["as_of"]["connect-configs"] == [10]
        assert apart["to"]["as_of"]["connect-configs"] == [12]


def test_history_shows_the_meaning_of_each_record(archive: Path) -> None:
    """Each record has its meaning for the reading release: applied, pending, or no change."""
    words = ("--cluster", "roll", "--connector", "pages", "--profile", "3.4", "-o", "json")
    (history,) = call("history", archive, *words).json
    meanings = {
        (event["record"]["topic"], event["record"]["partition"], event["record"]["offset"]): event
        for event in history["events"]
    }
    assert meanings["connect-configs", 0, 2]["meaning"] == "pending"
    assert meanings["connect-configs", 0, 4]["meaning"] == "applied"
    assert meanings["connect-status", 0, 1]["meaning"] == "no change"
    result = call("history", archive, "--cluster", "roll", "--connector", "pages")
    assert result.code == 0
    assert "waits for the commit" in result.out


WITH_JOBS = (
    ("timeline", "--offsets", "--profile", "all"),
    ("timeline", "--digests", "--profile", "all"),
    ("history", "--connector", "pages", "--profile", "3.4", "--profile", "3.9"),
)


@pytest.mark.parametrize("words", sampled(WITH_JOBS, WITH_JOBS[0]))
def test_jobs_do_not_change_the_output(archive: Path, words: tuple[str, ...]) -> None:
    """The output order does not depend on how processes share topics and releases."""
    command, *rest = words
    alone = call(command, archive, *rest, "-o", "json")
    for jobs in (2, 5) if PROVE else (3,):
        assert call(command, archive, *rest, "-o", "json", "--jobs", jobs) == alone


@pytest.mark.parametrize(
    ("words", "rows", "tasks"),
    [
        (("timeline",), (298, 93), 2),
        (("timeline", "--digests"), (100, 19), 1),
        (("timeline", "--offsets", "--jobs", "2"), (354, 108), 3),
        (("history", "--connector", "pages", "--engine", "spark"), (354, 108), 1),
    ],
)
def test_explain_shows_the_reading_plan(
    archive: Path, words: tuple[str, ...], rows: tuple[int, int], tasks: int
) -> None:
    """The plan has the numbers of rows and tasks, and the backend: `spark` or `local`."""
    command, *rest = words
    document = call(command, archive, *rest, "--explain", "-o", "json").json
    assert [(plan["rows"], plan["tasks"], plan["shuffles"]) for plan in document] == [
        (count, tasks, 0) for count in rows
    ]
    assert {plan["backend"] for plan in document} == {"spark" if "spark" in words else "local"}
    printed = call(command, archive, *rest, "--explain").out
    assert ("in 2 processes at most: no JVM is started" in printed) == ("--jobs" in words)


def test_explain_plans_both_sides_of_a_diff(archive: Path) -> None:
    """`--explain` prints a plan for each side of a diff, because each side is a state."""
    words = ("diff", archive, "--cluster", "life", "--from", "config@3", "--explain")
    before, after = call(*words, "-o", "json").json
    assert before["rows"] < after["rows"] <= 354
    assert before["ends"]["connect-configs"] == [4]


def test_diff_and_history_in_parquet_have_the_rows_of_json(archive: Path, tmp_path: Path) -> None:
    """Parquet has the rows of JSON; values are JSON text."""
    words = ("diff", archive, "--cluster", "roll", "--from", "config@9", "--to", "config@11")
    file = tmp_path / "rows.parquet"
    assert call(*words, "-o", "parquet", "--file", file).code == 1
    (diff,) = call(*words, "-o", "json").json
    assert compared(file) == [
        {"from": diff["from"], "to": diff["to"]} | change for change in diff["changes"]
    ]
    words = ("history", archive, "--connector", "pages", "--profile", "3.4", "--profile", "3.9")
    assert call(*words, "-o", "parquet", "--to", file).code == 0
    assert compared(file) == [
        {name: history[name] for name in ("cluster", "release", "connector")} | event
        for history in call(*words, "-o", "json").json
        for event in history["events"]
    ]


def compared(file: Path) -> list[dict[str, Any]]:
    """Rows of a Parquet file, as JSON has them."""
    rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    assert rows
    for row in rows:
        row |= {
            name: None if row[name] is None else json.loads(row[name])
            for name in ("before", "after")
        }
        for side in (row[name] for name in ("from", "to") if name in row):
            side["as_of"] = json.loads(side["as_of"])
    return rows


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("timeline", "--as-of", "2001-01-01"), "life: '2001-01-01' is before the first record"),
        (("timeline", "--profile", "12.x"), "unknown release '12.x'"),
        (("timeline", "--connector", "nobody"), "the answer has no connector 'nobody'"),
        (("timeline", "--cluster", "none"), "has no archive of a cluster none"),
        (("timeline", "--exactly-once", "--profile", "2.3"), "has no exactly-once support"),
        (("diff", "--from", "2001-01-01"), "life: '2001-01-01' is before the first record"),
        (("diff", "--from", "config@3", "--to-profile", "x"), "unknown release 'x'"),
        (("diff", "--from", "config@3", "--connector", "nobody"), "the answer has no connector"),
        (("history", "--connector", "nobody"), "the answer has no connector 'nobody'"),
        (("history", "--connector", "pages", "--as-of", "config@999"), "has no record at"),
    ],
)
def test_unanswerable_questions_are_refused(
    archive: Path, words: tuple[str, ...], sentence: str
) -> None:
    """The command prints one sentence, or one for each of both clusters; the exit code is 2."""
    command, *rest = words
    result = call(command, archive, *rest)
    first, *others = result.err.splitlines()
    assert (result.code, sentence in first, len(others) < 2) == (2, True, True)
    assert all(line.startswith("Error: ") for line in (first, *others))


@pytest.mark.parametrize(
    ("option", "refused", "sentence"),
    [
        ("--to-release", "unknown release ''", "unknown release ''"),
        ("--to-cluster", "'--to-cluster': it is empty", "'' cannot be the name of"),
    ],
)
def test_an_empty_second_side_is_refused(
    archive: Path, option: str, refused: str, sentence: str
) -> None:
    """A script with an empty variable does not compare a cluster with itself."""
    words = ("diff", archive, "--cluster", "roll", "--from", "config@9", "--to", "config@9")
    result = call(*words, option, "")
    assert (result.code, refused in result.err) == (2, True)
    in_python: dict[str, Any] = {option.removeprefix("--").replace("-", "_"): ""}
    with pytest.raises((UnknownRelease, NoArchive), match=sentence):
        replay.open(archive, unreadable="raise").diff("config@9", "config@9", **in_python)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--from", "end"),
        ("--to-cluster", "life"),
        ("--cluster", "roll", "--cluster", "life"),
    ],
)
def test_a_diff_needs_two_sides(archive: Path, words: tuple[str, ...]) -> None:
    """A diff without a second side is a usage error."""
    result = call("diff", archive, *words)
    assert result.code == 2
    assert "Usage: " in result.err


def test_a_diff_in_python_needs_two_sides(archive: Path, tmp_path: Path) -> None:
    """Two sides that are both the end would never differ."""
    opened = replay.open(archive)
    with pytest.raises(ValueError, match=r"^name a second side: `since`, `to_release` or"):
        opened.diff(release="3.9")
    with pytest.raises(ValueError, match=r"^name a second side: `since`, `to_release` or"):
        opened.write_diff(tmp_path / "differences")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "words",
    [
        ("state",),
        ("timeline",),
        ("history", "--connector", "pages"),
        ("diff", "--from", "config@3"),
    ],
)
def test_the_end_is_a_moment(archive: Path, words: tuple[str, ...]) -> None:
    """`--as-of end` is the default, as in Python."""
    command, *options = words
    at_end = call(command, archive, *options, "--as-of", "end", "-o", "json")
    assert at_end == call(command, archive, *options, "-o", "json")
    assert at_end.code in (0, 1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--profile", "all", "--to-profile", "3.4"), "only two releases can be compared: "),
        (("--profile", "3.4", "--to-profile", "all"), "only two releases can be compared: "),
        (("--from", "config@3", "--profile", "all"), "only two releases can be compared: "),
        (("--to", "config@3", "--as-of", "config@3"), "--as-of and --to mean the same here"),
    ],
)
def test_ambiguous_options_of_diff_are_refused(
    archive: Path, words: tuple[str, ...], sentence: str
) -> None:
    """Ambiguous options of `diff` are refused with exit code 2."""
    result = call("diff", archive, *words)
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1].startswith(f"Error: {sentence}")


def test_secrets_are_shown_nowhere(tmp_path: Path) -> None:
    """`timeline`, `diff` and `history` hide secrets, in each output format."""
    values = [
        (b"connector-a", b'{"properties":{"name":"a","password":"hunter2"}}'),
        (b"task-a-0", b'{"properties":{"password":"hunter3"}}'),
        (b"commit-a", b'{"tasks":1}'),
        (b"connector-a", b'{"properties":{"name":"a","password":"hunter4"}}'),
    ]
    log = [Entry("connect-configs", 0, at, 9, *pair) for at, pair in enumerate(values)]
    archived(tmp_path / "archive", log)
    for words in (
        ("timeline",),
        ("timeline", "-o", "json"),
        ("diff", "--from", "config@0"),
        ("diff", "--from", "config@0", "-o", "json"),
        ("history", "--connector", "a"),
        ("history", "--connector", "a", "-o", "json"),
    ):
        command, *rest = words
        result = call(command, tmp_path / "archive", *rest)
        assert "[hidden]" in result.out, words
        assert "hunter" not in result.out + result.err, words
    file = tmp_path / "t.parquet"
    assert call("timeline", tmp_path / "archive", "-o", "parquet", "--to", file).code == 0
    assert b"hunter" not in repr(pq.read_table(file).to_pylist()).encode()
