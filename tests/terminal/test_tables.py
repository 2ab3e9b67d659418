"""Tables in any width: no word is broken, and no cell is lost silently."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from controlplane.core.entry import Entry
from controlplane.terminal import tables
from controlplane.terminal.table_text import cell_width
from controlplane.terminal.tables import LONGEST_WORD, table
from tests.cli.command_calls import ROOT, call, embedded
from tests.forked_commands import command_words

pytestmark = pytest.mark.slow

WORDS = st.text("abc{\N{PILE OF POO}", min_size=1, max_size=LONGEST_WORD // 2)
CELLS = st.lists(WORDS, max_size=5).map(" ".join)
ROWS = st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), max_size=4)
HEADS = ("NAME", "KIND", "STATE", "WHY")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS, st.integers(40, 120))
def test_no_word_is_broken(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    rows: Sequence[Sequence[str]],
    columns: int,
) -> None:
    """Every word is in one piece, and no line exceeds the width."""
    monkeypatch.setenv("COLUMNS", str(columns))
    table(HEADS, rows, spare=("KIND", "STATE"))
    shown, _, note = capsys.readouterr().out.partition("no room here for ")
    assert max(map(cell_len, shown.splitlines()), default=0) <= columns
    kept = [place for place, head in enumerate(HEADS) if head not in note]
    words = {word for row in rows for place in kept for word in row[place].split()}
    assert words <= {*shown.split()}


@given(st.text())
def test_a_width_is_that_of_rich(text: str) -> None:
    """The fast path for ordinary text gives the same width as Rich."""
    assert cell_width(text) == cell_len(text)


VIEWS: list[tuple[Sequence[str], Sequence[str]]] = [
    ([], ["half", "STARTED", "RUNNING", "without"]),
    (["--hazards"], ["offsets@1:6", "(NullPointerException):", "batch"]),
    (["--compare", "2.8,3.4,3.9,kip"], ["≠", "trailing", "PAUSED:", "STOPPED:"]),
    (["--history", "other"], ["'SLEEPING'", "connector.class", "lab.PagesSourceConnector"]),
    (["--connector", "other"], ["connector.class", "lab.PagesSourceConnector", "generation"]),
]


@pytest.mark.parametrize("columns", [40, 50, 60, 79])
@pytest.mark.parametrize(("view", "words"), VIEWS)
def test_views_are_readable_in_narrow_terminals(
    histories: Path, view: Sequence[str], words: Sequence[str], columns: int
) -> None:
    """Names, states and problems have each word in one piece."""
    log = histories / "odd-records-3.9.log.jsonl"
    result = call("inspect", log, *view, columns=columns)
    assert {*words} <= {*result.out.split()}


def test_spare_columns_are_left_out_first(histories: Path) -> None:
    """A narrow table leaves out the column CLASS first, and names the format that has it."""
    log = histories / "life-3.9.log.jsonl"
    narrow = call("inspect", log, columns=60).out
    assert "FileStreamSource" not in narrow
    assert "\nno room here for CLASS: -o json has all\n" in narrow
    assert "FileStreamSource" in call("inspect", log, columns=80).out
    assert "no room here" not in call("inspect", log, columns=80).out


BLOCKS = """\
CONNECTOR
again
  3.4.1  STARTED: RUNNING, 1 task
         RUNNING
  3.9.2  =
  4.3.0  =
≠ deleted
  3.4.1  STARTED: RUNNING, 2 tasks, none
         reported; the task set is older
         than the connector config
  3.9.2  STARTED: RUNNING, 0 tasks;
         started, but no task set was
         ever committed
"""


def test_a_narrow_window_shows_each_row_as_a_block(histories: Path) -> None:
    """A block has the row's name, then a line for each column; no cell is left out."""
    log = histories / "compacted-3.9.log.jsonl"
    result = call("inspect", log, "--compare", "3.4,3.9,4.3", columns=40)
    assert result.out[: len(BLOCKS)] == BLOCKS


LONG = "x" * 500
WIDE = 200
"""Characters of a line that no usual terminal has room for."""


@pytest.fixture
def wordy(tmp_path: Path) -> Path:
    """Log with a long config, and a long source partition."""
    config = json.dumps({"properties": {"connector.class": "A", "name": "c", "note": LONG}})
    partition = json.dumps(["c", {"file": LONG}])
    entries = [
        Entry("connect-configs", 0, 0, 1, b"connector-c", config.encode()),
        Entry("connect-offsets", 0, 0, 2, partition.encode(), b'{"at": 1}'),
    ]
    return embedded(tmp_path / "wordy.db", entries)


def piped(*words: object) -> list[str]:
    """Lines that a command writes into a pipe; `COLUMNS` is unset."""
    environment = {name: text for name, text in os.environ.items() if name != "COLUMNS"}
    name, *arguments = map(str, words)
    program = [*command_words(name), *arguments]
    done = subprocess.run(
        program, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines()


def test_a_piped_table_is_as_wide_as_its_content(histories: Path) -> None:
    """Each row is one line without trailing spaces, whatever the width of the terminal."""
    log = histories / "odd-records-3.9.log.jsonl"
    for words in (
        ("controlplane", "inspect", log, "--compare", "2.8,3.9,3.0,4.3,3.2,kip"),
        ("replay", "audit", histories / "life-3.9.log.jsonl"),
    ):
        lines = piped(*words)
        assert [line for line in lines if line != line.rstrip()] == []
        assert max(map(len, lines)) > WIDE
    heads, rule, *rows = piped("controlplane", "inspect", log)
    assert len(rule) == max(map(cell_len, (heads, *rows[: rows.index("")])))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS, st.sampled_from([HEADS, ("NAME", "", "", ""), ("", "", "", "")]))
def test_a_large_table_has_the_form_of_a_small_one(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    rows: Sequence[Sequence[str]],
    heads: Sequence[str],
) -> None:
    """A table beyond `RICH_ROWS` is arranged without Rich, and looks the same."""
    printed: list[str] = []
    for limit in (len(rows), -1):
        monkeypatch.setattr(tables, "RICH_ROWS", limit)
        table(heads, rows)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


def test_long_json_is_cut_without_wide(wordy: Path) -> None:
    """Cut JSON ends with an ellipsis; `--wide` and `-o json` show it whole."""
    words = ("controlplane", "inspect", wordy, "--history", "c")
    (cut,) = [line for line in piped(*words) if "source offset" in line]
    assert "…" in cut
    assert len(cut) < len(LONG)
    (whole,) = [line for line in piped(*words, "--wide") if "source offset" in line]
    assert LONG in whole
    assert LONG in call(*words[1:], "--wide", columns=80).out
    assert LONG in call(*words[1:], "-o", "json", columns=80).out


def test_a_sentence_that_holds_short_json_is_shown_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only JSON that is long itself is cut; the text after it stays."""
    words = " ".join(["word"] * 20)
    sentence = f'{words} {{"page": 0}} {words} end'
    table(("WHAT",), [(sentence,), (f'{json.dumps({"note": LONG})} → {{"at": 1}}',)])
    shown, change = capsys.readouterr().out.splitlines()[2:]
    assert shown == sentence
    assert change.startswith('{"note": "xxx')
    assert change.endswith('x… → {"at": 1}')
    assert len(change) < len(LONG)


def test_only_the_last_column_may_have_a_heading(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of a narrow terminal then have a title, and no further lines."""
    monkeypatch.setenv("COLUMNS", "40")
    words = ["a" * LONGEST_WORD, "b" * LONGEST_WORD]
    table(("", "NAME"), [words])
    assert capsys.readouterr().out.split() == ["NAME", *words]
