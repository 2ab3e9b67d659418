"""Output destinations: a closed standard output, paths that are no files, narrow windows."""

import os
import re
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from controlplane.terminal.exit_codes import CLOSED_PIPE, NOT_PRINTED
from tests.conftest import sampled
from tests.recorded_requests import HISTORIES
from tests.replay.cli.replay_calls import call, refusal
from tests.replay.cli.terminal import Terminal
from tests.tidy.source import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archive of the cluster `life`."""
    folder = tmp_path_factory.mktemp("archive")
    assert call("capture", f"life={HISTORIES / 'life-3.9.log.jsonl'}", folder).code == 0
    return folder


def run_shell(command: str) -> tuple[int, str]:
    """Exit code and standard error of a shell command, in which R stands for `replay`."""
    line = command.replace("R ", f"'{sys.executable}' -m replay ", 1)
    words = ["bash", "-c", f"set -o pipefail; {line}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "command",
    sampled(["state", "timeline -o json", "history --connector pages"], "state"),
)
def test_a_full_or_closed_standard_output_is_reported_once(archive: Path, command: str) -> None:
    """A full or closed standard output gives one error line; a closed pipe only an exit code."""
    code, error = run_shell(f"R {command} {archive} > /dev/full")
    assert (code, error.count("\n")) == (NOT_PRINTED, 1), error
    assert "standard output cannot be written (No space left on device)" in error
    code, error = run_shell(f"R {command} {archive} >&-")
    assert (code, error.count("\n")) == (2, 1), error
    assert run_shell(f"R {command} {archive} | true") == (CLOSED_PIPE, "")


@pytest.mark.parametrize(
    "words",
    [
        ("audit", "-o", "json"),
        ("audit", "--trail", "nobody=/nowhere"),
        ("lint", "--release", "3.9"),
        ("compat", "--from", "3.9", "--to", "3.8", "-o", "junit"),
        ("report", "--file", "page.html"),
    ],
    ids=["audit", "trail", "lint", "compat", "report"],
)
def test_output_contains_no_login(words: tuple[str, ...], tmp_path: Path) -> None:
    """Without `--cluster`, the name of a cluster is its URL without the login."""
    page = tmp_path / "page.html"
    words = tuple(str(page) if word == page.name else word for word in words)
    log = HISTORIES / "roll-3.4-3.9-3.4.log.jsonl"
    result = call(*words, "kafka://me:hunter2@127.0.0.1:1", log)
    assert (result.code, "kafka://127.0.0.1:1" in result.err) == (2, True)
    output = result.out + result.err + (page.read_text() if page.exists() else "")
    assert "hunter2" not in output


def test_links_and_pipes_are_kept(archive: Path, tmp_path: Path) -> None:
    """`--to` writes through links and into pipes, and does not replace them."""
    real, link, pipe = tmp_path / "real.parquet", tmp_path / "link.parquet", tmp_path / "pipe"
    link.symlink_to(real)
    words = ("timeline", archive, "-o", "parquet", "--to")
    assert call(*words, link).code == 0
    assert link.is_symlink()
    os.mkfifo(pipe)
    read: list[bytes] = []
    reading = Thread(target=lambda: read.append(pipe.read_bytes()))
    reading.start()
    assert call("report", archive, "--to", pipe).code == 0
    reading.join()
    assert pipe.is_fifo()
    assert read[0].startswith(b"<!doctype html>")
    assert real.read_bytes().startswith(b"PAR1")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "link.parquet",
        "pipe",
        "real.parquet",
    ]


def test_the_pipe_of_a_shell_is_written(archive: Path) -> None:
    """`report --file /dev/stdout | less` and `--file >(gzip)` name pipes without a path."""
    reader, writer = os.pipe()
    read: list[bytes] = []
    with os.fdopen(reader, "rb") as pipe:
        reading = Thread(target=lambda: read.append(pipe.read()))
        reading.start()
        try:
            assert call("report", archive, "--file", f"/dev/fd/{writer}").code == 0
        finally:
            os.close(writer)
            reading.join()
    assert read[0].startswith(b"<!doctype html>")


def test_a_circle_of_links_is_refused(archive: Path, tmp_path: Path) -> None:
    """A file or folder that links to itself is unusable, and not a defect."""
    (loop := tmp_path / "loop").symlink_to("loop")
    reason = "(Too many levels of symbolic links)"
    written = call("report", archive, "--file", loop)
    assert refusal(written).startswith(f"{loop} cannot be written {reason}")
    assert refusal(call("state", loop)).startswith(f"{loop} cannot be read {reason}")
    for options in (
        ("state", archive, "-o", "parquet", "--folder"),
        ("watch", archive, "--once", "--checkpoint"),
    ):
        assert "cannot be" in refusal(call(*options, loop))


@pytest.mark.parametrize("words", [("state",), ("timeline",), ("diff", "--from", "config@3")])
def test_a_pipe_is_refused_for_parquet(
    archive: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Parquet cannot be written into a pipe; the command neither opens nor removes the pipe."""
    os.mkfifo(pipe := tmp_path / "pipe")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        command, *rest = words
        message = refusal(call(command, archive, *rest, "-o", "parquet", "--file", pipe))
    finally:
        os.close(reader)
    assert message == f"{pipe} is a pipe, and Parquet needs a file: name a file"
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    "words",
    [("state", "-o", "parquet"), ("diff", "--from", "config@3", "-o", "parquet"), ("report",)],
)
def test_unwritable_paths_are_refused(
    archive: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Each command refuses a folder, and a path in a missing folder."""
    command, *rest = words
    for place in (tmp_path, tmp_path / "none" / "x"):
        assert "cannot be written (" in refusal(call(command, archive, *rest, "--file", place))


def test_a_narrow_window_cuts_nothing_off(archive: Path) -> None:
    """A window of 60 columns wraps a long value, and shows all of it."""
    shown = call("verify", archive, columns=60).out
    (cluster,) = call("verify", archive, "-o", "json").json
    assert cluster["head"] not in shown
    assert cluster["head"] in "".join(shown.split())


@pytest.mark.parametrize("columns", sampled([40, 60], 40))
def test_tables_of_sentences_break_between_words_in_narrow_windows(columns: int) -> None:
    """No word of a finding is broken: a table that is too wide becomes a block of lines per row."""
    result = call("audit", HISTORIES / "odd-records-3.9.log.jsonl", columns=columns)
    shown = result.out.partition("\n\n")[0]
    assert max(map(len, shown.splitlines())) <= columns
    expected = {"unreadable-records", "(cluster)", "connect-configs:", "undecodable"}
    assert expected <= {*shown.split()}


def test_sentences_on_a_terminal_break_between_words() -> None:
    """Lines break between words; the terminal itself would cut words."""
    log = HISTORIES / "roll-3.4-3.9-3.4.log.jsonl"
    words = ("compat", str(log), "--from", "3.4", "--to", "3.9")
    piped = call(*words)
    terminal = Terminal()
    narrow = {**os.environ, "TERM": "xterm", "COLUMNS": "50"}
    command = [sys.executable, "-m", "replay", *words]
    try:
        ended = subprocess.run(command, cwd=ROOT, env=narrow, stdout=terminal.theirs, check=False)
    finally:
        # The guard of `make quick` (`tests.no_processes`) skips the test when it starts a process.
        # Even then this end must be closed: the thread of `Terminal` reads until it is, and the
        # test run waits for the thread.
        os.close(terminal.theirs)
    terminal.close()
    assert ended.returncode == piped.code
    sentences = [line for line in piped.out.splitlines() if len(line) > len("-" * 50)]
    long_words = {word for line in sentences for word in line.split() if len(word) < len("-" * 24)}
    assert sentences
    plain = re.sub(r"\x1b\[[\d;?]*\w", "", terminal.screen_text)
    assert {word for word in long_words if word.isalpha()} <= {*plain.split()}
    assert max(map(len, plain.splitlines())) <= len("-" * 50)


@pytest.mark.parametrize(
    "words",
    [
        ("state", "-o", "parquet", "--folder"),
        ("diff", "--from", "config@3", "-o", "parquet", "--folder"),
        ("audit", "--resume"),
        ("watch", "--once", "--checkpoint"),
    ],
)
@pytest.mark.parametrize("place", ["cluster=new", "cluster=new/x", "cluster=life/x"])
def test_no_files_are_written_into_the_folder_of_a_cluster(
    archive: Path, words: tuple[str, ...], place: str
) -> None:
    """New files would count as those of an archived cluster, and later commands would fail."""
    files = {*archive.rglob("*")}
    command, *options = words
    sentence = refusal(call(command, archive, *options, archive / place))
    assert "lies in a folder cluster=…, as those of an archive are named" in sentence
    assert {*archive.rglob("*")} == files
