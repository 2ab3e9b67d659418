"""Exit codes that mean the same for every command."""

REFUSED = 2
"""What was asked could not be done; click uses it for wrong usage, too."""

INTERRUPTED = 130
"""Ctrl-C, as shells count it (128 and the signal's number)."""
