"""`--as-of`: valid moments of a log, and errors for others."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controlplane.core.entry import Entry
from controlplane.core.moments import read_time_ms
from tests.cli.command_calls import CommandResult, call, embedded, refusal

FLOOD = "9" * 4_200
"""Digits of a huge number, within the 4,300 digits that Python converts to an integer."""


def as_of(histories: Path, moment: str, *options: str) -> CommandResult:
    """Inspect the life of 3.9 at a moment."""
    return call("inspect", histories / "life-3.9.log.jsonl", "--as-of", moment, *options)


@pytest.mark.parametrize(
    ("moment", "sentence"),
    [
        ("2020-01-01", "'2020-01-01' is before the first record (2026-"),
        ("946684800000", "'946684800000' is before the first record (2026-"),
        ("1795214808", "1970-01-21 in milliseconds, before the first record: did you mean seconds"),
        ("20261120", "did you mean 2026-11-20?"),
        (
            "57",
            "57 is 1970-01-01 in milliseconds, before the first record: did you mean config@57?",
        ),
        ("1795214808118000000", "is no time in milliseconds: times end with the year 9999"),
        (FLOOD[:4000], "is no time in milliseconds"),
        (f"config@{FLOOD[:4000]}", "is too great: offsets end at 9223372036854775807"),
        ("config@9223372036854775808", "offset 9223372036854775808 is too great: offsets end at"),
        ("config@9223372036854775807", "connect-configs reaches from config@0 to config@"),
        ("config@1000000000000", "connect-configs reaches from config@0 to config@"),
        (f"config@{FLOOD[:4000]}:1", "is no position: write it like config@57"),
        ("9" * 5_000, "a moment has at most 4096 characters"),
        ("config@100000", "connect-configs reaches from config@0 to config@"),
        ("status@1:999", "connect-status reaches from status@1:0 to status@1:"),
        ("Config@57", "unknown topic 'Config', use config, offsets, status, commands or a topic"),
        ("{}", "the vector lacks connect-configs"),
        ('{"connect-status":[5,0,0]}', "the vector lacks connect-configs"),
        ('{"connect-configs":[5,7]}', "has 2 ends of connect-configs, which has 1 partition: give"),
        ('{"connect-configs":[99999999999999999999999]}', "99999 is too great: offsets end at"),
        (f'{{"connect-configs":[{FLOOD[:4000]}]}}', "999… is too great"),
    ],
)
def test_invalid_moments_are_refused(histories: Path, moment: str, sentence: str) -> None:
    """One short sentence refuses the moment; no view is empty instead."""
    message = refusal(as_of(histories, moment))
    assert sentence in message
    assert len(message) < 400


@pytest.mark.parametrize("release", ["3." + "9" * 5_000, "9" * 5_000 + ".1"])
def test_a_very_long_release_number_is_refused(histories: Path, release: str) -> None:
    """A release number that is too long is refused like any unknown release."""
    result = call("inspect", histories / "life-3.9.log.jsonl", "--profile", release)
    message = refusal(result)
    assert "unknown release" in message
    assert len(message) < 200


def test_a_time_after_the_last_record_is_the_end(histories: Path) -> None:
    """A time behind the last record gives the newest state."""
    now = call("inspect", histories / "life-3.9.log.jsonl")
    assert as_of(histories, datetime.now(UTC).isoformat()).out == now.out


def test_a_time_in_the_future_is_refused(histories: Path) -> None:
    """A future time is refused: records may still be written before it."""
    assert "'2999-01-01' is in the future: give a time up to now, " in refusal(
        as_of(histories, "2999-01-01")
    )


def test_the_time_of_the_first_record_is_its_moment(histories: Path) -> None:
    """The time of the first record, as the error prints it, is a valid moment."""
    message = refusal(as_of(histories, "2020-01-01"))
    first = message.partition("(")[2].rstrip(")")
    document = as_of(histories, first, "-o", "json").json
    assert sum(map(sum, document["read_up_to"].values())) > 0


def test_a_time_is_read_to_the_millisecond() -> None:
    """ISO text and milliseconds give the same instant: no float rounds it."""
    for ms in range(1_000):
        assert read_time_ms(f"2026-11-20T22:46:48.{ms:03}Z") == 1_795_214_808_000 + ms


def test_a_log_without_times_has_no_moment_by_time(tmp_path: Path) -> None:
    """The error asks for a record instead of a time."""
    log = embedded(tmp_path / "log.db", [Entry("connect-configs", 0, 0, -1, b"k", None)])
    assert "the times of these records are unknown" in refusal(
        call("inspect", log, "--as-of", "2026-01-01")
    )
    assert call("inspect", log, "--as-of", "config@0").code == 0


@pytest.mark.parametrize(
    ("vector", "notices"),
    [
        (
            {"connect-configs": [5700], "connect-offsets": [0] * 9, "connect-status": [9, 9, 9]},
            ["connect-configs ends at 100: it is read to its end, not to 5700"],
        ),
        (
            {"connect-configs": [58], "connect-status": [9]},
            [
                "the vector does not name connect-offsets: that topic is not read",
                "the vector names 1 of 3 partitions of connect-status: the others are not read",
            ],
        ),
    ],
)
def test_gaps_of_a_vector_are_reported(
    histories: Path, vector: dict[str, list[int]], notices: list[str]
) -> None:
    """Gaps are reported beside the table, and in JSON's `problems`."""
    result = as_of(histories, json.dumps(vector), "-o", "json")
    assert result.code == 0
    assert result.json["problems"] == notices
    assert len(result.err.splitlines()) == len(notices)


def test_the_greatest_end_offset_means_the_end(histories: Path) -> None:
    """An end offset past the end means the end, up to the greatest offset of Kafka."""
    result = as_of(histories, '{"connect-configs":[9223372036854775807]}', "-o", "json")
    assert (result.code, result.json["read_up_to"]["connect-configs"]) == (0, [100])
    assert "it is read to its end, not to 9223372036854775807" in result.err


def test_the_documented_vector_fits(histories: Path) -> None:
    """The vector in the documentation is valid."""
    text = (Path(__file__).parents[2] / "docs" / "inspect.md").read_text("utf-8")
    vector = text.partition("`'{")[2].partition("}'`")[0]
    result = as_of(histories, "{" + vector + "}", "-o", "json")
    assert (result.code, result.json["problems"]) == (0, [])
    assert result.json["read_up_to"] == json.loads("{" + vector + "}")
