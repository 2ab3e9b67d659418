"""Command line as a whole: commands, help, exit codes."""

import fcntl
import os
import signal
import subprocess
import sys
from subprocess import PIPE

import click
import pytest
from click.testing import CliRunner

import controlplane
from controlplane.cli.main import COMMANDS, SECTIONS, CommandGroup
from controlplane.terminal.exit_codes import CLOSED_PIPE, INTERRUPTED, NOT_PRINTED
from tests.cli.command_calls import ROOT, CommandResult, call, refusal, shell
from tests.conftest import sampled
from tests.forked_commands import command_line
from tests.patience import PATIENCE_S

LIFE = "tests/histories/life-3.9.log.jsonl"


def test_help_lists_every_command() -> None:
    """`controlplane --help` lists all commands in the documented order."""
    result = call("--help")
    places = [result.out.find(f"\n  {name} ") for name in COMMANDS]
    assert result.code == 0
    assert -1 not in places
    assert places == sorted(places)


def test_the_package_docstring_lists_every_command() -> None:
    """The package's docstring has the command lists of `--help`."""
    words = " ".join((controlplane.__doc__ or "").split())
    for section in SECTIONS.values():
        assert f"`controlplane {' | '.join(section)}`" in words


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    """Each command can be imported, and has a help text."""
    result = call(name, "--help")
    assert (result.code, result.err) == (0, "")
    assert "Usage: " in result.out


@pytest.mark.parametrize(
    ("name", "everyday"), [("inspect", "--as-of"), ("verify", "--exactly-once"), ("import", "-o")]
)
def test_everyday_options_come_first(name: str, everyday: str) -> None:
    """Rare options (topic names, formats of dumps) come last in the help."""
    help_text = call(name, "--help").out
    assert 0 < help_text.find(f"  {everyday}") < help_text.find("  --config-topic")


def test_an_unknown_command_is_refused() -> None:
    """An unknown command gives exit code 2, as all wrong usage."""
    result = call("inspekt", "x")
    assert result.code == 2
    assert "No such command 'inspekt'" in result.err


def test_inspecting_imports_no_server_and_no_client() -> None:
    """`inspect` does not import packages that only other commands need."""
    code = (
        "import sys; from controlplane.cli.main import main\n"
        f"main(['inspect', '{LIFE}'], standalone_mode=False)\n"
        "sys.exit(bool({'aiokafka', 'uvicorn', 'starlette', 'structlog'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_a_process_of_its_own_exits_as_promised() -> None:
    """Exit code 0 for an answer, 2 for a refusal; standard output has only the answer."""
    assert shell("inspect", LIFE).code == 0
    refused = shell("inspect", "nowhere.jsonl")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "Error: nowhere.jsonl does not exist: check the path\n"


def bash(words: str) -> CommandResult:
    """Run a line of shell; the exit code is the first command's."""
    done = subprocess.run(
        ["bash", "-c", f"{words}; exit ${{PIPESTATUS[0]}}"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    return CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_reader_may_leave_in_the_middle() -> None:
    """Python's unbuffered output would ignore that only a part was written."""
    command = [sys.executable, "-m", "controlplane", "inspect", LIFE]
    command += ["--history", "pages", "-o", "json"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=PIPE, bufsize=0, env=environment) as process:
        assert process.stdout is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        process.stdout.read(1)
        process.stdout.close()
        assert process.wait(PATIENCE_S) == CLOSED_PIPE


@pytest.mark.parametrize("view", ["", "-o json", "--history pages", "--rest"])
def test_a_reader_may_leave_early(view: str) -> None:
    """A closed pipe ends the command without a word, and its exit code is no success."""
    result = bash(f"{command_line('controlplane')} inspect {LIFE} {view} | true")
    assert (result.code, result.err) == (CLOSED_PIPE, "")


@pytest.mark.parametrize("view", sampled(["", "-o json", "--history pages"], ""))
def test_output_that_cannot_be_written_is_an_error(view: str) -> None:
    """A closed output is refused; a full disk has an exit code of its own."""
    anew = f"{sys.executable} -m controlplane"
    assert "is closed" in refusal(bash(f"{anew} inspect {LIFE} {view} >&-"))
    full = bash(f"{command_line('controlplane')} inspect {LIFE} {view} >/dev/full")
    assert full.code == NOT_PRINTED
    assert "(No space left on device)" in full.err


@pytest.mark.parametrize("words", ["--help", "--version", "inspect --help", "completion bash"])
def test_a_help_on_a_full_disk_is_an_error(words: str) -> None:
    """A full disk is named for a help, too, in both programs."""
    for program in ("controlplane", "replay"):
        full = bash(f"{command_line(program)} {words.replace('inspect', '')} >/dev/full")
        assert full.code == NOT_PRINTED
        assert "cannot be written (No space left on device)" in full.err


def test_an_interrupt_during_the_imports_prints_one_line() -> None:
    """Ctrl-C during the imports ends the program as Ctrl-C during a command does."""
    interrupting = (
        "import importlib.abc, runpy, sys\n"
        "class Interrupt(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "runpy.run_module(sys.argv[1], run_name='__main__')\n"
    )
    for program in ("controlplane", "replay"):
        done = subprocess.run(
            [sys.executable, "-c", interrupting, program],
            cwd=ROOT,
            capture_output=True,
            check=False,
            text=True,
        )
        assert (done.returncode, done.stdout, done.stderr) == (INTERRUPTED, "", "interrupted\n")


def test_ctrl_c_during_the_exit_prints_nothing() -> None:
    """A second Ctrl-C, while the process waits for its threads, ends it at once."""
    ending = (
        "import signal, sys, threading, types\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job\n"
        "from controlplane.terminal.program import run\n"
        "def wait():\n"
        "    threading.main_thread().join()\n"
        "    print('exit', flush=True)\n"
        "    sys.stdin.read()\n"
        "def main(prog_name):\n"
        "    threading.Thread(target=wait).start()\n"
        "sys.modules['commands'] = types.SimpleNamespace(main=main)\n"
        "run('controlplane', 'commands')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", ending],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "exit\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate() == ("", "")
    assert process.returncode == -signal.SIGINT


HOSTILE = "\x9b31m\u202ea\nb"
"""Text that would control a terminal."""


class DefectiveCommand(click.Command):
    """Command that raises an error."""

    def invoke(self, ctx: click.Context) -> None:
        """Raise the error that the first argument names."""
        raise {
            "defect": ValueError("oh"),
            "hostile defect": ValueError(HOSTILE),
            "refusal": click.ClickException(HOSTILE),
            "interrupt": KeyboardInterrupt(),
            "wrapped interrupt": wrapped_interrupt(),
        }[ctx.args[0]]


def wrapped_interrupt() -> Exception:
    """Error of a class statement that Ctrl-C has ended, up to Python 3.11."""
    error = RuntimeError("Error calling __set_name__")
    error.__cause__ = KeyboardInterrupt()
    return error


@pytest.mark.parametrize(
    ("how", "code", "says"),
    [
        ("defect", 70, "Error: a defect of controlplane (ValueError: oh): please report it"),
        ("interrupt", 130, "interrupted\n"),
        ("wrapped interrupt", 130, "interrupted\n"),
    ],
)
def test_defects_and_ctrl_c_have_exit_codes_of_their_own(how: str, code: int, says: str) -> None:
    """A defect and Ctrl-C print one line, with exit codes of their own."""
    group = CommandGroup(
        commands={"break": DefectiveCommand("break", context_settings={"allow_extra_args": True})}
    )
    result = CliRunner().invoke(group, ["break", how])
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(says)
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("hostile defect", r"(ValueError: \u009b31m\u202ea\nb): please report it"),
        ("refusal", "Error: \\u009b31m\\u202ea\nb\n"),
    ],
)
def test_errors_do_not_control_the_terminal(how: str, says: str) -> None:
    """Escapes replace control characters in an error; a refusal keeps its lines."""
    group = CommandGroup(
        commands={"break": DefectiveCommand("break", context_settings={"allow_extra_args": True})}
    )
    assert says in CliRunner().invoke(group, ["break", how]).stderr


def test_a_defect_prints_its_traceback_on_request() -> None:
    """With `CONTROLPLANE_DEBUG`, a defect's exception is raised: Python prints its traceback."""
    group = CommandGroup(
        commands={"break": DefectiveCommand("break", context_settings={"allow_extra_args": True})}
    )
    result = CliRunner().invoke(group, ["break", "defect"], env={"CONTROLPLANE_DEBUG": "1"})
    assert isinstance(result.exception, ValueError)
