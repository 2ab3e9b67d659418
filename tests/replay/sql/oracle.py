"""Fold in SQL: it reads the archive's Parquet files without the code of `controlplane.core`.

DuckDB reads the segments, or a log in memory. The scripts `*.sql` fold configs and offsets as
releases 2.3, 3.4 and 3.9 do. The result has the rows of a state as lines of text. `lines_of` writes
a folded state in the same form: equal states have equal lines.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import gettempdir
from typing import Any, NamedTuple
from uuid import uuid4

import duckdb
import pyarrow as pa
from msgspec.structs import astuple

from controlplane.core.entry import Entry, Position
from controlplane.core.records import Target
from controlplane.core.state import ClusterState, Topics
from tests.replay.archive.archives import NAME

RELEASES = ("2.3", "3.4", "3.9")

HERE = Path(__file__).parent

MEMORY = "3GB"
"""Memory limit of DuckDB for a large archive; the rest spills to disk."""

TOPICS = Topics()

TableLine = tuple[str, str, str, str]
"""Table, row, element of the row, and value."""

Unfollowed = dict[Position, str]
"""Records that SQL may read otherwise than Java, each with the reason."""


class Cut(NamedTuple):
    """Prefix of a log: end offsets per topic and partition, or the last record in log order."""

    ends: Mapping[str, Sequence[int]] | None = None
    record: tuple[str, int, int] | None = None
    exactly_once: bool = False
    cluster: str = NAME


class SqlAnswer(NamedTuple):
    """Answer of the SQL query to several cuts."""

    lines: dict[tuple[int, str], set[TableLine]]
    """Lines of the state, by number of the cut and release."""
    unfollowed: list[Unfollowed]
    """Records that SQL cannot follow, by number of the cut."""


class SqlOracle:
    """DuckDB with scripts that read JSON as Jackson does.

    `slip` may plant an error in the text of a script: a test must then fail.
    """

    def __init__(self, slip: Callable[[str], str] = str) -> None:
        # DuckDB creates and removes this folder.
        spilled = Path(gettempdir()) / f"oracle-{uuid4()}"
        self._duck = duckdb.connect(config={"memory_limit": MEMORY, "temp_directory": str(spilled)})
        self._slip = slip
        self._run("releases", "json")

    def archive(self, folder: Path) -> None:
        """Let later queries read this archive."""
        files = folder / "cluster=*" / "topic=*" / "partition=*" / "segment-*.parquet"
        self._duck.execute(
            "create or replace temp view raw as "
            "select cluster::varchar as cluster, topic, partition::integer as partition, "
            '"offset", timestamp, key, value, aborted '
            f"from read_parquet('{files}', hive_partitioning = true)"
        )

    def logs(self, named: Mapping[str, Iterable[Entry]]) -> None:
        """Let later queries read these logs in memory, by cluster."""
        columns = _RAW.names[1:]
        rows = [
            {"cluster": name, **{column: getattr(entry, column) for column in columns}}
            for name, entries in named.items()
            for entry in entries
        ]
        self._duck.register("held", pa.Table.from_pylist(rows, schema=_RAW))
        self._duck.execute("create or replace temp view raw as from held")

    def log(self, entries: Iterable[Entry]) -> None:
        """Let later queries read this log in memory."""
        self.logs({NAME: entries})

    @contextmanager
    def turned(self, rule: str) -> Iterator[None]:
        """Invert the value of a rule for each release within the block."""
        turn = f"update releases set {rule} = not {rule}"
        self._duck.execute(turn)
        yield
        self._duck.execute(turn)

    def answer(self, cuts: Sequence[Cut]) -> SqlAnswer:
        """Fold the state at each cut, for each release."""
        self._cut(cuts)
        self._run("cuts", "config", "offsets")
        places = ((number, release) for number in range(len(cuts)) for release in RELEASES)
        lines: dict[tuple[int, str], set[TableLine]] = {place: set() for place in places}
        facts = "from config_facts union all from offset_facts"
        for cut, release, part, *rest in self._duck.execute(facts).fetchall():
            lines[cut, release].add(_line(part, *rest))
        unfollowed: list[Unfollowed] = [{} for _ in cuts]
        left_out = self._duck.execute(
            f"select cut, '{TOPICS.config}', 0, \"offset\", why from unfollowed union all "
            'select cut, topic, partition, "offset", why from unfollowed_offsets'
        )
        for cut, topic, partition, offset, why in left_out.fetchall():
            unfollowed[cut][Position(topic, partition, offset)] = why
        return SqlAnswer(lines, unfollowed)

    def _run(self, *scripts: str) -> None:
        for name in scripts:
            self._duck.execute(self._slip(script(name)))

    def _cut(self, cuts: Sequence[Cut]) -> None:
        points, ends = [], []
        for number, cut in enumerate(cuts):
            record = cut.record or (None, None, None)
            whole = cut.ends is not None
            points.append((number, cut.cluster, whole, *record, cut.exactly_once))
            for topic, partition_ends in (cut.ends or {}).items():
                ends += [
                    (number, topic, partition, end) for partition, end in enumerate(partition_ends)
                ]
        self._duck.register("points", _table(_POINTS, points))
        self._duck.register("ends_given", _table(_ENDS, ends))


_RAW = pa.schema(
    [
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("aborted", pa.bool_()),
    ]
)
_POINTS = pa.schema(
    [
        ("cut", pa.int32()),
        ("cluster", pa.string()),
        ("by_ends", pa.bool_()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("exactly_once", pa.bool_()),
    ]
)
_ENDS = pa.schema(
    [
        ("cut", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("end", pa.int64()),
    ]
)


def _table(schema: pa.Schema, rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


@cache
def script(name: str) -> str:
    return (HERE / f"{name}.sql").read_text("utf-8")


# --- states as lines ------------------------------------------------------------------------


def lines_of(state: ClusterState) -> set[TableLine]:
    """Lines of those rows of a state that SQL folds, too."""
    config = state.config
    table_lines = set() if config.offset < 0 else {_line("offset", "", "", str(config.offset))}
    for part in _TABLES:
        for name, value in getattr(config, part).items():
            plain = value.value if isinstance(value, Target) else value
            table_lines.add((part, name, "", canonical(plain)))
    for part in ("tasks", "deferred"):
        for name, tasks in getattr(config, part).items():
            table_lines |= {
                (part, name, str(task), canonical(task_config))
                for task, task_config in tasks.items()
            }
    table_lines |= {("deferred", name, "", "true") for name in config.deferred}
    if config.session_key is not None:
        secret, algorithm, created = astuple(config.session_key)
        key_fields = [secret.hex().upper(), algorithm, str(created)]
        table_lines.add(("session_key", "", "", canonical(key_fields)))
    for topic, offsets in state.offsets.items():
        table_lines |= {
            (f"values of {topic}", "", _hex(key), _hex(value))
            for key, value in offsets.values.items()
        }
        table_lines |= {
            (f"hidden in {topic}", connector, canonical(_partition(frozen)), "true")
            for connector, frozen in offsets.hidden
        }
    return table_lines


_TABLES = (
    *("connectors", "targets", "task_counts", "inconsistent", "fenced_counts", "generations"),
    *("pending_fencing", "applied"),
)


def canonical(value: Any) -> str:
    """JSON text of a value; equal values have equal texts."""
    return json.dumps(value, sort_keys=True)


def _line(part: str, connector: str, item: str, value: str) -> TableLine:
    """Line of SQL's result, with its JSON values spelled as by `canonical`."""
    if part.startswith("values of "):
        return part, connector, item, value
    if part.startswith("hidden in "):
        return part, connector, canonical(json.loads(item)), value
    return part, connector, item, canonical(json.loads(value))


def _hex(content: bytes | None) -> str:
    return "null" if content is None else content.hex().upper()


def _partition(frozen: tuple[Any, ...]) -> dict[str, Any]:
    """Restore a flat source partition from its frozen form (`core.codec.offsets.frozen`)."""
    count = frozen[1]
    names, rest = frozen[2 : 2 + count], frozen[2 + count :]
    values = reversed([rest[at + 1] for at in range(0, len(rest), 2)])
    return dict(zip(names, values, strict=True))
