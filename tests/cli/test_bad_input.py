"""Bad input gives one clear sentence with the remedy and exit code 2, and changes nothing."""

import hashlib
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import controlplane.cli.copies.import_command
import controlplane.cli.inspect
import controlplane.cli.verify.verify_command  # noqa: F401 - user `nobody` cannot import it: see `unprivileged`
from tests.cli.command_calls import CommandResult, call, refusal, unprivileged

BadFile = Callable[[Path, Path], Path]
"""(folder of histories, empty folder) → the bad file."""

LIFE = "life-3.9.log.jsonl"
LINES = 5


def file_with(content: bytes) -> BadFile:
    """Return a function that makes a file with this content."""

    def make(_: Path, folder: Path) -> Path:
        (folder / "bad").write_bytes(content)
        return folder / "bad"

    return make


def changed(change: Callable[[list[bytes]], list[bytes]]) -> BadFile:
    """Return a function that makes a history with some lines changed."""

    def make(histories: Path, folder: Path) -> Path:
        lines = (histories / LIFE).read_bytes().splitlines(keepends=True)
        (folder / "bad.jsonl").write_bytes(b"".join(change(lines)))
        return folder / "bad.jsonl"

    return make


def embedded(change: Callable[[Path], None]) -> BadFile:
    """Return a function that makes an embedded log, and changes it."""

    def make(histories: Path, folder: Path) -> Path:
        assert call("import", histories / LIFE, folder / "bad.db").code == 0
        change(folder / "bad.db")
        return folder / "bad.db"

    return make


def _cut_off(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:6000])


def _overwritten(log: Path) -> None:
    content = bytearray(log.read_bytes())
    content[4096:16384] = b"\xa5" * 12288
    log.write_bytes(content)


def _newer(log: Path) -> None:
    with sqlite3.connect(log) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def _foreign(log: Path) -> None:
    log.unlink()
    with sqlite3.connect(log) as connection:
        connection.execute("CREATE TABLE cookies (name TEXT)")
    connection.close()


def _directory(_: Path, folder: Path) -> Path:
    (folder / "bad").mkdir()
    return folder / "bad"


def _missing(_: Path, folder: Path) -> Path:
    return folder / "nowhere.jsonl"


BAD: dict[str, tuple[BadFile, str]] = {
    "unknown format": (file_with(b"hello\nworld\n"), "has no known format"),
    "truncated between lines": (changed(lambda lines: lines[:90]), "89 of 354 records are there"),
    "truncated within a line": (
        changed(lambda lines: [*lines[:90], lines[90][:40]]),
        "the file ends within this line",
    ),
    "half a line": (
        changed(lambda lines: [*lines[:LINES], b'{"topic":"connect-con\n', *lines[LINES:]]),
        "line 6 ",
    ),
    "non-UTF-8 line": (
        changed(lambda lines: [*lines[:LINES], b"\xc3\x28\xa0\n", *lines[LINES:]]),
        "line 6 ",
    ),
    "binary": (file_with(b"\x00\x01\x80\xff" * 64), "has no known format"),
    "UTF-16": (file_with("hello".encode("utf-16")), "is UTF-16 text: convert it"),
    "empty": (file_with(b""), ", name another file"),
    "a directory": (_directory, "is a directory: name a file in it"),
    "missing": (_missing, "does not exist: check the path"),
    "SQLite, cut off": (embedded(_cut_off), "is cut off"),
    "SQLite, corrupt": (embedded(_overwritten), "is damaged"),
    "SQLite, newer schema": (embedded(_newer), "has schema version 99, newer than"),
    "SQLite of another program": (embedded(_foreign), "SQLite file of another program"),
}


def fingerprints(folder: Path) -> dict[str, str]:
    """Every file with its content, except those that SQLite keeps beside an open log."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


def commands(bad: Path, histories: Path, folder: Path) -> dict[str, list[object]]:
    """Commands that read a log, by name."""
    story, catalogue = histories / "life-3.9.story.jsonl", histories / "catalogue.json"
    return {
        "inspect": ["inspect", bad],
        "inspect --compare": ["inspect", bad, "--compare", "3.4,3.9"],
        "inspect --history": ["inspect", bad, "--history", "pages"],
        "inspect --hazards": ["inspect", bad, "--hazards"],
        "verify": ["verify", bad, story, "--plugins", catalogue],
        "import": ["import", bad, folder / "new.db"],
    }


@pytest.mark.parametrize("case", BAD)
def test_a_bad_log_is_refused_by_every_command(case: str, histories: Path, tmp_path: Path) -> None:
    """Each command's sentence names the defect; no file appears or changes."""
    make, sentence = BAD[case]
    bad = make(histories, tmp_path)
    before = fingerprints(tmp_path)
    for arguments in commands(bad, histories, tmp_path).values():
        assert sentence in refusal(call(*arguments))
    assert fingerprints(tmp_path) == before


def test_a_log_without_access_is_refused(histories: Path, open_path: Path) -> None:
    """Denied access is refused: to a dump, an embedded log, and the folder of a new log."""
    closed = open_path / "closed"
    closed.mkdir()
    dump, log = closed / "dump.jsonl", closed / "log.db"
    dump.write_bytes((histories / LIFE).read_bytes())
    call("import", dump, log)
    for path in (dump, log):
        path.chmod(0)
    closed.chmod(0o555)
    with unprivileged():
        results = [call("inspect", dump), call("inspect", log)]
        readable = histories / LIFE
        results.append(call("import", readable, closed / "new.db"))
    sentences = list(map(refusal, results))
    assert "cannot be read (Permission denied)" in sentences[0]
    assert "Permission denied" in sentences[1]
    assert "cannot be opened (Permission denied)" in sentences[2]


@pytest.mark.slow
def test_a_locked_embedded_log_takes_no_import(histories: Path, tmp_path: Path) -> None:
    """An exclusive lock of another process stops the import."""
    log = tmp_path / "log.db"
    call("import", histories / LIFE, log)
    dump = tmp_path / "more"
    dump.write_text('CreateTime:1\tPartition:0\tOffset:9999\tconnector-new\t{"properties":{}}\n')
    addition = ["import", dump, log, "--topic", "connect-configs"]
    before = call("inspect", log, "-o", "json").json
    holder = sqlite3.connect(log, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    try:
        assert "is locked by another process" in refusal(call(*addition))
    finally:
        holder.execute("ROLLBACK")
        holder.close()
    assert call("inspect", log, "-o", "json").json == before
    assert call(*addition).code == 0
    assert call("inspect", log, "-o", "json").json != before


@pytest.fixture(scope="module")
def life(histories: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound embedded log."""
    log = tmp_path_factory.mktemp("life") / "log.db"
    call("import", histories / LIFE, log)
    return log


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--profile", "3.x"], "unknown release '3.x'"),
        (["--profile", ""], "unknown release ''"),
        (["--compare", "3.4,foo"], "unknown release 'foo'"),
        (["--as-of", "yesterday"], "'yesterday' is no point in time: write it like"),
        (["--as-of", "config@"], "'config@' is no position: write it like config@57"),
        (
            ["--as-of", "config@9999"],
            "no record at config@9999: connect-configs reaches from config@0 to config@",
        ),
        (["--as-of", "nope@1"], "the log has no record at nope@1"),
        (["--as-of", "{"], """not a vector of end offsets like '{"connect-configs":[57],"""),
        (["--as-of", '{"connect-configs":"57"}'], "not a vector of end offsets"),
        (
            ["--as-of", '{"connect-configs":[58],"connect-configs":[3]}'],
            "names the topic 'connect-configs' twice: give its end offsets once",
        ),
        (["--as-of", r'{"a":[1],"\u0061":[1]}'], "names the topic 'a' twice"),
        (["--as-of", "status@9:1"], "status@9:1: connect-status has no records in partition 9"),
        (["--as-of", '{"nope":[1]}'], "the log has no topic"),
        (["--config-topic", "nope"], "there is no topic nope (found: connect-configs"),
        (["--connector", "nope"], "there is no connector 'nope' at this point"),
        (["--history", "nope"], "no record of this log concerns a connector 'nope'"),
        (["--plugins", "README.md"], "README.md is no catalogue of connector classes"),
        (["--plugins", "README.md"], '[{"class": "org.example.MySource", "type": "source"}]'),
    ],
)
def test_unknown_names_are_refused(life: Path, options: list[str], sentence: str) -> None:
    """Unknown releases, positions, topics and connectors are refused, and bad catalogues."""
    assert sentence in refusal(call("inspect", life, *options))


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("kafka://", "no broker is named: give host:port"),
        ("kafka://here:there", "no address of a broker: give host:port"),
        ("ftp://here/log", "names no log: give kafka://host:port, sqlite:///path or"),
        ("sqlite://", "names no log"),
        ("sqlite:///nowhere.db", "nowhere.db does not exist: check the path"),
    ],
)
def test_a_name_of_no_log_is_refused(where: str, sentence: str) -> None:
    """The error lists the forms of a log's name."""
    assert sentence in refusal(call("inspect", where))


def silent_port() -> int:
    """A port of this machine without a listener."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_an_unreachable_broker_is_reported(histories: Path, tmp_path: Path) -> None:
    """Every command that reads a cluster reports the broker and creates nothing."""
    where = f"kafka://127.0.0.1:{silent_port()}"
    for arguments in commands(Path(), histories, tmp_path).values():
        words = [where if argument == Path() else argument for argument in arguments]
        assert "connection refused" in refusal(call(*words))
    assert not list(tmp_path.iterdir())


def test_an_unknown_format_or_topic_is_refused(histories: Path, tmp_path: Path) -> None:
    """An unknown format is refused, and a dump that does not name its topic."""
    assert "is no format of a dump" in refusal(
        call("inspect", histories / LIFE, "--format", "avro")
    )
    dump = tmp_path / "dump"
    dump.write_text("CreateTime:1\tPartition:0\tOffset:5\tconnector-c\tnull\n", "utf-8")
    assert "does not tell its topic: name it with --topic" in refusal(call("inspect", dump))


def test_a_corrupt_record_is_reported_and_the_rest_folded(histories: Path, tmp_path: Path) -> None:
    """The position of one corrupt record is reported; all other records are folded."""
    lines = (histories / LIFE).read_bytes().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if b'"key":"connector-orders"' in line)
    lines[at] = lines[at].replace(b'"value":"{', b'"value":"{{')
    (tmp_path / "log.jsonl").write_bytes(b"".join(lines))
    result: CommandResult = call("inspect", tmp_path / "log.jsonl", "-o", "json")
    (record,) = result.json["unreadable"]["records"]
    assert (result.code, record["position"]["topic"]) == (0, "connect-configs")
    assert len(result.json["connectors"]) == 10
