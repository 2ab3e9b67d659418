"""`controlplane inspect --hazards`: dangers that no view shows."""

import json
from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import NEWEST, RELEASES
from controlplane.terminal.hazard_hits import spans
from tests.cli.command_calls import call, embedded, refusal


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    """Log with a task config without `properties`, and a negative task count."""
    values = [
        (b"connector-c", b'{"properties":{"name":"c"}}'),
        (b"task-c-0", b"{}"),
        (b"connector-d", b'{"properties":{"name":"d"}}'),
        (b"commit-d", b'{"tasks":-1}'),
    ]
    entries = [Entry("connect-configs", 0, n, n, *pair) for n, pair in enumerate(values)]
    return embedded(tmp_path / "log.db", entries)


def test_hazards_fail_a_pipeline_that_asks_for_it(poisoned: Path) -> None:
    """With `--fail`, hazards give exit code 1; otherwise the code is 0."""
    arguments = ("inspect", poisoned, "--hazards", "--release", "2.8")
    assert [call(*arguments).code, call(*arguments, "--fail").code] == [0, 1]
    assert call(*arguments, "--fail", "-o", "json").code == 1
    assert call(*arguments, "--fail", "--as-of", "config@0").code == 0
    assert "--fail needs --hazards" in call("inspect", poisoned, "--fail").err


def test_a_record_that_stops_a_worker_is_shown(poisoned: Path) -> None:
    """A record that stops workers up to 3.2: danger, position, key and effect are shown."""
    result = call("inspect", poisoned, "--hazards", "--profile", "2.8", columns=200)
    assert result.code == 0
    (row,) = [line for line in result.out.splitlines() if line.startswith("stops a worker")]
    assert row.split()[3:6] == ["config@1", "task-c-0", "c"]
    assert "NullPointerException" in row
    assert f"a worker of 2.8.2 would meet 2 hazards in {poisoned}" in result.out
    later = call("inspect", poisoned, "--hazards", "--profile", "3.9").out
    assert "stops a worker" not in later


def test_without_a_release_all_are_compared(poisoned: Path) -> None:
    """Each hazard comes once, with the releases that have it."""
    result = call("inspect", poisoned, "--hazards", columns=250)
    rows = [line for line in result.out.splitlines() if line.startswith("stops a worker")]
    assert "  0.9.0.0 to " in rows[0]
    assert " to 3.2.3 " in "".join(rows)
    assert f"workers of all releases, 0.9.0.0 to {NEWEST}, would meet " in result.out
    document = call("inspect", poisoned, "--hazards", "-o", "json").json
    assert document["profile"] is None
    for hazard in document["hazards"]:
        (span,) = hazard["releases"]
        for release in (span.split()[0], span.split()[-1]):
            options = ["--hazards", "--profile", release, "-o", "json"]
            hazards = call("inspect", poisoned, *options).json["hazards"]
            assert {**hazard, "releases": None} in [
                {**other, "releases": None} for other in hazards
            ]


def test_successive_releases_form_one_span() -> None:
    """Successive releases form one span; gaps separate spans."""
    assert list(spans(RELEASES)) == [f"{RELEASES[0]} to {NEWEST}"]
    releases = [*RELEASES[:2], RELEASES[3], *RELEASES[5:7]]
    first, second, third = spans(releases)
    assert first == f"{RELEASES[0]} to {RELEASES[1]}"
    assert second == RELEASES[3]
    assert third == f"{RELEASES[5]} to {RELEASES[6]}"
    assert list(spans([])) == []


def test_one_connector_has_its_own_hazards_and_those_of_all(poisoned: Path) -> None:
    """One connector is listed with its own hazards and with those of every connector."""
    options = ["--hazards", "--profile", "2.8", "-o", "json"]
    hazards = call("inspect", poisoned, *options).json["hazards"]
    assert {hazard["connector"] for hazard in hazards} == {None, "d"}
    mine = call("inspect", poisoned, *options, "--connector", "c").json["hazards"]
    assert {hazard["connector"] for hazard in mine} == {None}
    assert mine[0]["record"]["key"] == "task-c-0"
    assert mine[0]["record"]["value"] == "{}"


@pytest.mark.parametrize("options", [(), ("--release", "2.8"), ("--fail", "-o", "json")])
def test_an_unknown_connector_is_refused(poisoned: Path, options: tuple[str, ...]) -> None:
    """A misspelled name must not look like a connector without hazards."""
    result = call("inspect", poisoned, "--hazards", "--connector", "nosuch", *options)
    assert refusal(result) == (
        "there is no connector 'nosuch' at this point of the log (connectors: c, d): check the "
        "name and --as-of"
    )


def test_a_log_without_hazards_gives_one_line(histories: Path) -> None:
    """A log without hazards gives one line."""
    result = call("inspect", histories / "life-2.8.log.jsonl", "--hazards", "--profile", "2.8")
    assert result.out.splitlines()[0].startswith("a worker of 2.8.2 would meet no hazards in ")


def test_a_task_count_that_no_worker_can_list_is_remarked(poisoned: Path) -> None:
    """Overview and connector view still work where the worker would answer 500."""
    options = ["--profile", "3.9", "-o", "json"]
    rows = call("inspect", poisoned, *options).json["connectors"]
    (row,) = [connector for connector in rows if connector["name"] == "d"]
    assert (row["tasks"], row["flags"][0]) == (
        None,
        "reading its tasks fails: Illegal Capacity: -1",
    )
    depth = call("inspect", poisoned, *options, "--connector", "d")
    assert (depth.code, depth.json["tasks"]) == (0, None)
    rest = call("inspect", poisoned, "--rest", "--profile", "3.9").json
    assert rest["/connectors/d"]["status"] == 500


def test_exactly_once_concerns_only_releases_with_the_support(tmp_path: Path) -> None:
    """Aborted records are hidden only from releases with exactly-once support (KIP-618)."""
    config = b'{"properties":{"name":"c"}}'
    log = embedded(
        tmp_path / "log.db",
        [
            Entry("connect-configs", 0, 0, 0, b"connector-c", config),
            Entry("connect-configs", 0, 1, 1, b"connector-d", config, (), True),
        ],
    )
    result = call("inspect", log, "--hazards", "--exactly-once", columns=250)
    assert result.out.splitlines()[-2].startswith(
        f"workers of all releases with exactly-once support, 3.3.0 to {NEWEST}, would meet "
    )
    alone = call("inspect", log, "--hazards", "--profile", "2.8", "-o", "json").json["hazards"]
    (reason,) = [hazard["reason"] for hazard in alone]
    assert "1 on members of 3.3.0 to kip with exactly-once support:" in reason


def test_problems_of_the_log_are_printed_with_each_exit_code(tmp_path: Path) -> None:
    """Standard error has the problems of a log, also if a hazard or a refusal ends the command."""
    dump = tmp_path / "dump.jsonl"
    values = [("connector-c", '{"properties":{}}'), ("commit-c", '{"tasks":"\ufffd"}')]
    lines = [
        {"topic": "connect-configs", "partition": 0, "offset": offset, "tstype": "create", "ts": 1}
        | {"broker": 0, "key": key, "payload": value}
        for offset, (key, value) in enumerate(values)
    ]
    dump.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    hazards = ("inspect", dump, "--release", "3.4", "--hazards")
    problems = f"{dump}: line 2 holds U+FFFD"
    for code, arguments in (
        (0, hazards),
        (1, (*hazards, "--fail")),
        (1, ("plan", dump, "PUT", "/connectors/unknown/stop")),
    ):
        result = call(*arguments)
        assert (result.code, result.err.count(problems)) == (code, 1)
