"""Exit codes with the same meaning in every command."""

REFUSED = 2
"""The command is refused; click uses it for wrong usage as well."""

DEFECT = 70
"""Defect of `replay` (`EX_SOFTWARE` of sysexits.h), distinct from findings."""

INTERRUPTED = 130
"""Ctrl-C: 128 and the signal's number, as in shells."""
