"""Words completed in the shell, as bash asks for them."""

import pytest

from tests.cli.calling import shell
from tests.cli.cluster.asking import Cluster


@pytest.mark.parametrize(
    ("line", "found"),
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
def test_completed(cluster: Cluster, line: str, found: list[str]) -> None:
    """Commands, resources, options, and connectors that the cluster has."""
    cluster.create()
    said = shell(
        CONTROLPLANE_CLUSTER=cluster.where,
        _CONTROLPLANE_COMPLETE="bash_complete",
        COMP_WORDS=line,
        COMP_CWORD=str(line.count(" ")),
    )
    assert [one.partition(",")[2] for one in said.out.split()] == found


def test_no_cluster_no_names(cluster: Cluster) -> None:
    """A shell is not disturbed by what is wrong."""
    said = shell(
        CONTROLPLANE_CLUSTER="http://127.0.0.1:1",
        _CONTROLPLANE_COMPLETE="bash_complete",
        COMP_WORDS="controlplane stop o",
        COMP_CWORD="2",
    )
    assert (said.code, said.out.strip(), said.err) == (0, "", "")


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_what_a_shell_reads(cluster: Cluster, name: str) -> None:
    """It is printed, to be evaluated."""
    said = shell("completion", name)
    assert "_CONTROLPLANE_COMPLETE" in said.out
