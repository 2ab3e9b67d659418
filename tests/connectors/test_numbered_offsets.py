"""Requests set the offsets of directories and generators; others are refused (KIP-875)."""

from typing import Any, NamedTuple, cast

import pytest

from controlplane.connect import ConnectError
from controlplane.connect.source import SourceRun
from controlplane.connectors.directory_source import DirectorySource
from controlplane.connectors.generator import GeneratorSource
from controlplane.connectors.numbered_offsets import committed_number

FORM = "A partition has one field, file or directory: "
NUMBER = "An offset has a whole number line of 0 or more: "


class CommittedContext(NamedTuple):
    """Task context with one committed offset."""

    committed: dict[str, Any] | None

    def offset(self, _: Any) -> dict[str, Any] | None:
        """Offset of each partition."""
        return self.committed


def run_with(committed: dict[str, Any] | None) -> SourceRun:
    """Run of a task whose partitions have this committed offset."""
    return SourceRun(cast("Any", CommittedContext(committed)))


@pytest.mark.parametrize(
    ("source", "partition", "offset"),
    [
        (DirectorySource, {"file": "a"}, {"line": 7}),
        (DirectorySource, {"directory": "d"}, {"seen": 1_700_000_000}),
        (DirectorySource, {"anything": 1}, None),
        (GeneratorSource, {"task": 0}, {"order": 0}),
    ],
)
def test_offsets_that_the_source_writes_are_accepted(
    source: Any, partition: dict[str, Any], offset: Any
) -> None:
    """The sources' own offsets, and removals of any offset, are accepted."""
    assert source.alter_offsets({}, [(partition, offset)]) is True


@pytest.mark.parametrize(
    ("partition", "offset", "reason"),
    [
        ({"filename": "a"}, {"line": 7}, f"{FORM}{{'filename': 'a'}}"),
        ({"file": "a", "task": 0}, {"line": 7}, f"{FORM}{{'file': 'a', 'task': 0}}"),
        ({}, {"line": 7}, f"{FORM}{{}}"),
        ({"file": 7}, {"line": 7}, "The field file of a partition is a text: {'file': 7}"),
        ({"file": None}, {"line": 7}, "The field file of a partition is a text: {'file': None}"),
        ({"file": "a"}, {"position": 7}, f"{NUMBER}{{'position': 7}}"),
        ({"file": "a"}, {"line": -1}, f"{NUMBER}{{'line': -1}}"),
        ({"file": "a"}, {"line": "7"}, f"{NUMBER}{{'line': '7'}}"),
        ({"file": "a"}, {"line": True}, f"{NUMBER}{{'line': True}}"),
    ],
)
def test_other_offsets_are_refused(
    partition: dict[str, Any], offset: dict[str, Any], reason: str
) -> None:
    """The refusal shows the form that the source reads, and what came instead."""
    good = ({"file": "b"}, {"line": 1})
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the text is compared below
        DirectorySource.alter_offsets({}, [good, (partition, offset)])
    assert str(refused.value) == reason


def test_a_committed_offset_without_a_number_is_named() -> None:
    """An offset that no hook has checked may lack the number: the task's error shows the offset."""
    number = committed_number(run_with({"line": 7}), {"file": "a"}, "line")
    assert number == 7
    assert committed_number(run_with(None), {"file": "a"}, "line") == 0
    wrong = run_with({"position": 7})
    with pytest.raises(ConnectError, match=r"offset {'position': 7} has no whole number line: "):
        committed_number(wrong, {"file": "a"}, "line")
