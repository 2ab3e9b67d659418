"""Schemas of the tables of a state, of findings and of archived clusters."""

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa

_CONFIG = pa.map_(pa.string(), pa.string())
"""Properties without secrets; a value that is no text is JSON."""


def described(*columns: tuple[str, pa.DataType, str]) -> pa.Schema:
    """Make the schema of columns, each with a description in its metadata (`comment`)."""
    return pa.schema(
        [pa.field(name, kind, metadata={"comment": comment}) for name, kind, comment in columns]
    )


def _written_rows(table: str) -> str:
    return f"number of rows written to `{table}`; null if the table was not requested"


_STATE_COLUMNS = (
    ("cluster", pa.string(), "name of the cluster in the archive"),
    ("release", pa.string(), "release of the workers that read the log"),
    ("connector", pa.string(), "name of the connector"),
)

CONNECTORS = described(
    *_STATE_COLUMNS,
    ("class", pa.string(), "`connector.class` of the config"),
    ("config", _CONFIG, "config; null if the connector has none"),
    ("target_state", pa.string(), "STARTED, PAUSED or STOPPED; null without a config"),
    (
        "tasks",
        pa.int64(),
        "number of tasks that a worker would run; null without a config, or if counting them fails",
    ),
    ("inconsistent", pa.bool_(), "true if the last commit did not find all task configs"),
    ("state", pa.string(), "state that workers reported; null without a report"),
    ("worker", pa.string(), "worker that reported the state"),
    (
        "remarks",
        pa.list_(pa.string()),
        "unfinished changes of the connector, and errors of reading its tasks",
    ),
    (
        "order_dependent",
        pa.list_(pa.string()),
        "facts that depend on the order in which a worker reads partitions; null if not searched",
    ),
)

TASKS = described(
    *_STATE_COLUMNS,
    ("task", pa.int64(), "number of the task"),
    ("config", _CONFIG, "config of the task; null if the last commit did not find it"),
)

OFFSETS = described(
    *_STATE_COLUMNS,
    ("partition", pa.string(), "source partition as JSON"),
    ("offset", pa.string(), "source offset as JSON; null if a worker finds none"),
    ("problem", pa.string(), "reason why workers cannot use the record; null if they can"),
)

STATUSES = described(
    *_STATE_COLUMNS,
    ("task", pa.int64(), "number of the task; null for the connector itself"),
    ("state", pa.string(), "RUNNING, FAILED, PAUSED, …"),
    ("worker", pa.string(), "worker that reported the state"),
    ("generation", pa.int64(), "generation of the group in which it was reported"),
    ("version", pa.string(), "version of the plugin (KIP-891)"),
    ("trace", pa.string(), "error of a failed connector or task"),
)

TOPICS = described(
    *_STATE_COLUMNS,
    ("topic", pa.string(), "topic that the connector has used (KIP-558)"),
    ("task", pa.int64(), "task that used it first"),
    ("discovered_ms", pa.int64(), "time of the first use"),
)

SUMMARIES = described(
    ("cluster", pa.string(), "name of the cluster in the archive"),
    ("release", pa.string(), "release; null if the cluster cannot be read"),
    ("as_of", pa.string(), "end offsets of each topic as JSON, usable as a moment"),
    ("digest", pa.string(), "digest of the whole state; equal states have equal digests"),
    ("connectors", pa.int64(), _written_rows("connectors")),
    ("tasks", pa.int64(), _written_rows("tasks")),
    ("offsets", pa.int64(), _written_rows("offsets")),
    ("statuses", pa.int64(), _written_rows("statuses")),
    ("topics", pa.int64(), _written_rows("topics")),
    ("unreadable", pa.int64(), "config, status and command records that could not be used"),
    ("gaps", pa.list_(pa.string()), "offsets that were lost before they were archived"),
    ("problem", pa.string(), "reason why the cluster cannot be read; null if it can"),
    ("doubts", pa.list_(pa.string()), "facts that the archive does not know for certain"),
    (
        "certain_from",
        pa.string(),
        "earliest certain moment from `as_of` on, as end offsets; null if there is none",
    ),
)

CLUSTERS = described(
    ("cluster", pa.string(), "name of the cluster in the archive"),
    ("head", pa.string(), "hash of the last manifest"),
    ("segments", pa.int64(), "number of segment files"),
    ("records", pa.int64(), "archived records"),
    ("bytes", pa.int64(), "size of all files"),
    ("first_ms", pa.int64(), "time of the first archived record that has one"),
    ("latest_ms", pa.int64(), "greatest time of an archived record"),
    ("secrets", pa.string(), "policy for secrets: kept, dropped or encrypted"),
    ("gaps", pa.list_(pa.string()), "offsets that were lost before they were archived"),
    ("problem", pa.string(), "reason why the cluster cannot be opened; null if it can"),
)

_RANGE = pa.struct([("start", pa.int64()), ("end", pa.int64())])
SPAN = pa.struct([("after", pa.int64()), ("until", pa.int64()), ("missing", pa.int64())])

PARTITIONS = described(
    ("cluster", pa.string(), "name of the cluster in the archive"),
    ("topic", pa.string(), "topic; null if the cluster cannot be read"),
    ("partition", pa.int64(), "number of the partition"),
    ("records", pa.int64(), "archived records"),
    ("first_offset", pa.int64(), "offset of the first record; null without records"),
    ("last_offset", pa.int64(), "offset of the last record; null without records"),
    ("first_ms", pa.int64(), "time of the first record that has one"),
    ("latest_ms", pa.int64(), "greatest time of a record"),
    (
        "looks",
        pa.int64(),
        (
            "number of looks with new offsets. A look is one pass of a capture to the log's end; "
            "the last look may be unfinished"
        ),
    ),
    ("missing", pa.int64(), "offsets before the end that were never archived"),
    ("lost", pa.int64(), "missing offsets that the log had removed between two captures"),
    ("holes", pa.int64(), "number of missing ranges"),
    (
        "known_from",
        pa.int64(),
        (
            "smallest offset N: each state that ends at N or later has the last record of each "
            "key; null if there is none"
        ),
    ),
    ("ranges", pa.list_(_RANGE), "the first 1,000 missing ranges; the end is excluded"),
    ("unknown", pa.list_(SPAN), "spans in which a key's last record may be missing"),
    ("removed", pa.int64(), "records that retention has removed"),
    ("problem", pa.string(), "reason why the cluster cannot be read; null if it can"),
)

_EVIDENCE = pa.struct(
    [
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int64()),
        ("offset", pa.int64()),
    ]
)

FINDINGS = described(
    ("cluster", pa.string(), "name of the cluster in the archive"),
    ("connector", pa.string(), "connector; null for the whole cluster"),
    ("kind", pa.string(), "kind of the finding, as `replay audit --list` shows it"),
    ("severity", pa.string(), "info, warning or danger"),
    ("sentence", pa.string(), "the problem"),
    ("advice", pa.string(), "the remedy; empty if none is needed"),
    ("evidence", pa.list_(_EVIDENCE), "records that prove the finding"),
)

_NUMBER = ("batch", pa.int64(), "number of the batch")
POSITION = pa.struct([("topic", pa.string()), ("partition", pa.int64()), ("offset", pa.int64())])

BATCHES = described(
    _NUMBER,
    ("cluster", pa.string(), "name of the cluster in the archive"),
    ("release", pa.string(), "release of the workers that read the log"),
    (
        "since",
        pa.string(),
        "end offsets of the cluster's previous batch as JSON; null in its first batch",
    ),
    ("as_of", pa.string(), "end offsets of each topic as JSON, usable as a moment"),
    ("head", pa.string(), "hash of the last manifest that was read"),
    ("latest_ms", pa.int64(), "greatest time of a record so far"),
    ("state_changes", pa.int64(), "rows of the cluster in `state_changes`"),
    ("finding_changes", pa.int64(), "rows of the cluster in `finding_changes`"),
    ("digest", pa.string(), "digest of the state after the batch, as in `summaries`"),
    ("problem", pa.string(), "reason why the cluster was not read; null if it was"),
)

STATE_CHANGES = described(
    _NUMBER,
    ("cluster", pa.string(), "name of the cluster in the archive"),
    ("release", pa.string(), "release of the workers that read the log"),
    ("table", pa.string(), "table of the state: connectors, tasks, offsets, statuses or topics"),
    ("connector", pa.string(), "name of the connector"),
    ("task", pa.int64(), "number of the task; null in rows without one"),
    ("item", pa.string(), "source partition as JSON, or topic; null in other tables"),
    ("change", pa.string(), "added, changed or removed"),
    ("before", pa.string(), "the row before as JSON; null if added"),
    ("after", pa.string(), "the row after as JSON; null if removed"),
    ("causes", pa.list_(POSITION), "last records of the batch that changed the row, if known"),
)

FINDING_CHANGES = described(
    _NUMBER,
    ("change", pa.string(), "raised or resolved"),
    *((field.name, field.type, field.metadata[b"comment"].decode()) for field in FINDINGS),
)

FEED_SCHEMAS: Mapping[str, pa.Schema] = MappingProxyType(
    {
        "batches": BATCHES,
        "state_changes": STATE_CHANGES,
        "finding_changes": FINDING_CHANGES,
    }
)
"""Schemas of the tables of a change feed, by name."""

VERDICTS = described(
    ("cluster", pa.string(), "name of the cluster in the archive"),
    ("start", pa.string(), "present release"),
    ("goal", pa.string(), "future release"),
    ("connector", pa.string(), "connector; null for the whole cluster"),
    ("verdict", pa.string(), "compatible, needs preparation, or unsafe"),
    ("reasons", pa.list_(pa.string()), "reasons, with the records that prove them"),
)

STATE_SCHEMAS: Mapping[str, pa.Schema] = MappingProxyType(
    {
        "connectors": CONNECTORS,
        "tasks": TASKS,
        "offsets": OFFSETS,
        "statuses": STATUSES,
        "topics": TOPICS,
    }
)
"""Schemas of the tables of a state, by name."""
