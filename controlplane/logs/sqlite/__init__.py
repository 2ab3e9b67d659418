"""A log in one SQLite file: the embedded log, shared by several processes of one machine.

`log` is what others use. Below it: `files` (is this file ours?), `schema` (tables and upgrades),
`writer` (one thread, group commit), `ledger` and `imports` (what is done inside of a transaction),
`pool` and `reader` (chunks), `watch` (commits of other processes), `compaction`, `backup`.
"""

from controlplane.logs.sqlite.log import SqliteLog
from controlplane.logs.sqlite.settings import SqliteSettings

__all__ = ["SqliteLog", "SqliteSettings"]
