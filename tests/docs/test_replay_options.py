"""docs/replay.md names the commands that take an option which only some have."""

import re

import click

from replay.cli.main import COMMANDS, main
from tests.docs.consoles import ROOT


def test_commands_with_jobs_are_listed() -> None:
    """The page lists exactly the commands that take `--jobs`."""
    text = (ROOT / "docs" / "replay.md").read_text("utf-8")
    (sentence,) = re.findall(r"^(.*) take `--jobs N`", text, re.MULTILINE)
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in COMMANDS}
    assert sorted(re.findall(r"`(\w+)`", sentence)) == sorted(
        name
        for name, command in commands.items()
        if command is not None and any("--jobs" in option.opts for option in command.params)
    )
