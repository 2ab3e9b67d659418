"""`controlplane import` copies records into an embedded log unchanged, and reports each loss."""

import asyncio
import hashlib
import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from controlplane.cli.copies import import_command
from controlplane.core.entry import Entry
from controlplane.core.order import entries_of
from controlplane.logs.dumps import Dump, read_dump
from controlplane.logs.log import LogUnavailable
from controlplane.logs.log_factory import OpenOptions, open_dump
from controlplane.logs.sqlite import SqliteLog, SqliteSettings
from controlplane.logs.sqlite.writer_lock import writer_lock
from tests.cli.command_calls import ROOT, call, embedded, refusal, shell

LIFE = """\
FILE   FORMAT      RECORDS   LINES LEFT OUT
───────────────────────────────────────────
LIFE   histories   354       0

TOPIC             PARTITIONS   RECORDS
──────────────────────────────────────
connect-configs   1            100
connect-offsets   5            56
connect-status    3            198

354 records added to LOG
"""


def contents(path: Path) -> list[Entry]:
    """All entries of an embedded log, by position."""

    async def read() -> list[Entry]:
        log = await SqliteLog.open(path, create=False, read_only=True)
        batches = [batch async for batch in log.read(await log.topics())]
        await log.close()
        return list(entries_of(batches))

    return sorted(asyncio.run(read()), key=lambda entry: entry.position)


def digest(path: Path) -> str:
    """SHA-256 of a file's content, in hex."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_history_is_imported_unchanged(histories: Path, tmp_path: Path) -> None:
    """Every entry is equal: offsets, gaps, times, headers, aborted records."""
    for name in ("life-3.9", "aborted-3.9", "compacted-3.9"):
        file, log = histories / f"{name}.log.jsonl", tmp_path / f"{name}.db"
        assert call("import", file, log).code == 0
        assert contents(log) == read_dump(file).entries


def test_the_summary_has_sources_content_and_result(histories: Path, tmp_path: Path) -> None:
    """The summary has a row per file and per topic, and the number of added records."""
    file, log = histories / "life-3.9.log.jsonl", tmp_path / "log.db"
    result = call("import", file, log, columns=200)
    shown = result.out.replace(str(log), "LOG").replace(f"{file}", "LIFE")
    lines = [" ".join(line.split()) for line in shown.splitlines() if not line.startswith("─")]
    expected = [" ".join(line.split()) for line in LIFE.splitlines() if not line.startswith("─")]
    assert lines == expected


def test_importing_twice_adds_nothing_and_says_so(histories: Path, tmp_path: Path) -> None:
    """A second import leaves the log unchanged and says so."""
    file, log = histories / "life-3.9.log.jsonl", tmp_path / "log.db"
    call("import", file, log)
    before = contents(log)
    again = call("import", file, log)
    assert again.code == 0
    assert f"nothing added: all 354 records were in {log} already" in again.out
    assert contents(log) == before
    assert call("import", file, log, "-o", "json").json["added"] == 0


def test_an_empty_import_is_reported(tmp_path: Path) -> None:
    """An empty log has no records to import; the output says so."""
    empty, log = tmp_path / "empty.db", tmp_path / "log.db"
    asyncio.run(empty_log(empty, {"connect-configs": 1}))
    result = call("import", empty, log)
    assert (result.code, result.out.splitlines()[-1]) == (
        0,
        f"nothing added to {log}: {empty} holds no records",
    )
    both = call("import", empty, log, tmp_path / "new.db")
    assert both.out.endswith(": 2 files hold no records\n")
    assert contents(log) == []


async def empty_log(path: Path, topics: dict[str, int]) -> None:
    """Write an embedded log with topics and without records."""
    log = await SqliteLog.open(path)
    for topic, partitions in topics.items():
        await log.create_topic(topic, partitions)
    await log.close()


def test_one_import_of_two_files_equals_two_imports(histories: Path, tmp_path: Path) -> None:
    """Dumps from before and after compaction give the same log in one import or two."""
    files = [histories / f"compacted-3.9{part}.log.jsonl" for part in (".before", "")]
    call("import", *files, tmp_path / "once.db")
    for file in files:
        assert call("import", file, tmp_path / "twice.db").code == 0
    assert contents(tmp_path / "once.db") == contents(tmp_path / "twice.db")
    assert len(contents(tmp_path / "once.db")) == 114 + 147 - 45


def test_an_embedded_log_can_be_imported(histories: Path, tmp_path: Path) -> None:
    """Records are imported from one SQLite file into another."""
    call("import", histories / "aborted-3.9.log.jsonl", tmp_path / "one.db")
    result = call("import", tmp_path / "one.db", f"sqlite:///{tmp_path}/other.db", "-o", "json")
    assert (result.code, result.json["added"]) == (0, 97)
    assert contents(tmp_path / "other.db") == contents(tmp_path / "one.db")


def test_a_topic_grows_by_partitions(tmp_path: Path) -> None:
    """A later file may add partitions to a topic."""
    for partition in (0, 4):
        file = tmp_path / f"{partition}.jsonl"
        line = {"topic": "t", "partition": partition, "offset": 3, "tstype": "create", "ts": 1}
        file.write_text(json.dumps({**line, "broker": 1, "key": "k", "payload": "v"}), "utf-8")
        assert call("import", file, tmp_path / "log.db").code == 0
    places = [(entry.partition, entry.offset) for entry in contents(tmp_path / "log.db")]
    assert places == [(0, 3), (4, 3)]


def test_contradicting_records_are_refused_and_nothing_changes(
    histories: Path, tmp_path: Path
) -> None:
    """Records of another cluster at the same positions are refused."""
    log = tmp_path / "log.db"
    call("import", histories / "life-3.9.log.jsonl", log)
    before = contents(log)
    result = call("import", histories / "exactly-once-3.9.log.jsonl", log)
    assert "another entry lies there" in refusal(result)
    assert contents(log) == before


def test_files_that_contradict_each_other_leave_nothing_behind(
    histories: Path, tmp_path: Path
) -> None:
    """A refused import creates no log file."""
    files = [histories / f"{name}.log.jsonl" for name in ("life-3.9", "life-3.4")]
    refusal(call("import", *files, tmp_path / "log.db"))
    assert not list(tmp_path.iterdir())


def broken(histories: Path, path: Path) -> Path:
    """History whose line 7 is cut in half."""
    lines = (histories / "life-3.9.log.jsonl").read_bytes().splitlines(keepends=True)
    lines[6] = lines[6][:30] + b"\n"
    path.write_bytes(b"".join(lines))
    return path


def test_a_line_that_cannot_be_read_is_named_and_nothing_imported(
    histories: Path, tmp_path: Path
) -> None:
    """The sentence has the line, the reason, and the option that imports the rest."""
    file = broken(histories, tmp_path / "broken.jsonl")
    sentence = refusal(call("import", file, tmp_path / "log.db"))
    assert "line 7 " in sentence
    assert "--partial" in sentence
    assert not (tmp_path / "log.db").exists()


def test_partial_imports_the_rest(histories: Path, tmp_path: Path) -> None:
    """`--partial` imports all other lines, names the bad line, and exits with code 1."""
    file = broken(histories, tmp_path / "broken.jsonl")
    result = shell("import", "--partial", file, tmp_path / "log.db")
    assert result.code == 1
    assert "line 7 " in result.out
    assert "353 records added" in result.out
    document = call("import", "--partial", file, tmp_path / "log.db", "-o", "json").json
    assert (document["added"], document["files"][0]["lines_left_out"]) == (0, 1)
    assert any(problem.startswith("line 7 ") for problem in document["files"][0]["problems"])


def test_a_log_cannot_be_a_file_of_something_else(histories: Path, tmp_path: Path) -> None:
    """A dump as LOG is refused and stays unchanged."""
    dump = tmp_path / "life.jsonl"
    dump.write_bytes((histories / "life-3.9.log.jsonl").read_bytes())
    before = digest(dump)
    assert "not a SQLite file" in refusal(call("import", dump, dump))
    assert digest(dump) == before


def test_a_cluster_is_never_written_to(histories: Path) -> None:
    """`import` refuses a LOG that is a cluster."""
    result = call("import", histories / "life-3.9.log.jsonl", "kafka://127.0.0.1:1")
    assert "is a cluster, which is only read" in refusal(result)


KCAT = (
    '{"topic":"connect-configs","partition":0,"offset":5,"tstype":"create","ts":1700000000000,'
    '"broker":1,"key":"connector-c","payload":"{\\"properties\\":{\\"name\\":\\"c\\"}}"}\n'
)
CONSOLE = (
    'CreateTime:1700000000000\tPartition:0\tOffset:5\tconnector-c\t{"properties":{"name":"c"}}\n'
)


@pytest.mark.parametrize(
    ("form", "text", "options"),
    [("kcat", KCAT, []), ("console", CONSOLE, ["--topic", "connect-configs"])],
)
def test_formats_are_detected(tmp_path: Path, form: str, text: str, options: list[str]) -> None:
    """Dumps of other tools are imported and inspected without a format option."""
    (tmp_path / "dump").write_text(text, "utf-8")
    result = call("import", tmp_path / "dump", tmp_path / "log.db", *options, "-o", "json")
    assert (result.code, result.json["files"][0]["format"]) == (0, form)
    (entry,) = contents(tmp_path / "log.db")
    assert (entry.offset, entry.timestamp, entry.key) == (5, 1700000000000, b"connector-c")
    overview = call("inspect", tmp_path / "dump", *options, "-o", "json").json
    assert [row["name"] for row in overview["connectors"]] == ["c"]


def test_fields_that_a_format_lacks_are_assumed_and_reported(tmp_path: Path) -> None:
    """Missing partitions and offsets are assumed and reported; exit code 0."""
    dump, log = tmp_path / "dump", tmp_path / "log.db"
    dump.write_text("CreateTime:5\tconnector-c\t{}\n", "utf-8")
    result = call("import", dump, log, "--topic", "connect-configs", columns=200)
    assert result.code == 0
    assert (
        f"{dump}: line 1 has no offset: offsets were counted from 0 in each partition" in result.out
    )
    assert (
        f"{dump}: line 1 has no partition: all records were assigned to partition 0" in result.out
    )
    (entry,) = contents(log)
    assert (entry.position, entry.key) == (("connect-configs", 0, 0), b"connector-c")


def test_bytes_that_a_tool_replaced_are_a_loss(tmp_path: Path) -> None:
    """U+FFFD in place of bytes is imported and reported as a loss; exit code 1."""
    dump = tmp_path / "dump"
    dump.write_text("CreateTime:5\tconnector-\ufffd\t{}\n", "utf-8")
    result = call("import", dump, tmp_path / "log.db", "--topic", "connect-configs", columns=200)
    assert result.code == 1
    assert f"{dump}: line 1 holds U+FFFD" in result.out


DEPRECATED = (
    "Option --property is deprecated and will be removed in a future version. "
    "Use --formatter-property instead.\n"
)


def test_remarks_of_a_tool_are_reported_and_no_loss(tmp_path: Path) -> None:
    """Remarks of a tool are reported, one line per tool; exit code 0, as no record is lost."""
    dump, log = tmp_path / "dump", tmp_path / "log.db"
    dump.write_text(f"{DEPRECATED}{CONSOLE}Processed a total of 1 messages\n", "utf-8")
    result = call("import", dump, log, "--topic", "connect-configs", columns=200)
    remark = "2 lines are remarks of the console consumer, not records"
    assert result.code == 0
    assert f"{dump}: {remark}\n" in result.out
    assert len(contents(log)) == 1
    again = call("import", dump, log, "--topic", "connect-configs", "-o", "json")
    (file,) = again.json["files"]
    assert (again.code, file["problems"], file["remarks"]) == (0, [], [remark])
    assert file["lines_left_out"] == 0
    inspected = call("inspect", dump, "--topic", "connect-configs")
    assert f"{dump}: {remark}\n" in inspected.err


def test_a_total_beyond_the_records_is_a_loss(tmp_path: Path) -> None:
    """A dump whose total exceeds its records gives exit code 1."""
    dump = tmp_path / "dump"
    dump.write_text(f"{CONSOLE}Processed a total of 2 messages\n", "utf-8")
    result = call("import", dump, tmp_path / "log.db", "--topic", "connect-configs", columns=200)
    assert result.code == 1
    assert "line 2 reports 2 records, but the file has 1" in result.out


def test_a_single_argument_is_refused() -> None:
    """One argument is taken for FILE; the sentence names the missing LOG."""
    for words in (("cluster.jsonl",), ("--partial", "cluster.jsonl")):
        result = call("import", *words)
        assert result.code == 2
        assert "Missing argument 'LOG': cluster.jsonl is the only word." in result.err
    assert "Missing argument 'FILE...'" in call("import").err


def test_a_log_with_a_control_plane_takes_no_import(tmp_path: Path) -> None:
    """A service is the only writer of its log, so an import beside it is refused."""
    log = tmp_path / "control.log"
    with writer_lock(log):
        refused = call("import", ROOT / "tests/histories/life-3.9.log.jsonl", log)
    assert f"is the control plane of {log}" in refusal(refused)
    assert not log.exists()


@pytest.mark.parametrize("held", [True, False])
def test_a_log_that_another_process_created_meanwhile_stays(
    histories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    """A refused import removes no log that another process created while FILE was read."""
    log = tmp_path / "log.db"
    entries = [Entry("connect-configs", 0, 0, 1, b"connector-other", b"{}")]
    with ExitStack() as stack:

        def read_slowly(path: Path, how: OpenOptions) -> Dump:
            embedded(log, entries)
            if held:
                stack.enter_context(writer_lock(log))
            return open_dump(path, how)

        monkeypatch.setattr(import_command, "open_dump", read_slowly)
        message = refusal(call("import", histories / "life-3.9.log.jsonl", log))
    assert ("is the control plane" if held else "another entry lies there") in message
    assert contents(log) == entries


def test_a_failed_import_removes_the_log_that_it_created(
    histories: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that the import created disappears with its companions; an existing one stays."""
    file, log = histories / "life-3.9.log.jsonl", tmp_path / "log.db"

    async def fail(log: SqliteLog, _: object) -> None:
        raise LogUnavailable("no room")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteLog, "set_assumed_partitions", fail)
        assert refusal(call("import", file, log)) == "no room"
        assert not list(tmp_path.iterdir())
    call("import", file, log)
    monkeypatch.setattr(SqliteLog, "set_assumed_partitions", fail)
    assert refusal(call("import", file, log)) == "no room"
    assert len(contents(log)) == 354


def test_the_root_directory_is_no_log(histories: Path) -> None:
    """A directory as LOG is refused with a sentence, even `/`, which has no name."""
    message = refusal(call("import", histories / "life-3.9.log.jsonl", "/"))
    assert message.startswith("/ is a directory, not a log")


def names(folder: Path) -> list[str]:
    """Names of the files in a folder."""
    return [file.name for file in folder.iterdir()]


@pytest.mark.parametrize("steps", range(1, 4))
async def test_ctrl_c_while_the_file_is_created_leaves_none(tmp_path: Path, steps: int) -> None:
    """A thread creates the file; the command ends only after it, and removes the file."""
    target = import_command.ImportTarget(tmp_path / "log.db", SqliteSettings())
    adding = asyncio.create_task(import_command._add(target, [], []))
    for _ in range(steps):
        await asyncio.sleep(0)
    adding.cancel()
    await asyncio.wait([adding])
    await asyncio.get_running_loop().shutdown_default_executor()
    assert adding.cancelled()
    assert names(tmp_path) == []
