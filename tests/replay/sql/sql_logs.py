"""Logs without the records that SQL may read otherwise than Java."""

from collections.abc import Iterable, Mapping

from controlplane.core.entry import Entry
from tests.replay.archive.archives import NAME
from tests.replay.sql.oracle import Cut, SqlOracle, Unfollowed

SqlLog = list[Entry]


def whole_cut(log: Iterable[Entry], cluster: str = NAME) -> Cut:
    """Cut at the end of a log."""
    ends: dict[str, list[int]] = {}
    for entry in log:
        parts = ends.setdefault(entry.topic, [])
        parts += [0] * (entry.partition + 1 - len(parts))
        parts[entry.partition] = entry.offset + 1
    return Cut(ends, cluster=cluster)


def left_out(oracle: SqlOracle, logs: Mapping[str, SqlLog]) -> dict[str, Unfollowed]:
    """Records that SQL cannot follow, with reasons, by name of the log."""
    oracle.logs(logs)
    answer = oracle.answer([whole_cut(log, name) for name, log in logs.items()])
    return dict(zip(logs, answer.unfollowed, strict=True))


def followed(oracle: SqlOracle, logs: Mapping[str, SqlLog]) -> dict[str, SqlLog]:
    """Logs without the records that SQL cannot follow."""
    odd = left_out(oracle, logs)
    return {
        name: [entry for entry in log if entry.position not in odd[name]]
        for name, log in logs.items()
    }
