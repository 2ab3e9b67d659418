"""Shell completion of `controlplane` and `replay`: the script for a shell, and file names."""

import click
from click.shell_completion import CompletionItem, get_completion_class

SHELLS = ("bash", "zsh", "fish")


def complete_files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete file names."""
    return [CompletionItem(incomplete, type="file")]


def completion_command(program: str, completes: str) -> click.Command:
    """Make the command `completion SHELL` of a program; `completes` names the completed words."""

    def completion(shell: str) -> None:
        kind = get_completion_class(shell)
        assert kind is not None  # click has all of the choices
        root = click.get_current_context().find_root().command
        variable = f"_{program.upper()}_COMPLETE"
        click.echo(kind(root, {}, program, variable).source())

    about = f"""Print the completion script of a shell: eval "$({program} completion bash)".

    It completes {completes}.
    """
    shell = click.argument("shell", type=click.Choice(SHELLS))
    return click.command("completion", help=about)(shell(completion))
