"""Options before the command, and misspelt commands."""

import subprocess
from pathlib import Path

import click
import pytest

from controlplane.cli.main import CLUSTERS, main
from controlplane.terminal.exit_codes import CLOSED_PIPE
from tests.cli.command_calls import ROOT, call, shell
from tests.forked_commands import command_line, command_words

VERBS = [name for name in CLUSTERS if name not in ("completion", "migrate")]
"""Verbs about one cluster; `migrate` names two by options of its own."""


@pytest.fixture(scope="module")
def log(histories: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Embedded log with the history `life-3.9`."""
    log = tmp_path_factory.mktemp("before") / "life.db"
    assert call("import", histories / "life-3.9.log.jsonl", log).code == 0
    return str(log)


@pytest.mark.parametrize("before", [("-c", "{}"), ("--cluster", "{}"), ("--cluster={}",)])
@pytest.mark.parametrize(
    "words", ["get", "get connectors", "offsets orders", "offsets get orders", "history orders"]
)
def test_the_cluster_may_be_named_before_the_verb(
    log: str, before: tuple[str, ...], words: str
) -> None:
    """`-c` may precede the verb, with the same result."""
    result = call(*(word.format(log) for word in before), *words.split())
    assert result == call(*words.split(), "-c", log)
    assert result.code == 0


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_takes_leading_options(name: str) -> None:
    """The verb after the options is found, and no option is refused."""
    result = call("-c", "nope.db", "--token", "abc", "--ca-file", __file__, name, "--help")
    assert (result.code, result.err) == (0, "")


def test_the_last_cluster_wins(log: str) -> None:
    """The last `-c` wins if there is one on each side of the verb."""
    assert call("-c", "nope.db", "get", "-c", log).code == 0


def test_credentials_may_stand_before_the_verb() -> None:
    """Credentials before the verb are checked like those after it."""
    result = call("--user", "a:b", "--token", "t", "-c", "http://127.0.0.1:1", "get")
    assert "--user and --token exclude each other" in result.err


@pytest.mark.parametrize("name", ["migrate", "verify"])
def test_credentials_may_stand_before_other_commands_that_take_them(name: str) -> None:
    """`migrate` and `verify` take credentials, but no cluster."""
    credentials = ("--user", "a:b", "--ca-file", __file__)
    assert call(*credentials, name, "--help").code == 0
    result = call(*credentials, "-c", "http://127.0.0.1:1", name, "--help")
    assert f"Error: {name!r} takes no --cluster: leave it out." in result.err


@pytest.mark.parametrize("words", ["inspect log", "serve log", "import a b", "completion bash"])
def test_a_command_that_takes_no_cluster_says_so(words: str) -> None:
    """The command names the useless option; it neither ignores it nor calls it unknown."""
    result = call("-c", "http://127.0.0.1:1", *words.split())
    assert result.code == 2
    assert f"Error: {words.split(maxsplit=1)[0]!r} takes no --cluster: leave it out." in result.err


def test_the_cluster_may_stand_before_the_resource(log: str) -> None:
    """Options and resources come in any order."""
    assert call("offsets", "-c", log, "get", "orders") == call("offsets", "orders", "-c", log)
    assert call("get", "-o", "json", "-c", log, "topics", "orders").json


def test_names_are_completed_from_the_cluster_before_the_verb(log: str) -> None:
    """Completion reads the cluster before the verb, with and without a resource."""
    for words in (f"controlplane -c {log} stop ord", f"controlplane stop -c {log} ord"):
        result = shell(
            _CONTROLPLANE_COMPLETE="bash_complete",
            COMP_WORDS=words,
            COMP_CWORD=str(len(words.split()) - 1),
        )
        assert result.out == "plain,orders\n"


@pytest.mark.parametrize(
    ("words", "meant", "code"),
    [
        ("sevre", "'serve'", 2),
        ("gett orders", "'get'", 2),
        ("scenario rn", "'run'", 2),
        ("credential tokn", "'token'", 2),
        ("get conectors", "'connectors'", 3),
        ("get conectors orders", "'connectors'", 3),
        ("offsets rset orders", "'reset'", 2),
        ("stop conector", "'connector'", 3),
    ],
)
def test_a_misspelt_command_is_guessed(log: str, words: str, meant: str, code: int) -> None:
    """A misspelt command or resource gets a suggestion, also where a connector's name may stand."""
    result = call(*words.split(), environment={"CONTROLPLANE_CLUSTER": log})
    assert result.code == code
    assert result.err.rstrip().endswith(f" Did you mean {meant}?")


def test_a_misspelt_resource_is_guessed_without_a_cluster() -> None:
    """The suggestion needs no reachable cluster."""
    result = call("get", "conectors", "-c", "http://127.0.0.1:1")
    assert result.code == 4
    assert result.err.rstrip().endswith(" Did you mean 'connectors'?")


def test_other_names_are_not_guessed(log: str) -> None:
    """The name of a missing connector is not taken for a misspelt resource."""
    for words in ("describe nobody", "stop nobody"):
        assert "Did you mean" not in call(*words.split(), "-c", log).err
    assert "Did you mean" not in call("xyzzy").err


@pytest.mark.parametrize("program", ["controlplane", "replay"])
@pytest.mark.parametrize("words", ["--help", "--version", "diff --help"])
def test_a_reader_of_the_help_may_leave_early(program: str, words: str) -> None:
    """A closed pipe ends a help as it ends every output: without a word, with its own exit code."""
    line = f"{command_line(program)} {words} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (CLOSED_PIPE, b"")


def test_several_guesses_are_worded_as_those_about_options() -> None:
    """Suggestions about commands have the words of those about options."""
    assert "'comands'. Did you mean 'commands'?" in call("comands").err
    assert "'res'. (Did you mean one of: 'restart', 'resume'?)" in call("res").err


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        ("plan x.db PUT / --body {}", "No such option '--body'."),
        ("inspect x.db --json", "No such option '--json'."),
        ("inspect x.db --as-fo 3", "No such option '--as-fo'. Did you mean '--as-of'?"),
        ("inspect x.db --relase 3.9", "No such option '--relase'. Did you mean '--release'?"),
        ("inspect x.db --connect a", "No such option '--connect'. Did you mean '--connector'?"),
        ("sto", "No such command 'sto'. Did you mean 'stop'?"),
        ("tory", "No such command 'tory'."),
    ],
)
def test_guesses_are_plausible(words: str, ending: str) -> None:
    """A suggestion differs in few letters, or begins with the word; else there is none."""
    result = call(*words.split())
    assert (result.code, result.err.rstrip().split("Error: ")[1]) == (2, ending)


def test_replay_guesses_commands() -> None:
    """`replay` suggests commands, too."""
    words = [*command_words("replay"), "dif"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"No such command 'dif'. Did you mean 'diff'?" in done.stderr


def test_the_options_before_the_verb_are_those_behind_it() -> None:
    """Every option of the main command is also an option of `get`."""
    before = {
        name for param in main.params if isinstance(param, click.Option) for name in param.opts
    }
    help_text = call("get", "--help").out
    assert all(name in help_text for name in before - {"--version"})
