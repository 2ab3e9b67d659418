"""Mistakes on the command line give one sentence with the remedy, exit code 2."""

from pathlib import Path

import pytest

from controlplane.logs.sqlite import files
from tests.cli.command_calls import call, refusal, unprivileged

CONSOLE = "CreateTime:1\tPartition:0\tOffset:5\tconnector-c\tnull\n"


@pytest.fixture
def tmp_path(open_path: Path) -> Path:
    """Folder that another user may enter."""
    return open_path


@pytest.fixture
def console(tmp_path: Path) -> Path:
    """Dump that does not name its topic."""
    (tmp_path / "console.txt").write_text(CONSOLE, "utf-8")
    return tmp_path / "console.txt"


def test_an_address_does_not_become_the_name_of_a_log(
    console: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`import` into `host:port` is refused, and creates no file of that name."""
    monkeypatch.chdir(tmp_path)
    result = call("import", console, "localhost:9092", "--topic", "connect-configs")
    assert "localhost:9092 may be a worker or a broker" in refusal(result)
    assert [path.name for path in tmp_path.iterdir()] == ["console.txt"]


@pytest.fixture
def embedded(console: Path, tmp_path: Path) -> Path:
    """Embedded log with the records of the console dump."""
    assert call("import", console, tmp_path / "log.db", "--topic", "connect-configs").code == 0
    return tmp_path / "log.db"


@pytest.mark.parametrize(
    ("option", "option_name"),
    [
        (["--format", "kcat"], "format"),
        (["--topic", "t"], "topic"),
        (["--partition", "3"], "partition"),
        (["--null", "nil"], "null"),
    ],
)
def test_dump_options_are_refused_for_other_logs(
    embedded: Path, option: list[str], option_name: str
) -> None:
    """Embedded logs and clusters would ignore options of dumps."""
    for where in (embedded, "kafka://127.0.0.1:1"):
        message = refusal(call("inspect", where, *option))
        assert f"{where} is no dump: leave out --{option_name}" in message


@pytest.mark.parametrize("command", ["inspect", "import"])
def test_topic_options_are_refused_for_histories(
    histories: Path, tmp_path: Path, command: str
) -> None:
    """A history names topic and partition in each line."""
    log = histories / "life-3.9.log.jsonl"
    target = [tmp_path / "new.db"] if command == "import" else []
    message = refusal(call(command, log, *target, "--topic", "connect-configs"))
    assert "is a histories dump: leave out --topic" in message
    assert not list(tmp_path.iterdir())


def test_one_import_takes_files_of_several_formats(
    histories: Path, console: Path, tmp_path: Path
) -> None:
    """Format options apply only to files that do not define their format."""
    history = histories / "life-3.9.log.jsonl"
    result = call("import", history, console, tmp_path / "log.db", "--topic", "elsewhere")
    assert result.code == 0, result.err


def test_an_invalid_topic_name_is_refused(console: Path) -> None:
    """The error says that the name is invalid, not that the topic is missing."""
    assert "'a/b' is no topic name" in refusal(call("inspect", console, "--topic", "a/b"))


def test_two_clusters_in_one_import_are_refused(histories: Path, tmp_path: Path) -> None:
    """The refusal says what to do instead."""
    logs = [histories / f"{name}.log.jsonl" for name in ("life-3.9", "life-3.4")]
    message = refusal(call("import", *logs, tmp_path / "log.db"))
    assert message.endswith("use one log for the old records and another for the new")


def test_a_file_without_access_is_refused(console: Path) -> None:
    """The refusal of an unreadable file has the remedy."""
    console.chmod(0)
    with unprivileged():
        message = refusal(call("inspect", console))
    assert "(Permission denied): check the access rights of the file and its directory" in message


def test_errors_do_not_name_the_temporary_file(
    console: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the requested log."""
    monkeypatch.setattr(files, "PAGE_BYTES", "no number;")
    message = refusal(call("import", console, tmp_path / "log.db", "--topic", "t"))
    assert f"The log {tmp_path}/log.db " in message
    assert "/.log.db" not in message


def test_errors_contain_no_login() -> None:
    """Errors about sources and targets leave the login out."""
    where = "kafka://alice:secret@127.0.0.1:1"
    for arguments in (["inspect", where], ["import", "x", where], ["import", where, "x.db"]):
        message = refusal(call(*arguments))
        assert "secret" not in message
        assert "kafka://127.0.0.1:1" in message


@pytest.mark.parametrize("release_options", [["--profile", "2.0"], ["--compare", "3.2,3.9"]])
def test_exactly_once_support_is_refused_for_old_releases(
    embedded: Path, release_options: list[str]
) -> None:
    """A worker of that release has no exactly-once support."""
    worker = embedded.with_name("worker.properties")
    worker.write_text("exactly.once.source.support=enabled\n")
    for support in (["--exactly-once"], ["--worker-properties", worker]):
        message = refusal(call("inspect", embedded, *release_options, *support))
        assert (
            "has no exactly-once support, which came with KIP-618: name a release from" in message
        )
    assert call("inspect", embedded, "--profile", "3.3", "--exactly-once").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("stop", ""),
        ("describe", "orders", ""),
        ("offsets", ""),
        ("history", ""),
        ("watch", ""),
        ("watch", "--after", ""),
        ("bundle", "export", ""),
        ("diff", "", "--from", "config@0"),
        ("diff", "orders", "--from", ""),
        ("diff", "orders", "--from", "config@0", "--to", ""),
        ("undo", "orders", "--to", ""),
        ("apply", "-f", ""),
        ("diff", "-f", ""),
    ],
)
def test_empty_arguments_are_refused(
    embedded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """An empty value is no name, no moment and not the current directory: nothing is done."""
    monkeypatch.chdir(tmp_path)
    result = call(*words, "-c", embedded)
    assert (result.code, result.out) == (2, ""), result
    assert "it is empty: give a value, or leave it out" in result.err


@pytest.mark.parametrize("option", ["--compare", "--connector", "--history"])
def test_an_empty_choice_of_inspect_is_refused(embedded: Path, option: str) -> None:
    """An empty value does not select everything."""
    result = call("inspect", embedded, option, "")
    assert (result.code, result.out) == (2, ""), result
    assert f"'{option}': it is empty" in result.err


def test_a_misspelt_type_of_plugins_is_refused(embedded: Path) -> None:
    """An unknown type is refused, instead of an empty list."""
    result = call("plugins", "--type", "convrter", "-c", embedded)
    assert (result.code, result.out) == (2, "")
    assert "'convrter' is not one of 'source', 'sink'," in result.err


@pytest.mark.parametrize(
    ("words", "number", "valid"),
    [
        (("serve", "x.db", "--port"), "x", "whole number from 0 to 65535"),
        (("serve", "x.db", "--port"), "65536", "whole number from 0 to 65535"),
        (("history", "orders", "--last"), "0", "whole number from 1 on"),
        (("stop", "orders", "--timeout"), "soon", "number from 0 on"),
        (("verify", "x.db", "--timeout"), "0", "number above 0"),
    ],
)
def test_a_number_out_of_range_is_refused_with_the_range(
    words: tuple[str, ...], number: str, valid: str
) -> None:
    """The error names the valid range."""
    result = call(*words, number)
    assert (result.code, result.out) == (2, "")
    assert f"'{number}' is no {valid}" in result.err
