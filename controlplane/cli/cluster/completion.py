"""`completion`: what a shell has to read so that it completes commands, options and names."""

import click
from click.shell_completion import get_completion_class

from controlplane.cli.failing import write

PROGRAM = "controlplane"
VARIABLE = "_CONTROLPLANE_COMPLETE"
"""By which the shell asks; click's name for it."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what SHELL has to read: eval "$(controlplane completion bash)".

    Names of connectors are completed by asking the cluster.
    """
    kind = get_completion_class(shell)
    assert kind is not None  # click has all of the choices
    write(kind(ctx.find_root().command, {}, PROGRAM, VARIABLE).source() + "\n")
