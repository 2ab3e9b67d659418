"""`replay completion`: shell code that completes commands and file names."""

from controlplane.terminal.shell_completion import completion_command

completion = completion_command("replay", "commands, options and files")
