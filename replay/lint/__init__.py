"""Rehearsal of a compaction: the log cleaner runs, a worker starts, and the states are compared."""

from replay.lint.log_cleaner import cleaned
from replay.lint.rehearsal import lint

__all__ = ["cleaned", "lint"]
