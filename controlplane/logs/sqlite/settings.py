"""Limits and intervals of the embedded log."""

from typing import Literal

import msgspec


class SqliteSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a `SqliteLog`; the defaults suit a control plane on a local disk."""

    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    """FULL: appended records survive a power failure. NORMAL: they survive a crash of the process,
    not of the machine; a single record is appended 5 to 10 times faster."""

    write_wait_ms: int = 5_000
    """Longest wait for the write lock of another process; then `LogUnavailable`. Other processes
    hold the lock for milliseconds; only an import or a debugger holds it longer."""

    read_wait_ms: int = 5_000
    """Longest wait of a read while another process recovers or closes the file."""

    tail_poll_interval_ms: int = 5
    """Interval at which a tail polls for commits of other processes: 3 ms of delay on average, for
    0.8 % of a core. Commits of this process wake it at once."""

    queued_appends: int = 1_024
    """Maximum appends in the queue of the writer; further callers wait. Bounds memory."""

    group_records: int = 10_000
    """Records in a transaction after which the writer adds no further append. They are some 20 ms
    of work, which bounds the wait of each caller."""

    chunk_records: int = 8_192
    """Records per read transaction: short enough (5 ms) for the write-ahead log to be reset."""

    chunk_bytes: int = 16 * 2**20
    """Bytes of values after which a read transaction ends early. Bounds memory with large
    records."""

    checkpoint_pages: int = 1_000
    """Pages (of 8 KiB) in the write-ahead log after which the writer copies them into the file.
    Fewer pages: more frequent stalls of 10 to 20 ms. More pages: larger files, slower reads."""

    wal_limit_bytes: int = 64 * 2**20
    """Size to which the write-ahead log is truncated after a large import."""
