"""docs/cli.md lists every exit code of both programs; tests here cause each one."""

import re
from pathlib import Path
from typing import NoReturn

import click
import pytest
from click.testing import CliRunner

from controlplane.cli.main import main as controlplane
from replay.cli.main import COMMANDS, ReplayGroup
from replay.cli.main import main as replay
from tests.docs.consoles import ROOT
from tests.recorded_requests import HISTORIES

LIFE = str(HISTORIES / "life-3.9.log.jsonl")
ODD = str(HISTORIES / "odd-records-3.9.log.jsonl")
BEFORE = str(HISTORIES / "compacted-3.9.before.log.jsonl")
EXACTLY_ONCE = str(HISTORIES / "exactly-once-3.9.log.jsonl")
NOWHERE = ("--cluster", "http://127.0.0.1:1")
OURS = ("--cluster", "sqlite:///state.db")
CONNECTOR = '{"name": "a", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}'

SEEN = {
    "controlplane": (
        (("apply", "-f", "a.json", *OURS), 0),
        (("diff", "-f", "b.json", *OURS), 1),
        (("plan", LIFE, "PUT", "/connectors/nobody/stop"), 1),
        (("inspect", ODD, "--hazards", "--fail"), 1),
        (("inspect", "nowhere"), 2),
        (("verify", LIFE, "a.json"), 2),
        (("stop", "nobody", *OURS), 3),
        (("get", "nobody", *OURS), 3),
        (("stop", "a", *NOWHERE), 4),
        (("stop", "a", *OURS, "--wait", "--timeout", "1"), 5),
    ),
    "replay": (
        (("capture", f"life={LIFE}", "fleet", "--once"), 0),
        (("verify", "fleet"), 0),
        (("diff", "fleet", "--from", "config@9", "--to", "config@9"), 0),
        (("diff", "fleet", "--from", "config@9", "--to", "config@11"), 1),
        (("compat", LIFE, "--from", "3.9", "--to", "3.4"), 1),
        (("compat", EXACTLY_ONCE, "--from", "3.9", "--to", "3.2"), 2),
        (("lint", BEFORE, "--release", "3.4"), 1),
        (("audit", LIFE), 1),
        (("state", "fleet", "--as-of", "2001-01-01"), 2),
        (("report", "nowhere", "--file", "page.html"), 2),
    ),
}
"""Commands with their exit codes, in order. Some need files of earlier ones."""

ENDS = {70, 74, 130, 141}
"""Exit codes of any command: tested below, in `tests/cli/test_main.py` and `tests/replay/cli`."""


def listed(column: int) -> set[int]:
    """Exit codes in the table of a program."""
    text = (ROOT / "docs" / "cli.md").read_text("utf-8").partition("## Exit codes\n")[2]
    rows = re.findall(r"^\| (\d+) \| (.*?) \| (.*?) \|$", text, re.MULTILINE)
    return {int(row[0]) for row in rows if row[column] != "–"}


@pytest.mark.parametrize(("program", "column"), [("controlplane", 1), ("replay", 2)])
def test_every_exit_code_is_listed_and_seen(
    program: str, column: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command of each kind gives each listed code, as from a shell."""
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text(CONNECTOR)
    Path("b.json").write_text(CONNECTOR.replace('"t"', '"u"'))
    main = controlplane if program == "controlplane" else replay
    for words, code in SEEN[program]:
        done = CliRunner().invoke(main, words)
        assert done.exit_code == code, (words, done.output)
    assert listed(column) == {code for _, code in SEEN[program]} | ENDS


def test_the_help_lists_the_codes_of_commands_about_a_cluster() -> None:
    """`controlplane --help` has the codes that only its commands about a cluster give."""
    help_text = " ".join(CliRunner().invoke(controlplane, ["--help"]).output.split())
    codes = sorted(listed(1) - listed(2))
    assert codes == [3, 4, 5]
    assert [code for code in codes if f"{code}: " not in help_text] == []


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "completion"])
def test_the_help_of_each_command_of_replay_tells_its_codes(command: str) -> None:
    """The help names the codes of the table, and a cluster that is unreadable."""
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    rows = [line.split("|")[1:4] for line in text.splitlines() if line.startswith("| `replay ")]
    (first, second), *_ = [codes for commands, *codes in rows if command in _named(commands)]
    help_text = " ".join(CliRunner().invoke(replay, [command, "--help"]).output.split())
    codes_text = help_text[help_text.index("Exit code ") :]
    assert ("1: " in codes_text, "2: " in codes_text) == (bool(first.strip()), bool(second.strip()))
    assert ("unreadable" in second) <= (
        "unreadable" in codes_text or "cannot be read" in codes_text
    )


def _named(commands: str) -> list[str]:
    """Commands in a cell of the table: `replay audit`, `lint`."""
    return [name.removeprefix("replay ") for name in re.findall("`(.*?)`", commands)]


class _Broken(ReplayGroup):
    """`replay` with a command that raises an unexpected error."""

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command:
        def fail() -> NoReturn:
            raise {"defect": ValueError("oh"), "interrupt": KeyboardInterrupt()}[cmd_name]

        return click.Command(cmd_name, callback=fail)


@pytest.mark.parametrize(
    ("how", "code", "says"),
    [
        ("defect", 70, "Error: a defect of replay (ValueError: oh): please report it"),
        ("interrupt", 130, "interrupted\n"),
    ],
)
def test_a_defect_of_replay_is_no_finding(how: str, code: int, says: str) -> None:
    """Regression: a defect once ended with exit code 1, which means findings."""
    result = CliRunner().invoke(_Broken(), [how], env={"CONTROLPLANE_DEBUG": ""})
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith(says)
    assert len(result.stderr.splitlines()) == 1


def test_a_defect_of_replay_prints_its_traceback_on_request() -> None:
    """With `CONTROLPLANE_DEBUG=1` a defect prints its traceback."""
    result = CliRunner().invoke(_Broken(), ["defect"], env={"CONTROLPLANE_DEBUG": "1"})
    assert isinstance(result.exception, ValueError)
