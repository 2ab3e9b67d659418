"""Shell completion of both commands: the script that a shell reads, and file names."""

import click
from click.shell_completion import CompletionItem, get_completion_class

SHELLS = ("bash", "zsh", "fish")


def complete_files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete file names; a log or an archive may be something else as well."""
    return [CompletionItem(incomplete, type="file")]


def completion_command(program: str) -> click.Command:
    """Make the command `completion SHELL` of a program."""

    def completion(shell: str) -> None:
        kind = get_completion_class(shell)
        assert kind is not None  # click has all of the choices
        root = click.get_current_context().find_root().command
        variable = f"_{program.upper()}_COMPLETE"
        click.echo(kind(root, {}, program, variable).source())

    about = f"""Print what SHELL has to read: eval "$({program} completion bash)".

    File names are completed, and names of connectors where a cluster can be asked.
    """
    shell = click.argument("shell", type=click.Choice(SHELLS))
    return click.command("completion", help=about)(shell(completion))
