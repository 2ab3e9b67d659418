"""Option names: one name per meaning in both programs; former names work and are not shown."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from controlplane.terminal.option_names import NamedOption
from tests.cli.command_calls import call
from tests.commands import Called, every_command
from tests.replay.cli.replay_calls import call as replay

WORDS = {
    "--from": (
        {"MOMENT", "RELEASE", "URL|LOG"},
        "the first side of a comparison, or the cluster that has a connector",
    ),
    "--to": (
        {"MOMENT", "RELEASE", "URL|LOG"},
        "the second side of a comparison, the moment to restore, or the cluster to move to",
    ),
    "--cluster": ({"URL|LOG", "NAME"}, "the cluster: where it is, or its name in an archive"),
    "--trail": (
        {"LOG", "[NAME=]FILE"},
        "the record of requests to a cluster's workers: `serve` writes it, `replay` reads it",
    ),
    "--exactly-once": ({"", "[WORKER]"}, "workers run with exactly-once support"),
}
"""Options that take several kinds of words, and their one meaning."""

KINDS = {
    "RELEASE": {"--release", "--to-release", "--towards", "--from", "--to"},
    "MOMENT": {"--as-of", "--from", "--to"},
    "SECONDS": {"--timeout", "--every", "--settle", "--grace"},
    "DURATION": {"--retain", "--compact-every"},
}
"""Kinds of words, and all options that take them."""

FORMER = {
    "--profile": "--release",
    "--dialect": "--release",
    "--to-profile": "--to-release",
    "--offset-topic": "--offsets-topic",
    "--command-topic": "--commands-topic",
    "--worker": "--worker-properties",
    "--since": "--after",
    "--count": "--limit",
    "--to": "--file",
}
"""Former names, and the present ones."""


def kind(option: click.Option) -> str:
    """Kind of an option's value; "" for a flag; `OUTPUT` for an output format."""
    if isinstance(option.type, click.Choice) and "json" in option.type.choices:
        return "OUTPUT"
    if option.metavar or option.is_flag:
        return option.metavar or ""
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    return "|".join(map(str, choices)) or option.type.name


def named() -> Iterator[tuple[Called, NamedOption]]:
    """Every option with former names."""
    for called in every_command():
        for option in called.options:
            if isinstance(option, NamedOption) and option.former:
                yield called, option


def test_an_option_name_means_one_thing() -> None:
    """Each option has one kind of value in every command of both programs."""
    kinds: dict[str, set[str]] = defaultdict(set)
    for called in every_command():
        for option in called.options:
            for name in (*option.opts, *option.secondary_opts):
                kinds[name].add(kind(option))
    several = {name: words for name, words in kinds.items() if len(words) > 1}
    assert several == {name: words for name, (words, _) in WORDS.items()}


@pytest.mark.parametrize("word", KINDS)
def test_one_thing_has_one_option_name(word: str) -> None:
    """Each kind of value has exactly these options."""
    names = {
        option.opts[-1]
        for called in every_command()
        for option in called.options
        if kind(option) == word
    }
    assert names == KINDS[word]


def test_a_short_option_has_one_long_name() -> None:
    """A short option has the same long name in every command."""
    long_names: dict[str, set[str]] = defaultdict(set)
    for called in every_command():
        for option in called.options:
            for short in (opt for opt in option.opts if not opt.startswith("--")):
                long_names[short].add(option.opts[-1])
    assert {short: names for short, names in long_names.items() if len(names) > 1} == {}


def test_former_option_names_work_and_are_hidden() -> None:
    """The parser accepts former names; help and completion omit them."""
    names_seen = set()
    for called, option in named():
        shown = called.command.get_help(called.context)
        offered = [
            completion.value for completion in called.command.shell_complete(called.context, "--")
        ]
        for former in option.former:
            assert FORMER[former] == option.opts[-1]
            assert f"{former} " not in shown
            assert former not in offered
            names_seen.add(former)
            parser = called.command.make_parser(called.context)
            word = "3" if isinstance(option.type, click.IntRange) else __file__
            values, _, _ = parser.parse_args([former, word])
            assert values[option.name] == ([word] if option.multiple else word)
    assert names_seen == {*FORMER}


def test_commands_take_former_option_names(tmp_path: Path) -> None:
    """Both spellings give the same answer."""
    log = "tests/histories/life-3.9.log.jsonl"
    shown = call("inspect", log, "--release", "3.4", "-o", "json").out
    assert shown == call("inspect", log, "--profile", "3.4", "-o", "json").out
    renamed = call("inspect", log, "--offset-topic", "nowhere")
    assert renamed.err == call("inspect", log, "--offsets-topic", "nowhere").err
    assert "nowhere" in renamed.err
    lost = replay("state", tmp_path, "--profile", "0.8")
    assert lost == replay("state", tmp_path, "--release", "0.8")
    assert "unknown release" in lost.err
