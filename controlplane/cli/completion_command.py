"""The command `completion`: the completion script of a shell."""

from controlplane.terminal.shell_completion import completion_command

completion = completion_command(
    "controlplane",
    "commands, options, files, and names of connectors if the cluster can be reached",
)
