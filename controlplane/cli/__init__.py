"""The command line: one file per command, tables for people, JSON for machines."""
