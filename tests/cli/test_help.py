"""Help texts and shell completion of both programs."""

import os
import subprocess

import click
import pytest

from tests.cli.command_calls import ROOT, call
from tests.commands import every_command
from tests.forked_commands import command_words

FILES = ("FILE", "LOG", "ARCHIVE", "FOLDER", "TARGET")
"""Words in help texts that mean an argument may be a file."""

NO_FILES = {"--token", "--to-token", "logger"}
"""Exceptions: no shell completes `@FILE`, and LOGGER is not a LOG."""


def test_every_command_and_option_has_a_help_text() -> None:
    """Each command and option has a sentence; that of an option precedes its default."""
    silent = [
        (*called.words, *option.opts)
        for called in every_command()
        for option in called.options
        if not (option.help or "").split("[")[0].strip()
    ]
    assert silent == []
    for called in every_command():
        first, *_ = (called.command.help or "").strip().splitlines() or [""]
        assert first.rstrip(), called.words


def test_options_of_times_name_their_zone() -> None:
    """A time without a zone is UTC, as each such command says."""
    for called in every_command():
        helps = [
            option.help or "" for option in called.options if option.metavar in {"MOMENT", "TIME"}
        ]
        assert not helps or any("UTC without a zone" in text for text in helps), called.words
        assert all("a time" not in text or "UTC" in text for text in helps), called.words


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("stop", ("--wait", "--timeout", "--state", "--dry-run", "[NAME]...")),
        ("delete", ("--yes", "--all", "offsets")),
        ("get", ("--reg-exp", "plugins", "loggers")),
        ("restart", ("--tasks", "task")),
    ],
)
def test_a_verb_without_a_resource_shows_connector_options(
    words: str, shown: tuple[str, ...]
) -> None:
    """`stop --help` shows the options for connectors, as `stop` needs no resource."""
    result = call(*words.split(), "--help")
    assert result.code == 0
    assert [option for option in shown if option not in result.out] == []


def test_help_texts_of_resources_are_whole() -> None:
    """No help text of a resource is cut off with `...`."""
    for verb in ("stop", "delete", "restart", "get"):
        resources = call(verb, "--help", columns=100).out.partition("Resources:")[2]
        assert resources
        assert "..." not in resources, verb


@pytest.mark.parametrize("resource", ["bundle", "offsets", "plugins", "topics"])
def test_help_texts_of_resources_list_actions(resource: str) -> None:
    """`offsets --help` calls `get` an action; `stop --help` calls `connector` a resource."""
    shown = call(resource, "--help").out
    assert f"{resource} [ACTION] " in shown
    assert "The default action is" in shown
    assert "Actions:" in shown
    assert "stop [RESOURCE] " in call("stop", "--help").out


def test_words_that_may_be_files_are_completed_as_files() -> None:
    """Both programs complete file names for options and arguments that take files."""
    for called in every_command():
        for param in called.command.params:
            word = param.metavar or (
                param.human_readable_name if isinstance(param, click.Argument) else ""
            )
            if not any(file in word.upper() for file in FILES) or {*param.opts} & NO_FILES:
                continue
            kinds = {item.type for item in param.shell_complete(called.context, "x")}
            assert kinds & {"file", "dir"}, (called.words, param.opts)


@pytest.mark.parametrize(
    ("line", "completions"),
    [
        ("replay cap", ["plain,capture"]),
        ("replay lint --rel", ["plain,--release"]),
        ("replay lint fl", ["file,fl"]),
        ("replay completion z", ["plain,zsh"]),
    ],
)
def test_replay_completes_commands_options_and_files(line: str, completions: list[str]) -> None:
    """`replay` answers bash's completion protocol."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(
        command_words("replay"),
        cwd=ROOT,
        env={**os.environ, **words, "_REPLAY_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == completions


@pytest.mark.parametrize(
    ("shell", "registered"),
    [
        ("bash", "complete -o nosort -F _replay_completion replay"),
        ("zsh", "compdef _replay_completion replay"),
        ("fish", 'complete --no-files --command replay --arguments "(_replay_completion)"'),
    ],
    ids=["bash", "zsh", "fish"],
)
def test_replay_prints_a_completion_script(shell: str, registered: str) -> None:
    """The script registers a function that asks `replay` for completions."""
    words = [*command_words("replay"), "completion", shell]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert registered in [line.strip(" ;") for line in done.stdout.splitlines()]
    assert f"_REPLAY_COMPLETE={shell}_complete " in done.stdout
