"""Commands about a log: one file per command, tables for people, JSON for machines.

A command with several files has a folder. `import`, `backup` and `copy` share `copies`.
"""
