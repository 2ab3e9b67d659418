"""Exit codes that mean the same for every command."""

REFUSED = 2
"""What was asked could not be done; click uses it for wrong usage, too."""

DEFECT = 70
"""A defect of ours (`EX_SOFTWARE` of sysexits.h); never mistaken for a finding."""

INTERRUPTED = 130
"""Ctrl-C, as shells count it (128 and the signal's number)."""
