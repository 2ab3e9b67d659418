"""Shell completion, with requests as bash sends them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command_calls import shell
from tests.client.client_calls import ClusterCalls


@pytest.mark.parametrize(
    ("line", "completions"),
    [
        ("controlplane sto", ["stop"]),
        ("controlplane offsets ed", ["edit"]),
        ("controlplane restart t", ["task"]),
        ("controlplane stop or", ["orders"]),
        ("controlplane stop connector or", ["orders"]),
        ("controlplane offsets get or", ["orders"]),
        ("controlplane stop --ti", ["--timeout"]),
        ("controlplane stop nix", []),
    ],
)
def test_words_are_completed(cluster: ClusterCalls, line: str, completions: list[str]) -> None:
    """Commands, resources, options and the cluster's connectors are completed."""
    cluster.create()
    result = shell(
        CONTROLPLANE_CLUSTER=cluster.where,
        _CONTROLPLANE_COMPLETE="bash_complete",
        COMP_WORDS=line,
        COMP_CWORD=str(line.count(" ")),
    )
    assert [completion.partition(",")[2] for completion in result.out.split()] == completions


def test_without_a_cluster_no_names_are_completed(cluster: ClusterCalls) -> None:
    """Without a cluster no names are completed; the shell shows no error."""
    result = shell(
        CONTROLPLANE_CLUSTER="http://127.0.0.1:1",
        _CONTROLPLANE_COMPLETE="bash_complete",
        COMP_WORDS="controlplane stop o",
        COMP_CWORD="2",
    )
    assert (result.code, result.out.strip(), result.err) == (0, "", "")


def test_no_completion_asks_for_a_password(cluster: ClusterCalls) -> None:
    """A prompt would take what the user types at the shell, so no names are completed."""
    cluster.create()
    result = shell(
        CONTROLPLANE_CLUSTER="http://127.0.0.1:1",
        CONTROLPLANE_USER="ada",
        _CONTROLPLANE_COMPLETE="bash_complete",
        COMP_WORDS="controlplane stop or",
        COMP_CWORD="2",
    )
    assert (result.code, result.out.strip(), result.err) == (0, "", "")


BASH = """
eval "$(controlplane completion bash)"
complete -p controlplane
COMP_WORDS=(controlplane sto) COMP_CWORD=1
_controlplane_completion controlplane
echo "${COMPREPLY[@]}"
"""


def test_bash_completes() -> None:
    """The printed script registers a function that completes a word."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-c", BASH], env={"PATH": path}, capture_output=True, text=True, check=False
    )
    registered = "complete -o nosort -F _controlplane_completion controlplane"
    assert (done.stdout.splitlines(), done.stderr) == ([registered, "stop"], "")


@pytest.mark.parametrize(
    ("name", "registered", "word", "completed"),
    [
        ("zsh", "compdef _controlplane_completion controlplane", "1", "plain\nstop\n"),
        (
            "fish",
            'complete --no-files --command controlplane --arguments "(_controlplane_completion)"',
            "sto",
            "plain,stop\t",
        ),
    ],
    ids=["zsh", "fish"],
)
def test_other_shells_complete(name: str, registered: str, word: str, completed: str) -> None:
    """Scripts of other shells register a function with an answer format of their own."""
    mode = f"{name}_complete"
    script = shell("completion", name).out
    assert registered in [line.strip(" ;") for line in script.splitlines()]
    assert f"_CONTROLPLANE_COMPLETE={mode} " in script
    result = shell(_CONTROLPLANE_COMPLETE=mode, COMP_WORDS="controlplane sto", COMP_CWORD=word)
    assert result.out.startswith(completed)
    assert result.out.count("plain") == 1
