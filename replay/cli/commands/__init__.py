"""Subcommands of `replay`, one module each."""
