"""Standard streams that are closed, full or interrupted: exit codes tell what was done."""

import errno
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.cli import scenario_command
from controlplane.cli.main import main
from controlplane.terminal.exit_codes import INTERRUPTED, NOT_PRINTED, REFUSED
from controlplane.terminal.output import say
from tests.cli.command_calls import ROOT, CommandResult, call
from tests.forked_commands import command_line
from tests.patience import PATIENCE_S, wait_until
from tests.process_states import process_state

pytestmark = pytest.mark.slow

LIFE = ROOT / "tests/histories/life-3.9.log.jsonl"


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Embedded log with the recorded connectors."""
    path = tmp_path_factory.mktemp("imported") / "life.db"
    assert call("import", LIFE, path).code == 0
    return path


@pytest.fixture
def log(imported: Path, tmp_path: Path) -> str:
    """Copy of this log."""
    return f"sqlite:///{shutil.copy(imported, tmp_path)}"


def bash(words: str) -> CommandResult:
    """Run a line of shell in which CP stands for `controlplane`."""
    is_closed = "&-" in words  # a fork gets open streams only
    program = f"{sys.executable} -m controlplane" if is_closed else command_line("controlplane")
    line = words.replace("CP", program)
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, check=False)
    return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())


def sleeps(process: int) -> bool:
    """True if the main thread waits; a signal before that would be seen only after an answer."""
    return process_state(process) == "S"


def has(log: str, connector: str) -> bool:
    """True if the log has this connector."""
    return call("get", connector, "-c", log).code == 0


def test_a_closed_output_is_refused_before_the_change(log: str) -> None:
    """Exit code 2 means that nothing was changed."""
    assert bash(f"CP delete pages -c {log} >&-").code == REFUSED
    assert has(log, "pages")


def test_a_full_output_is_named_after_the_change(log: str) -> None:
    """The exit code differs from a refusal, because the connector is gone."""
    done = bash(f"CP delete pages -c {log} >/dev/full")
    assert done.code == NOT_PRINTED
    assert "Changes that the command has made stay" in done.err
    assert not has(log, "pages")


def test_a_full_disk_of_a_file_keeps_the_output(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error without a file name is no failure of standard output, which stays open."""

    def fail(*_: object) -> None:
        say("first")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(scenario_command, "play_all", fail)
    with pytest.raises(SystemExit, match=f"^{NOT_PRINTED}$"):
        main(["scenario", "run", str(ROOT / "scenarios")])
    say("later")
    printed = capfd.readouterr()
    assert printed.out == "first\nlater\n"
    assert "a file or the output cannot be written (No space left on device)" in printed.err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("CP stop pages -c LOG 2>&-", 0),
        pytest.param("CP stop --all -c LOG 2>&-", 0, marks=pytest.mark.prove),
        ("CP get nobody -c LOG 2>/dev/full", 3),
        pytest.param("CP get nobody -c LOG 2>&-", 3, marks=pytest.mark.prove),
        ("CP apply -f - -c LOG <&-", REFUSED),
        pytest.param(
            "CP credential password bob --role view <&-", REFUSED, marks=pytest.mark.prove
        ),
    ],
)
def test_other_streams_change_no_exit_code(log: str, words: str, code: int) -> None:
    """A full or closed standard error drops its lines; a closed standard input is empty."""
    assert bash(words.replace("LOG", log)).code == code


@pytest.mark.parametrize("answer", [b"", b"y\n"])
def test_ctrl_c_at_a_prompt_changes_nothing(log: str, answer: bytes) -> None:
    """The command ends at once, so an answer after Ctrl-C deletes nothing."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "controlplane", "delete", "--all", "-c", log]
    process = subprocess.Popen(words, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        shown = b""
        while b"[y/N]: " not in shown:
            shown += os.read(ours, 1024)
        wait_until(lambda: sleeps(process.pid), "the wait for the answer")
        process.send_signal(signal.SIGINT)
        os.write(ours, answer)
        assert process.wait(PATIENCE_S) == INTERRUPTED
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert has(log, "pages")


def test_ctrl_c_ends_the_wait_for_a_token(tmp_path: Path) -> None:
    """A token may come from a pipe; the first Ctrl-C ends the wait for it."""
    pipe = tmp_path / "token"
    os.mkfifo(pipe)
    words = ["get", "-c", "http://127.0.0.1:1", "--token", f"@{pipe}"]
    with subprocess.Popen(
        [sys.executable, "-m", "controlplane", *words], cwd=ROOT, stderr=subprocess.PIPE
    ) as process:
        with pipe.open("wb"):  # opened as soon as the command reads
            process.send_signal(signal.SIGINT)
            try:
                assert process.communicate(timeout=PATIENCE_S)[1] == b"interrupted\n"
            finally:
                process.kill()
        assert process.returncode == INTERRUPTED


def test_a_question_without_a_terminal_names_the_option(log: str) -> None:
    """The command ends without a change, and names the option for scripts."""
    refused = bash(f"CP delete --all -c {log} </dev/null")
    assert refused.code != 0
    assert "there is no terminal to answer on: add --yes" in refused.err
    assert has(log, "pages")


def test_a_password_without_a_terminal_is_refused() -> None:
    """The message says how to give the password; Python's own warning is not printed."""
    refused = bash("setsid -w CP get -c http://127.0.0.1:1 --user ada </dev/null")
    assert refused.code != 0
    assert "there is no terminal to type the password on: give NAME:PASSWORD" in refused.err
    assert "GetPassWarning" not in refused.err


def test_no_match_is_reported(log: str) -> None:
    """A command that selects no connector is done, and says that none matches."""
    done = call("stop", "--state", "RESTARTING", "-c", log)
    assert (done.code, done.out) == (0, "")
    assert done.err.strip() == "no connector is selected: none matches"


@pytest.mark.parametrize("seconds", ["nan", "inf", "1e400"])
def test_a_number_is_finite(log: str, seconds: str) -> None:
    """A time-out that never passes is refused like other numbers outside of the range."""
    refused = call("stop", "pages", "--wait", "--timeout", seconds, "-c", log)
    assert refused.code == REFUSED
    assert f"'{seconds}' is no number from 0 on" in refused.err
