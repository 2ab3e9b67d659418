"""`replay completion`: what a shell has to read so that it completes commands and file names."""

from controlplane.shell_completion import completion_command

completion = completion_command("replay")
