"""Command line of `replay`."""
