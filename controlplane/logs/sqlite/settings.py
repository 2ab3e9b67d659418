"""Every limit and interval of the embedded log."""

from typing import Literal

import msgspec


class SqliteSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a `SqliteLog`; the defaults suit a control plane on a local disk."""

    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    """FULL: what was appended survives a power failure. NORMAL: it survives a crash of the
    process, not of the machine; a record alone is appended 5 to 10 times faster."""

    write_wait_ms: int = 5_000
    """How long a transaction waits for one of another process before it is `LogUnavailable`.
    Others hold the lock for milliseconds; only an import or a debugger holds it longer."""

    read_wait_ms: int = 5_000
    """How long a read waits while another process recovers or closes the file."""

    tail_poll_interval_ms: int = 5
    """How often a tail looks for commits of other processes: 3 ms later on average, for 0.8 %
    of a core. Commits of this process wake it at once."""

    queued_appends: int = 1_024
    """Appends that wait for the writer; more wait in their callers. Bounds memory."""

    group_records: int = 10_000
    """Records per transaction after which the writer takes no further append into the group:
    some 20 ms of work, so nobody waits long."""

    chunk_records: int = 8_192
    """Records per read transaction: short enough (5 ms) for the write-ahead log to be reset."""

    chunk_bytes: int = 16 * 2**20
    """Bytes of values per read transaction after which it ends early. Bounds memory where
    records are large."""

    checkpoint_pages: int = 1_000
    """Pages (of 8 KiB) in the write-ahead log after which the writer copies them into the file.
    Fewer: more often a stall of 10 to 20 ms. More: larger files and slower reads."""

    wal_limit_bytes: int = 64 * 2**20
    """Size to which the write-ahead log is cut after a large import."""
