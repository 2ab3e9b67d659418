"""Dumps of other tools are read to the byte, and every lost line is reported."""

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.entry import Entry
from controlplane.logs.dumps import Dump, Problem, formats, read_dump
from controlplane.logs.dumps.dump import Remark
from controlplane.logs.log import LogNotUsable

HISTORIES = sorted((Path(__file__).parents[1] / "histories").glob("*.log.jsonl"))
CONFIG, STATUS = "connect-configs", "connect-status"

# As kcat 1.7.1 and the console consumers of 2.5.1, 3.9.1 and 4.3.0 have printed the same records.
KCAT = (
    b'{"topic":"t","partition":0,"offset":0,"tstype":"create","ts":7,"broker":1,'
    b'"key":null,"payload":null}\n'
    b'{"topic":"t","partition":0,"offset":2,"tstype":"create","ts":1,"broker":1,'
    b'"key":"\xff\\u0001","payload":"\xed\xa0\xbd\x7f\\"\\\\/\\b\\r\\u0000 \xe2\x88\x85"}\n'
    b'{"topic":"t","partition":1,"offset":0,"tstype":"logappend","ts":6,"broker":1,'
    b'"headers":["a","1","a",null,"x","\xfe"],"key":"k","payload":null}\n'
    b'{"topic":"t","partition":1,"offset":1,"tstype":"create","ts":7,"broker":1,'
    b'"key":"[\\"c\\",{\\"a\\":\\"b,c:d\\"}]","payload":"{\\"pos\\":1}"}\n'
)
CONSOLE_3_9 = (
    b"LogAppendTime:6\tPartition:1\tOffset:0\ta:1,a:null,x:\xfe\tk\tnull\n"
    b'CreateTime:7\tPartition:1\tOffset:1\tNO_HEADERS\t["c",{"a":"b,c:d"}]\t{"pos":1}\n'
    b"CreateTime:7\tPartition:0\tOffset:0\tNO_HEADERS\tnull\tnull\n"
    b"CreateTime:1\tPartition:0\tOffset:2\tNO_HEADERS\t\xff\x01\t"
    b'\xed\xa0\xbd\x7f"\\/\x08\r\x00 \xe2\x88\x85\n'
)
CONSOLE_4_3 = CONSOLE_3_9.replace(b"\tNO_H", b"\tDelivery:NOT_PRESENT\tEpoch:NOT_PRESENT\tNO_H")
CONSOLE_4_3 = CONSOLE_4_3.replace(b"\ta:1", b"\tDelivery:NOT_PRESENT\tEpoch:NOT_PRESENT\ta:1")
ODD = Entry("t", 0, 2, 1, b"\xff\x01", b'\xed\xa0\xbd\x7f"\\/\x08\r\x00 \xe2\x88\x85')
HEADED = Entry("t", 1, 0, 6, b"k", None, (("a", b"1"), ("a", None), ("x", b"\xfe")))
SOURCE_OFFSET = Entry("t", 1, 1, 7, b'["c",{"a":"b,c:d"}]', b'{"pos":1}')
RECORDS = [Entry("t", 0, 0, 7, None, None), ODD, HEADED, SOURCE_OFFSET]


@pytest.fixture
def read(tmp_path: Path) -> "Read":
    """Reads bytes as a dump file."""
    return Read(tmp_path / "dump")


class Read:
    """`read(content, **options)` writes a file and reads it as a dump."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, content: bytes, **options: str) -> Dump:
        """Write `content` to the file and read it as a dump."""
        self.path.write_bytes(content)
        return read_dump(self.path, **options)  # type: ignore[arg-type]

    def refusal(self, content: bytes, **options: str) -> str:
        """Error for content that cannot be used."""
        with pytest.raises(LogNotUsable) as refused:
            self(content, **options)
        return str(refused.value).replace(str(self.path), "FILE")


def line(offset: int, /, **fields: object) -> bytes:
    """Return a line of a history with these fields."""
    place = {"topic": CONFIG, "partition": 0, "offset": offset, "timestamp": 5, "key": "k"}
    return json.dumps({**place, "value": "v", **fields}).encode() + b"\n"


# --- what is right --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.name)
def test_every_history_is_read_whole(path: Path) -> None:
    """All promised records are read, with the bytes of a plain JSON parser."""
    dump = read_dump(path)
    about, *records = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert dump.format == "histories"
    assert dump.problems == []
    assert dump.about == about
    assert [(e.topic, e.partition, e.offset, e.timestamp, e.aborted) for e in dump.entries] == [
        (r["topic"], r["partition"], r["offset"], r["timestamp"], r.get("aborted", False))
        for r in records
    ]
    assert [(e.key, e.value) for e in dump.entries] == [
        (r["key"].encode(), None if r["value"] is None else r["value"].encode()) for r in records
    ]


def test_output_of_kcat_keeps_every_byte(read: Read) -> None:
    """Output of kcat keeps invalid UTF-8, control characters, nulls and repeated headers."""
    assert read(KCAT) == Dump("kcat", RECORDS, [], {})


@pytest.mark.parametrize("text", [CONSOLE_3_9, CONSOLE_4_3], ids=["3.9", "4.3"])
def test_both_console_formats_give_the_same_records(read: Read, text: bytes) -> None:
    """Both console formats give the same records, with all columns and partitions in any order."""
    dump = read(text, topic="t")
    assert (dump.format, dump.entries, dump.problems) == ("console", RECORDS, [])


REMARK = (
    b"Option --property is deprecated and will be removed in a future version. "
    b"Use --formatter-property instead.\n"
)


def test_a_known_remark_is_no_loss(read: Read) -> None:
    """A known remark is named, and the dump counts as complete; any other line is a loss."""
    dump = read(REMARK + CONSOLE_4_3, topic="t")
    assert dump.entries == RECORDS
    assert (dump.problems, dump.remarks) == ([], [Remark(1, "the console consumer")])
    unknown = read(REMARK.replace(b"deprecated", b"gone") + CONSOLE_4_3, topic="t")
    assert [problem.taken for problem in unknown.problems] == [False]


def test_offsets_are_counted_before_2_7(read: Read) -> None:
    """The partition is the last column; offsets are counted, and a problem says so."""
    text = b'CreateTime:5\tconnector-a:b\t{"x":1}\t1\nCreateTime:6\tk\tnull\t0\n'
    dump = read(text, topic="t")
    assert dump.entries == [
        Entry("t", 0, 0, 6, b"k", None),
        Entry("t", 1, 0, 5, b"connector-a:b", b'{"x":1}'),
    ]
    assert [(problem.line, problem.taken) for problem in dump.problems] == [(1, True)]
    assert "offsets were counted from 0" in dump.problems[0].reason


def test_without_partition_and_offset_there_is_one_partition(read: Read) -> None:
    """Without these columns all records are in one partition; each missing column has a problem."""
    dump = read(b"CreateTime:5\tk\tv\nNO_TIMESTAMP\tk\tw\n", topic="t")
    assert dump.entries == [Entry("t", 0, 0, 5, b"k", b"v"), Entry("t", 0, 1, -1, b"k", b"w")]
    assert sum("has no partition" in problem.reason for problem in dump.problems) == 1
    assert sum("has no offset" in problem.reason for problem in dump.problems) == 1


@pytest.mark.parametrize("separator", ["|", " | ", ":", ",", " ", " -> "])
@pytest.mark.parametrize("key", ['["c",{"a":"b,c: | d"}]', "connector-x"])
@pytest.mark.parametrize("value", ['{"a":"b"}', "null"])
def test_the_separator_is_detected(read: Read, separator: str, key: str, value: str) -> None:
    """The separator is detected; it may occur in values and in a key that is JSON."""
    cells = ("CreateTime:5", "Partition:0", "Offset:9", key, value)
    dump = read(f"{separator.join(cells)}\n".encode(), topic="t")
    content = None if value == "null" else value.encode()
    assert dump.entries == [Entry("t", 0, 9, 5, key.encode(), content)]
    assert dump.problems == []


def test_a_null_literal_makes_null_an_ordinary_text(read: Read) -> None:
    """With a `null.literal` the text `null` is an ordinary value."""
    lines = (
        b"CreateTime:5\tPartition:0\tOffset:0\tk\t-\nCreateTime:5\tPartition:0\tOffset:1\tk\tnull\n"
    )
    tombstone, text = Entry("t", 0, 0, 5, b"k", None), Entry("t", 0, 1, 5, b"k", b"null")
    assert read(lines, topic="t", null="-").entries == [tombstone, text]


def test_histories_have_base64_headers_and_aborted_marks(read: Read) -> None:
    """The format of histories has base64 for bytes that are no text."""
    odd = base64.b64encode(b"\xff\x00").decode()
    dump = read(
        line(0, key_base64=odd, key=None, value=None)
        + line(3, value_base64=odd, value=None, headers=[["h", "1"], ["h", None]], aborted=True)
    )
    assert dump.entries == [
        Entry(CONFIG, 0, 0, 5, b"\xff\x00", None),
        Entry(CONFIG, 0, 3, 5, b"k", b"\xff\x00", (("h", b"1"), ("h", None)), aborted=True),
    ]


@pytest.mark.parametrize(
    ("text", "options"),
    [(HISTORIES[0].read_bytes(), {}), (KCAT, {}), (CONSOLE_3_9, {"topic": "t"})],
    ids=["histories", "kcat", "console"],
)
def test_gzip_makes_no_difference(read: Read, text: bytes, options: dict[str, str]) -> None:
    """A compressed file is the same dump, also if it was compressed in two parts."""
    middle = text.index(b"\n") + 1
    parts = gzip.compress(text[:middle]) + gzip.compress(text[middle:])
    assert read(parts, **options) == read(text, **options)


def test_line_ends_and_byte_order_marks_are_no_content(read: Read) -> None:
    """Carriage returns and byte order marks are not part of the records."""
    text = b'CreateTime:5\tPartition:0\tOffset:0\tk\t{"a":1}\r\n'
    assert read(text, topic="t").entries == [Entry("t", 0, 0, 5, b"k", b'{"a":1}')]
    assert read(b"\xef\xbb\xbf" + KCAT.replace(b"\n", b"\r\n")).entries == RECORDS


def test_a_warning_of_a_tool_is_a_problem(read: Read) -> None:
    """A tool prints a warning before the records: only its line is a problem."""
    for text, options in ((KCAT, {}), (CONSOLE_4_3, {"topic": "t"})):
        dump = read(b"Option --property is deprecated.\n\n" + text, **options)
        assert dump.entries == RECORDS
        assert [problem.line for problem in dump.problems] == [1]


REPLACED = "a\ufffdb".encode()
"""Bytes that a tool may have printed in place of bytes that are no UTF-8."""

CONTENT = st.none() | st.binary(max_size=20) | st.just(REPLACED)
ENTRIES = st.lists(
    st.builds(
        Entry,
        st.sampled_from([CONFIG, STATUS]),
        st.integers(0, 3),
        st.integers(0, 2**62),
        st.integers(-1, 2**62),
        CONTENT,
        CONTENT,
        st.lists(st.tuples(st.text(max_size=3), CONTENT), max_size=2).map(tuple),
    ),
    min_size=1,
    unique_by=lambda entry: entry.position,
).map(lambda entries: sorted(entries, key=lambda entry: entry.position))


def as_kcat(entry: Entry) -> bytes:
    """An entry as kcat prints it: bytes that are no UTF-8 stay as they are."""
    headers = [part for header in entry.headers for part in (header[0].encode(), header[1])]
    fields = (
        *(("topic", entry.topic), ("partition", entry.partition), ("offset", entry.offset)),
        *(("tstype", "create"), ("ts", entry.timestamp), ("headers", list(map(_text, headers)))),
        *(("key", _text(entry.key)), ("payload", _text(entry.value))),
    )
    text = json.dumps(dict(fields), ensure_ascii=False)
    return text.encode("utf-8", "surrogateescape") + b"\n"


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "surrogateescape")


@given(ENTRIES)
def test_any_bytes_come_through_kcat(
    tmp_path_factory: pytest.TempPathFactory, entries: list[Entry]
) -> None:
    """Law: reading what kcat prints gives the records, whatever bytes they hold."""
    read = Read(tmp_path_factory.getbasetemp() / "kcat")
    dump = read(b"".join(map(as_kcat, entries)))
    assert dump.entries == entries
    doubtful = [
        line
        for line, entry in enumerate(entries, 1)
        if any("\ufffd".encode() in (content or b"") for content in (entry.key, entry.value))
    ]
    assert [problem.line for problem in dump.problems] == doubtful
    assert all(problem.taken and "U+FFFD" in problem.reason for problem in dump.problems)


# --- what is wrong --------------------------------------------------------------------------------

DEEP = b"[" * 100_000 + b"]" * 100_000

WRONG = {
    "cut off": (line(1)[:-9], "file ends within this line"),
    "no JSON": (b"{nonsense\n", "malformed"),
    "another type": (line(1, offset="1"), "Expected `int`"),
    "a negative offset": (line(-1), "offset"),
    "an offset beyond 64 bits": (line(2**63), "offset"),
    "a partition beyond reason": (line(1, partition=10**6), "partition"),
    "no name of a topic": (line(1, topic="a b"), "topic"),
    "an unknown field": (line(1, compressed=True), "compressed"),
    "a field missing": (b'{"topic":"t","partition":0,"offset":1}\n', "timestamp"),
    "two keys": (line(1, key_base64="AA=="), "key and a key_base64"),
    "no base64": (line(1, value=None, value_base64="?"), "no base64"),
    "not UTF-8": (line(1).replace(b'"v"', b'"\xff"'), "is not UTF-8"),
    "half a surrogate pair": (line(1).replace(b'"v"', b'"\\ud83d"'), "no record of this format"),
    "deep nesting": (b"[" * 100_000 + b"\n", "no record of this format"),
    "no object": (b"17\n", "Expected `object`"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_bad_line_is_reported(read: Read, case: str) -> None:
    """A bad line is reported with its number and the reason; all other lines are read."""
    wrong, reason = WRONG[case]
    dump = read(line(0) + wrong + (line(2) if wrong.endswith(b"\n") else b""))
    assert [entry.offset for entry in dump.entries] == [0, 2][: 1 + wrong.endswith(b"\n")]
    (problem,) = dump.problems
    assert (problem.line, problem.taken) == (2, False)
    assert reason in problem.reason


KCAT_WRONG = {
    "decoded from Avro": (b'"key":"k","payload":{"a":1},"value_schema_id":7', "payload"),
    "decoded to text": (b'"key":"k","payload":"1","value_schema_id":7', "without -s"),
    "not decoded": (b'"key":"k","payload":null,"payload_error":"bad"', "without -s"),
    "a header cut off": (b'"headers":["a"],"key":"k","payload":"v"', "header without a value"),
    "half a pair beside raw bytes": (b'"key":"\xff","payload":"\\udc80"', "surrogate"),
    "no payload": (b'"tstype":"create","key":"k"', "payload"),
    "deep nesting": (b'"key":"k","payload":null,"more":' + DEEP, "recursion"),
}


@pytest.mark.parametrize("case", KCAT_WRONG)
def test_a_bad_line_of_kcat_is_reported(read: Read, case: str) -> None:
    """A line with a value that kcat has decoded or could not decode is reported and left out.

    So is a line with another defect. None of them becomes a tombstone.
    """
    fields, reason = KCAT_WRONG[case]
    dump = read(KCAT + b'{"topic":"t","partition":5,"offset":0,' + fields + b"}\n")
    assert dump.entries == RECORDS
    (problem,) = dump.problems
    assert (problem.line, problem.taken) == (5, False)
    assert reason in problem.reason


CONSOLE_WRONG = {
    "half a record": (b"CreateTime:5\tPartition:2\tOffset:0\tNO_HEADERS\tk\t{", "half a record"),
    "columns missing": (b"CreateTime:5\tPartition:2\tOffset:0\tk\n", "lacks some of the columns"),
    "no columns": (b'second line of a value"}\n', "does not begin with the columns"),
    "other columns": (b"CreateTime:5\tk\tv\n", "does not begin with the columns"),
    "no partition": (
        b"CreateTime:5\tPartition:999999999\tOffset:0\tNO_HEADERS\tk\tv\n",
        "999999999",
    ),
    "headers": (b"CreateTime:5\tPartition:2\tOffset:0\ta:1,b\tk\tv\n", "told apart"),
}


@pytest.mark.parametrize("partition", [b"-5", b"1_0", b" 7", b"9" * 30])
def test_a_last_column_that_is_no_partition_is_reported(read: Read, partition: bytes) -> None:
    """In the output of 2.4 to 2.6, a line with another last column is left out."""
    row = b"CreateTime:5\tk\tv\t"
    dump = read(row + b"0\n" + row + partition + b"\n", topic="t")
    assert [entry.partition for entry in dump.entries] == [0]
    (problem,) = [problem for problem in dump.problems if not problem.assumed]
    assert (problem.line, problem.taken) == (2, False)
    assert "partition" in problem.reason or "where a number should be" in problem.reason


@pytest.mark.parametrize("case", CONSOLE_WRONG)
def test_a_bad_line_of_the_console_is_reported(read: Read, case: str) -> None:
    """A bad line is left out, even at the end of the file; the problem gives the reason."""
    wrong, reason = CONSOLE_WRONG[case]
    dump = read(CONSOLE_3_9 + wrong, topic="t")
    assert dump.entries == RECORDS
    (problem,) = dump.problems
    assert (problem.line, problem.taken) == (5, False)
    assert reason in problem.reason


def test_two_records_at_one_position_are_reported(read: Read) -> None:
    """An exact repetition adds nothing; a different record at the same position is reported."""
    dump = read(line(0) + line(0) + line(0, value="other"))
    assert [entry.value for entry in dump.entries] == [b"v"]
    reason = f"holds another record at {CONFIG}@0: the one in line 1 was taken"
    assert dump.problems == [Problem(3, reason)]


def test_a_cut_history_is_reported(read: Read) -> None:
    """The problem says how many of the promised records were read."""
    whole = HISTORIES[0].read_bytes()
    cut = whole[: whole[:-1].rindex(b"\n") + 1]
    dump = read(cut)
    assert len(dump.entries) == whole.count(b"\n") - 2
    assert "96 of 97 records were read" in dump.problems[0].reason


def test_a_cut_compressed_file_is_reported(read: Read) -> None:
    """The readable part is read, and the missing rest is reported."""
    packed = gzip.compress(b"".join(map(line, range(20_000))))
    dump = read(packed[: len(packed) // 2])
    *_, last = dump.problems
    assert 0 < len(dump.entries) < 20_000
    assert "is missing, and so are all later lines" in last.reason
    assert last.line > len(dump.entries)


def test_replacement_characters_are_reported(read: Read) -> None:
    """A record with a replacement character is read and reported; in a history it is only read."""
    kcat = KCAT.replace(b'"k"', '"\ufffd"'.encode())
    assert [(problem.line, problem.taken) for problem in read(kcat).problems] == [(3, True)]
    assert read(line(0, value="\ufffd")).problems == []


REFUSED = {
    "empty": (b"", {}, "FILE is empty: there are no records in it"),
    "UTF-16": ("x".encode("utf-16"), {}, "FILE is UTF-16 text: convert it"),
    "deep nesting": (b'{"history":1,"more":' + DEEP + b"}\n", {}, "maximum recursion depth"),
    "unknown": (b"a,b\n1,2\n", {}, "FILE has no known format"),
    "binary": (bytes(range(256)) * 9, {}, "FILE has no known format"),
    "blank lines": (b"\n\n \n", {}, "FILE begins with blank lines"),
    "blank lines first": (b"\n" * formats.SAMPLE_LINES + KCAT, {}, "FILE begins with blank lines"),
    "blank lines in a format": (b"\n \n", {"format": "histories"}, "FILE begins with blank lines"),
    "blank console": (b"\n", {"format": "console", "topic": "t"}, "FILE begins with blank lines"),
    "no topic": (CONSOLE_3_9, {}, "FILE does not tell its topic: name it with --topic"),
    "no name": (CONSOLE_3_9, {"topic": "a b"}, "is no topic name"),
    "no format": (KCAT, {"format": "avro"}, "'avro' is no format of a dump: use one of histories"),
    "another format": (KCAT, {"format": "histories"}, "none of its lines is a record: line 1 "),
    "half a line": (KCAT[:90], {}, "file ends within this line"),
    "damaged": (gzip.compress(KCAT)[:20], {}, "FILE is damaged"),
    "no keys": (b"CreateTime:5\tv\n", {"topic": "t"}, "none of its lines is a record"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_unusable_file_is_refused(read: Read, case: str) -> None:
    """The error is one sentence with the file's name, the fault and the remedy."""
    content, options, said = REFUSED[case]
    assert said in read.refusal(content, **options)


def test_a_path_without_a_file_is_refused(tmp_path: Path) -> None:
    """A path that is no file is refused with advice."""
    for path, advice in ((tmp_path, "name a file"), (tmp_path / "missing", "check the path")):
        with pytest.raises(LogNotUsable, match=rf"cannot be read \(.*\): {advice}"):
            read_dump(path)


def test_a_file_without_line_breaks_is_refused(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without line breaks is not loaded into memory as one line."""
    monkeypatch.setattr(formats, "LINE_BYTES_MAX", 1000)
    assert "line 1 has more than 1000 bytes" in read.refusal(b"x" * 2000)


def damaged(text: bytes) -> st.SearchStrategy[bytes]:
    """A text with some bytes overwritten, inserted or removed."""
    place = st.integers(0, len(text))
    change = st.tuples(place, st.integers(0, 3), st.binary(max_size=3))

    def damage(changes: list[tuple[int, int, bytes]]) -> bytes:
        harmed = text
        for at, cut, put in changes:
            harmed = harmed[:at] + put + harmed[at + cut :]
        return harmed

    return st.lists(change, min_size=1, max_size=5).map(damage)


def lines_not_read(dump: Dump) -> Iterator[int]:
    """Numbers of lines that were not read."""
    return (problem.line for problem in dump.problems if not problem.taken)


@given(st.one_of(damaged(KCAT), damaged(CONSOLE_3_9), damaged(line(0) + line(1)), st.binary()))
def test_every_line_is_read_or_reported(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    """Law: each line with text becomes an entry or is reported, or the whole file is refused.

    An exact repetition of a line adds no entry. Repetitions are rare here; the test counts equal
    lines once.
    """
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content)
    try:
        dump = read_dump(path, topic="t")
    except LogNotUsable:
        return
    numbered = enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1)
    reported_lines = {*lines_not_read(dump), *(remark.line for remark in dump.remarks)}
    texts = {text for number, text in numbered if text.strip() and number not in reported_lines}
    assert len(dump.entries) == len(texts)
