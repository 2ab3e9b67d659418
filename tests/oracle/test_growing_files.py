"""Lines and positions of growing files, as Kafka's `FileStreamSourceTask` reads them.

Each piece is written at once; the task reads after each of them.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from controlplane.connectors import file_stream
from controlplane.connectors.file_stream import lines_with_lengths
from tests.conftest import SEED
from tests.harvested_catalogues import class_path
from tests.jars import compiled
from tests.oracle.kafka import CACHE, line_answers

SOURCES = Path(__file__).parent / "growing_files"
RELEASE = "3.9.1"
COUNT = 500

TABLE = [
    (["a\nb\n"], [["a", 2], ["b", 4]]),
    (["a\rb\n"], [["a", 2], ["b", 4]]),
    (["a\r\nb\r\n"], [["a", 3], ["b", 6]]),
    (["a\r\r\nb\n\r"], [["a", 2], ["", 4], ["b", 6]]),
    (["a\n\rb\n"], [["a", 2], ["", 3], ["b", 5]]),
    (["a\r"], []),
    (["a\r", "\n"], [["a", 3]]),
    (["a\r", "b", "\r\r"], [["a", 2], ["b", 4]]),
    (["a", "b\rc"], [["ab", 3]]),
    (["\r", "\r", "\n", "\n"], [["", 1], ["", 3], ["", 4]]),
    (["12345678\r", "\n9\r", "x"], [["12345678", 10], ["9", 12]]),
]
"""Pieces of a file, and its lines with the positions after them."""


def _kafkas_lines(questions: Sequence[dict[str, Any]]) -> list[list[list[Any]]]:
    """Lines and positions of Kafka's task, in one Java process."""
    path = class_path(RELEASE)
    folders = compiled(SOURCES, path, CACHE), path
    return line_answers("GrowingFiles", folders, map(json.dumps, questions))


def _our_lines(path: Path, pieces: Sequence[str], position: int = 0) -> list[list[Any]]:
    """Lines and positions of our source, which reads on from the last position."""
    path.write_bytes(b"")
    lines: list[list[Any]] = []
    for piece in pieces:
        with path.open("ab") as growing:
            growing.write(piece.encode())
        with path.open("rb") as file:
            file.seek(position)
            for line, length in lines_with_lengths(file):
                position += length
                lines.append([line.decode(), position])
    return lines


@pytest.mark.parametrize("chunk", [1, 2, 3, 8, 65_536])
@pytest.mark.parametrize(("pieces", "lines"), TABLE)
def test_lines_end_as_in_kafka(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chunk: int,
    pieces: list[str],
    lines: list[list[Any]],
) -> None:
    r"""A `\r` at the end waits for the next character, in chunks of any size."""
    monkeypatch.setattr(file_stream, "CHUNK_BYTES", chunk)
    assert _our_lines(tmp_path / "file", pieces) == lines


@pytest.mark.prove
@pytest.mark.java
def test_kafkas_task_has_these_lines() -> None:
    """The table is the answer of Kafka's own class."""
    questions = [{"pieces": pieces, "buffer": 1024, "position": 0} for pieces, _ in TABLE]
    assert _kafkas_lines(questions) == [lines for _, lines in TABLE]


@pytest.mark.java
def test_random_files_have_kafkas_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random pieces, positions and sizes of buffers give Kafka's lines and positions."""
    random = Random(f"{SEED}/growing files")

    def piece() -> str:
        return "".join(random.choices("ab\r\n", k=random.choice((1, 2, 3, 5, 9, 20))))

    questions: list[dict[str, Any]] = [
        {
            "pieces": [piece() for _ in range(random.choice((1, 2, 3, 4)))],
            "buffer": random.choice((1, 2, 4, 1024)),
            "position": 0,
        }
        for _ in range(COUNT)
    ]
    for question in questions[::3]:
        # At the end of the file, Kafka's task would wait for a second.
        question["position"] = random.randrange(len(question["pieces"][0]))
    for question, theirs in zip(questions, _kafkas_lines(questions), strict=True):
        monkeypatch.setattr(file_stream, "CHUNK_BYTES", random.choice((1, 2, 5, 65_536)))
        ours = _our_lines(tmp_path / "file", question["pieces"], question["position"])
        assert ours == theirs, question
