"""Empty options, as of an unset variable in a script: each is refused before anything is read."""

from pathlib import Path

import pytest

from tests.recorded_requests import HISTORIES
from tests.replay.cli.replay_calls import call, refusal

LIFE = HISTORIES / "life-3.9.log.jsonl"

COMMANDS = {
    "state": (),
    "timeline": (),
    "history": ("--connector", "pages"),
    "diff": ("--from", "config@3"),
    "audit": (),
    "compat": ("--from", "3.9", "--to", "3.4"),
    "lint": ("--release", "3.9"),
    "report": ("--file", "page.html"),
    "watch": ("--once",),
}


@pytest.mark.parametrize(
    ("command", "options"),
    [
        *((command, ("--cluster", "")) for command in (*COMMANDS, "verify", "compact-archive")),
        *((command, ("--cluster", "life", "--cluster", "")) for command in ("state", "audit")),
        *((command, ("--master", "")) for command in (*COMMANDS, "capture")),
        *((command, ("-o", "parquet", "--file", "")) for command in ("state", "timeline", "diff")),
        ("history", ("-o", "parquet", "--file", "")),
        ("report", ("--file", "")),
        ("audit", ("--trail", "")),
        ("report", ("--trail", "")),
        ("state", ("-o", "parquet", "--folder", "")),
        ("diff", ("-o", "parquet", "--folder", "")),
        ("diff", ("--to-cluster", "")),
        *((command, ("--connector", "")) for command in ("state", "timeline", "diff", "lint")),
        ("history", ("--connector", "")),
        ("watch", ("--checkpoint", "")),
    ],
)
def test_empty_options_are_refused(
    command: str, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the option, and no file appears."""
    monkeypatch.chdir(tmp_path)
    result = call(command, "fleet", *COMMANDS.get(command, ("fleet",)), *options)
    *_, option, _ = options
    assert result.err.splitlines()[-1].startswith(
        f"Error: Invalid value for '{option}': it is empty: "
    )
    assert result.code == 2
    assert not [*tmp_path.iterdir()]


def test_a_trail_without_a_file_is_refused() -> None:
    """The name of a cluster is no file."""
    sentence = refusal(call("audit", LIFE, "--cluster", "life", "--trail", "life="))
    assert sentence == "--trail life= names no file: give life=FILE"


@pytest.mark.parametrize("command", ["audit", "compat", "lint", "report"])
@pytest.mark.parametrize("name", ["", "a/b"])
def test_a_topic_has_a_legal_name(command: str, name: str) -> None:
    """A name that no topic can have is bad input, no defect of the program."""
    result = call(command, LIFE, *COMMANDS[command], "--status-topic", name)
    sentence = f"'--status-topic': {name!r} cannot be the name of a topic: use 1 to 249 letters"
    assert (result.code, sentence in result.err) == (2, True), result
