"""Remarks of tools between the records: they are reported, and the dump is complete."""

from pathlib import Path

import pytest

from controlplane.logs.dumps import Problem, read_dump
from controlplane.logs.log import LogNotUsable

CONSOLE = b"CreateTime:1\tPartition:0\tOffset:%d\tk\tv\n"
KCAT = (
    b'{"topic":"t","partition":0,"offset":%d,"tstype":"create","ts":1,"broker":1,'
    b'"key":"k","payload":"v"}\n'
)


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (CONSOLE, b"Processed a total of 2 messages"),
        (CONSOLE, b"Processed a total of 2 messages\r\n"),
        (KCAT, b"% Reached end of topic connect-configs [0] at offset 100\n"),
        (KCAT, b"% Reached end of topic t [0] at offset 100: exiting\n"),
        (KCAT, b"% Auto-selecting Consumer mode (use -P or -C to override)\n"),
    ],
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_known_remark_is_named(tmp_path: Path, record: bytes, line: bytes, at: int) -> None:
    """A line of standard error is reported as a remark, at any place in the file."""
    lines = [record % 5, record % 6]
    lines.insert(at, line if line.endswith(b"\n") or at == len(lines) else line + b"\n")
    (tmp_path / "dump").write_bytes(b"".join(lines))
    dump = read_dump(tmp_path / "dump", topic="t")
    assert [entry.offset for entry in dump.entries] == [5, 6]
    assert (dump.problems, [remark.line for remark in dump.remarks]) == ([], [at + 1])


@pytest.mark.parametrize(
    "line",
    [
        b"% ERROR: Topic t [0] error: Broker: Unknown topic or partition",
        b'% Reached end of topic t [0] at offset 7{"topic":"t"}',
        b"Processed a total of many messages",
    ],
)
def test_lines_that_may_hide_a_loss_are_no_remarks(tmp_path: Path, line: bytes) -> None:
    """Such lines are problems: an error may hide records, and a remark may hide half a record."""
    (tmp_path / "dump").write_bytes(KCAT % 5 + line + b"\n")
    (problem,) = read_dump(tmp_path / "dump").problems
    assert (problem.line, problem.taken) == (2, False)


def test_a_wrong_total_is_a_problem(tmp_path: Path) -> None:
    """A wrong total is a problem: the consumer also counts records that it then skips."""
    dump, total = tmp_path / "dump", b"Processed a total of %d messages\n"
    dump.write_bytes(CONSOLE % 5 + total % 1 + CONSOLE % 6 + total % 2)
    (problem,) = read_dump(dump, topic="t").problems
    assert problem == Problem(4, "reports 3 records, but the file has 2", taken=True)
    dump.write_bytes(CONSOLE % 5 + total % 1 + CONSOLE % 6 + CONSOLE % 6 + total % 2)
    assert read_dump(dump, topic="t").problems == []


def test_remarks_alone_are_no_log(tmp_path: Path) -> None:
    """A file with remarks alone is refused: the topic was empty, or no record got through."""
    dump = tmp_path / "dump"
    dump.write_bytes(b"% Reached end of topic t [0] at offset 0\n")
    with pytest.raises(LogNotUsable, match="none of its lines is a record: line 1 is a remark of"):
        read_dump(dump, format="kcat")
