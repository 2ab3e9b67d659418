"""The command line as a whole: commands, help, exit codes."""

import subprocess
import sys

import pytest

from controlplane.__main__ import COMMANDS
from tests.cli.calling import ROOT, call, shell

LIFE = "tests/histories/life-3.9.log.jsonl"


def test_help_lists_every_command() -> None:
    """`controlplane --help`, in the order in which a newcomer needs them."""
    said = call("--help")
    places = [said.out.find(f"\n  {name} ") for name in COMMANDS]
    assert said.code == 0
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    """Each can be imported, and says what it does."""
    said = call(name, "--help")
    assert (said.code, said.err) == (0, "")
    assert "Usage: " in said.out


def test_an_unknown_command_is_refused() -> None:
    """With exit code 2, as all wrong usage."""
    said = call("inspekt", "x")
    assert said.code == 2
    assert "No such command 'inspekt'" in said.err


def test_inspecting_imports_no_server_and_no_client() -> None:
    """A command does not wait for what only others need."""
    code = (
        "import sys; from controlplane.__main__ import main\n"
        f"main(['inspect', '{LIFE}'], standalone_mode=False)\n"
        "sys.exit(bool({'aiokafka', 'uvicorn', 'starlette', 'structlog'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_a_process_of_its_own_exits_as_promised() -> None:
    """0 for an answer, 2 for a refusal, nothing but the answer on standard output."""
    assert shell("inspect", LIFE).code == 0
    refused = shell("inspect", "nowhere.jsonl")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "Error: nowhere.jsonl does not exist: check the path\n"


def test_a_reader_may_leave_early() -> None:
    """`| head -1` ends the command without a traceback."""
    words = f"{sys.executable} -m controlplane inspect {LIFE} --history pages | head -1"
    done = subprocess.run(words, shell=True, cwd=ROOT, capture_output=True, check=False)
    assert done.stdout.startswith(b"RECORD")
    assert b"Traceback" not in done.stderr
