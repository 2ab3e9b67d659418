"""Positions and times have one spelling in every output; all spellings are valid input."""

import re
from pathlib import Path

import pytest

from controlplane.core.entry import Position
from controlplane.core.moments import position_text, read_position, time_text
from controlplane.core.state import Topics
from tests.cli.command_calls import call
from tests.replay.cli.replay_calls import call as replay

LIFE = Path("tests/histories/life-3.9.log.jsonl")
ROLL = Path("tests/histories/roll-3.4-3.9-3.4.log.jsonl")
ODD = Path("tests/histories/odd-records-3.9.log.jsonl")

OUTPUTS = (
    ("inspect", ODD),
    ("inspect", ODD, "--hazards"),
    ("inspect", ROLL, "--history", "born"),
    ("inspect", ROLL, "--compare", "3.4,3.9"),
)
REPLAYED = (
    ("compat", ODD, "--from", "3.9", "--to", "3.2"),
    ("lint", ODD, "--release", "3.9"),
    ("audit", ROLL),
)

OTHER_POSITION = re.compile(r"connect-(?:configs|offsets|status)[@-]\d|@0:\d|:\d+:\d+@")
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S*")
ONE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (Position("connect-configs", 0, 57), "config@57"),
        (Position("connect-offsets", 3, 120), "offsets@3:120"),
        (Position("connect-offsets", 0, 120), "offsets@120"),
        (Position("own", 2, 1), "own@2:1"),
    ],
)
def test_a_position_has_one_spelling_that_is_read_again(position: Position, text: str) -> None:
    """`--as-of`, `--to` and `after=` accept the printed position."""
    assert position_text(position, Topics()) == text
    assert read_position(text, Topics()) == position
    assert read_position(position_text(position), Topics()) == position


@pytest.mark.parametrize(
    "words", [*OUTPUTS, *REPLAYED], ids=lambda words: " ".join(map(str, words))
)
def test_every_output_spells_positions_and_times_alike(words: tuple[object, ...]) -> None:
    """Positions have short topic names and no partition 0; times are ISO 8601 in UTC with ms."""
    shown = (call if words in OUTPUTS else replay)(*words).out
    assert re.search(r"\b(?:config|status|offsets)@\d", shown)
    assert OTHER_POSITION.findall(shown) == []
    assert [time for time in TIME.findall(shown) if not ONE_TIME.match(time)] == []


def test_a_missing_time_is_unknown() -> None:
    """A timestamp of -1, as in logs without times, is printed as `unknown`."""
    assert time_text(-1) == "unknown"
