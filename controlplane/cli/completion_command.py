"""`completion`: what a shell has to read so that it completes commands, options and names."""

from controlplane.terminal.shell_completion import completion_command

completion = completion_command("controlplane")
