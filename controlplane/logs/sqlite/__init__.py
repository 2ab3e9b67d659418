"""A log in one SQLite file: the embedded log, shared by several processes of one machine.

`log` is the interface. Below it lie `files` (checks and creation), `schema` (tables and upgrades),
and `writer` (one thread, group commit). `ledger` and `imports` make the changes of a transaction.
`connection_pool` and `reader` read in chunks. Further parts are `watch` (tails and commits of other
processes), `compaction`, `backup`, `snapshots`, `probe` and `writer_lock`.
"""

from controlplane.logs.sqlite.log import SqliteLog
from controlplane.logs.sqlite.settings import SqliteSettings

__all__ = ["SqliteLog", "SqliteSettings"]
