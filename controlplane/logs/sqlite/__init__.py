"""A log in one SQLite file: the embedded log, shared by several processes of one machine.

`log` is the interface. Below it: `files` (checks and creation), `schema` (tables and upgrades),
`writer` (one thread, group commit), `ledger` and `imports` (changes within a transaction), `pool`
and `reader` (reads in chunks), `watch` (commits of other processes), `compaction`, `backup`.
"""

from controlplane.logs.sqlite.log import SqliteLog
from controlplane.logs.sqlite.settings import SqliteSettings

__all__ = ["SqliteLog", "SqliteSettings"]
