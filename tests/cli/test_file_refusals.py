"""Unreadable files and files of another kind: each command prints the same sentence."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.cli.main import COMMANDS, main
from tests.cli.command_calls import call, refusal, unprivileged
from tests.conftest import open_folder

COMMAND_LINES = {
    "apply -f {}": "",
    "diff -f {}": "",
    "bundle import {}": "",
    "offsets alter orders -f {} -c {log}": "",
    "get --token @{} -c http://127.0.0.1:1": "",
    "get --ca-file {} -c https://127.0.0.1:1": "--ca-file: ",
    "inspect {log} --plugins {}": "--plugins: ",
    "inspect {log} --worker-properties {}": "--worker-properties: ",
    "config --worker-properties {}": "--worker-properties: ",
    "plan {log} PUT /connectors/orders/config @{}": "",
    "verify {log} {}": "",
    "scenario run {}": "",
    "serve {log} --port 0 --override plugins.catalogue={}": "plugins.catalogue: ",
}
"""Command line with a file → beginning of the sentence before the file's problem."""

FAILURES = {
    "missing": "(No such file or directory): check the path",
    "closed": "(Permission denied): check the access rights of the file and its directory",
    "loop": "(Too many levels of symbolic links): check where the symbolic link leads",
    "folder": "(Is a directory): name a file",
}
FOLDERS_TAKEN = ("apply -f {}", "diff -f {}", "scenario run {}")


@pytest.fixture(scope="module")
def log(histories: Path) -> Iterator[Path]:
    """Embedded log that every user may read."""
    with open_folder() as folder:
        log = folder / "life.db"
        assert call("import", histories / "life-3.9.log.jsonl", log).code == 0
        yield log


@pytest.fixture
def folder(open_path: Path) -> Path:
    """Folder with a file of each kind."""
    (open_path / "closed").write_text("name=a\n", "ascii")
    (open_path / "closed").chmod(0)
    (open_path / "loop").symlink_to("loop")
    (open_path / "folder").mkdir()
    for name in COMMANDS:  # the user `nobody` cannot import them later
        main.get_command(main.make_context("controlplane", [name]), name)
    return open_path


@pytest.mark.parametrize("line", COMMAND_LINES)
@pytest.mark.parametrize("kind", FAILURES)
def test_every_command_names_a_file_that_cannot_be_read(
    line: str, kind: str, log: Path, folder: Path
) -> None:
    """Each command prints the same sentence for missing or denied files, loops and folders."""
    if kind == "folder" and line in FOLDERS_TAKEN:
        return
    words = [word.format(folder / kind, log=log) for word in line.split()]
    if kind == "closed" and "{log}" not in line:
        with unprivileged():
            result = call(*words)
    elif kind == "closed":
        return  # the user `nobody` would need the right to read the log itself
    else:
        result = call(*words)
    begin = COMMAND_LINES[line]
    assert refusal(result) == f"{begin}{folder / kind} cannot be read {FAILURES[kind]}"


@pytest.mark.parametrize("line", ["inspect {}", "get -c {}", "stop orders -c {}", "import {} x.db"])
def test_a_log_behind_a_loop_of_links_is_refused(line: str, folder: Path) -> None:
    """A link loop counts as an existing file that cannot be read."""
    words = [word.format(folder / "loop") for word in line.split()]
    assert refusal(call(*words)) == f"{folder / 'loop'} cannot be read {FAILURES['loop']}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("apply -f {}", "connectors in JSON, YAML or .properties"),
        ("bundle import {}", "a file of `bundle export`"),
        ("offsets alter orders -f {} -c {log}", "offsets as `offsets get -o json` prints them"),
    ],
)
def test_a_file_that_is_no_text_or_empty_is_refused(
    line: str, expected: str, log: Path, tmp_path: Path
) -> None:
    """The sentence names the problem and the expected content, not missing connectors."""
    file = tmp_path / "picture.png"
    words = [word.format(file, log=log) for word in line.split()]
    for content in (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "{}".encode("utf-16"), bytes(range(256))):
        file.write_bytes(content)
        assert refusal(call(*words)) == f"{file} is no text in UTF-8: give {expected}"
    file.write_bytes(b" \n")
    assert refusal(call(*words)) == f"{file} is empty: give {expected}"


def test_standard_input_that_is_no_text_is_refused() -> None:
    """The error for bytes that are no UTF-8 names standard input."""
    result = call("apply", "-f", "-", typed="\0\1\2")
    assert refusal(result).startswith("standard input is no text in UTF-8: give connectors")


@pytest.mark.parametrize("content", [b"", b"\0\1\n\2\n", b"\xff\xfe{\0}\0\n\0"])
def test_a_file_without_a_story_is_refused(content: bytes, log: Path, tmp_path: Path) -> None:
    """The sentence has the whole path, and the expected content."""
    file = tmp_path / "file"
    file.write_bytes(content)
    message = refusal(call("verify", log, file, "--plugins", "tests/histories/catalogue.json"))
    assert message.startswith(str(file))
    assert message.endswith(": give the .story.jsonl of a history")


def test_a_file_without_a_scenario_is_refused(tmp_path: Path) -> None:
    """The sentence names the file and the expected content, for text, bytes and empty files."""
    file = tmp_path / "file"
    for content, expected in {
        b"\x80\x81": "give a .scenario file",
        b"": "the file has no step: begin with `cluster w1@3.9`",
    }.items():
        file.write_bytes(content)
        message = refusal(call("scenario", "run", file))
        assert message.startswith(f"{file}: ")
        assert message.endswith(expected)
