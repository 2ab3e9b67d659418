"""Commands about a log: one file per command, tables for people, JSON for machines."""
