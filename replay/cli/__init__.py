"""The command line of replay."""
