"""Source offsets whose value a worker cannot read: it omits them, the command line reports them."""

import re
from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from tests.cli.command_calls import call, embedded

OFFSETS = "connect-offsets"
GOOD = b'{"o":1}'
UNREADABLE = {
    b"CORRUPT": "undecodable value: no JSON: a value is missing at position 0",
    b'{"o":[1]}': "a field of the offset is not of a primitive type",
    b"[]": "value is not an object",
}


def log_of(path: Path, *offsets: Entry) -> Path:
    """Embedded log with a connector `a`, and these offsets."""
    config = b'{"properties":{"name":"a"}}'
    return embedded(path, [Entry("connect-configs", 0, 0, 1, b"connector-a", config), *offsets])


def offset(at: int, partition: bytes, value: bytes | None, *, aborted: bool = False) -> Entry:
    """Offset record of connector `b`, which has no config."""
    return Entry(OFFSETS, 2, at, at, b'["b",{"p":%b}]' % partition, value, aborted=aborted)


@pytest.mark.parametrize("value", UNREADABLE)
@pytest.mark.parametrize("release", ["2.8", "3.5.0", "3.9", "kip"])
def test_each_is_listed_with_position_and_reason(
    tmp_path: Path, release: str, value: bytes
) -> None:
    """Overview and connector view list it in table and JSON; it is no hazard."""
    log = log_of(tmp_path / "log.db", offset(5, b"1", GOOD), offset(7, b"1", value))
    why, place = UNREADABLE[value], {"topic": OFFSETS, "partition": 2, "offset": 7}
    look = ("inspect", log, "--profile", release)
    reason = f"{why}; the worker keeps the record, but never shows it"
    assert f"  offsets@2:7  {reason}\n" in call(*look).out
    assert call(*look, "-o", "json").json["unreadable"] == {
        "count": 1,
        "records": [{"position": place, "reason": reason}],
    }
    deep = (*look, "--connector", "b")
    output = call(*deep).out
    assert "no source offsets that the worker can read\n1 source partition that" in output
    assert f'  offsets@2:7  {{"p": 1}}  {why}\n' in output
    assert "consumer group" not in output
    document = call(*deep, "-o", "json").json
    assert document["source_offsets"] == []
    assert document["unreadable_offsets"] == [
        {"partition": {"p": 1}, "position": place, "reason": why},
    ]
    assert call(*look, "--hazards", "-o", "json").json["hazards"] == []


def test_readable_offsets_are_still_shown(tmp_path: Path) -> None:
    """One table has the readable offsets and the number of the others."""
    log = log_of(tmp_path / "log.db", offset(1, b"1", b"CORRUPT"), offset(2, b"2", GOOD))
    output = call("inspect", log, "--connector", "b").out
    assert re.search(r'{"p": 2} +{"o": 1} .*\n1 source partition that', output)


def test_repaired_offsets_are_not_reported(tmp_path: Path) -> None:
    """Only the last committed value of a key decides."""
    log = log_of(
        tmp_path / "log.db",
        offset(1, b"1", b"CORRUPT"),
        offset(2, b"1", GOOD),
        offset(3, b"2", b"CORRUPT"),
        offset(4, b"2", None),
        offset(5, b"3", b"CORRUPT"),
        offset(6, b"3", b"CORRUPT", aborted=True),
    )
    look = ("inspect", log, "-o", "json", "--profile", "3.9")
    for options, last in ((), 6), (("--exactly-once",), 5):
        places = [
            (record["position"]["partition"], record["position"]["offset"])
            for record in call(*look, *options).json["unreadable"]["records"]
        ]
        assert places == [(2, last)]


def test_a_nested_source_partition_is_left_out(tmp_path: Path) -> None:
    """A worker lists the partition without an offset; the view of the connector reports it."""
    log = log_of(tmp_path / "log.db", offset(3, b"[1]", GOOD))
    look = ("inspect", log, "--connector", "b", "-o", "json")
    (left_out,) = call(*look, "--profile", "3.9").json["unreadable_offsets"]
    assert left_out["position"] == {"topic": OFFSETS, "partition": 2, "offset": 3}
    assert left_out["reason"] == "a field of the partition is not of a primitive type"


def test_secrets_in_a_partition_stay_hidden(tmp_path: Path) -> None:
    """A password in a source partition is hidden in each output."""
    key = b'["b",{"password":"hunter2"}]'
    log = log_of(tmp_path / "log.db", Entry(OFFSETS, 0, 0, 1, key, b"CORRUPT"))
    for output in ("table", "json"):
        result = call("inspect", log, "--connector", "b", "-o", output)
        assert "password" in result.out
        assert "hunter2" not in result.out
