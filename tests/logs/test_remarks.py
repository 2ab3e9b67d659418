"""What tools print among the records: named, and the file is whole."""

from pathlib import Path

import pytest

from controlplane.logs.dumps import read_dump

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
    """Standard error that went into the same file, wherever in it."""
    lines = [record % 5, record % 6]
    lines.insert(at, line if line.endswith(b"\n") or at == len(lines) else line + b"\n")
    (tmp_path / "dump").write_bytes(b"".join(lines))
    dump = read_dump(tmp_path / "dump", topic="t")
    assert [one.offset for one in dump.entries] == [5, 6]
    (problem,) = dump.problems
    assert (problem.line, problem.taken) == (at + 1, True)
    assert "is a remark of " in problem.reason


@pytest.mark.parametrize(
    "line",
    [
        b"% ERROR: Topic t [0] error: Broker: Unknown topic or partition",
        b'% Reached end of topic t [0] at offset 7{"topic":"t"}',
        b"Processed a total of many messages",
    ],
)
def test_what_may_hide_a_loss_is_no_remark(tmp_path: Path, line: bytes) -> None:
    """After an error records may be missing, and half a record may stand behind a remark."""
    (tmp_path / "dump").write_bytes(KCAT % 5 + line + b"\n")
    (problem,) = read_dump(tmp_path / "dump").problems
    assert (problem.line, problem.taken) == (2, False)
