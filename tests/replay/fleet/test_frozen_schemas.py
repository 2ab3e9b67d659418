"""Tables keep their columns: later versions append columns, and change none.

`FROZEN` is a contract with readers of stored tables. A new column is appended to its table here. No
line is removed, changed or moved.
"""

from collections.abc import Mapping

import pyarrow as pa
import pytest

from tests.replay.fleet.test_documented_schemas import SCHEMAS

FROZEN: Mapping[str, str] = {
    "connectors": """\
cluster string
release string
connector string
class string
config map(string, string)
target_state string
tasks int64
inconsistent bool
state string
worker string
remarks [string]
order_dependent [string]
""",
    "tasks": """\
cluster string
release string
connector string
task int64
config map(string, string)
""",
    "offsets": """\
cluster string
release string
connector string
partition string
offset string
problem string
""",
    "statuses": """\
cluster string
release string
connector string
task int64
state string
worker string
generation int64
version string
trace string
""",
    "topics": """\
cluster string
release string
connector string
topic string
task int64
discovered_ms int64
""",
    "clusters": """\
cluster string
head string
segments int64
records int64
bytes int64
first_ms int64
latest_ms int64
secrets string
gaps [string]
problem string
""",
    "partitions": """\
cluster string
topic string
partition int64
records int64
first_offset int64
last_offset int64
first_ms int64
latest_ms int64
looks int64
missing int64
lost int64
holes int64
known_from int64
ranges [{start int64, end int64}]
unknown [{after int64, until int64, missing int64}]
removed int64
problem string
""",
    "summaries": """\
cluster string
release string
as_of string
digest string
connectors int64
tasks int64
offsets int64
statuses int64
topics int64
unreadable int64
gaps [string]
problem string
doubts [string]
certain_from string
""",
    "findings": """\
cluster string
connector string
kind string
severity string
sentence string
advice string
evidence [{cluster string, topic string, partition int64, offset int64}]
""",
    "verdicts": """\
cluster string
start string
goal string
connector string
verdict string
reasons [string]
""",
    "timeline": """\
cluster string
releases [string]
connector string
aspect string
item string
value string
since {topic string, partition int64, offset int64, time_ms int64}
until {topic string, partition int64, offset int64, time_ms int64}
first_seen bool
unknown {after int64, until int64, missing int64}
""",
    "history": """\
cluster string
release string
connector string
at string
record {topic string, partition int64, offset int64, timestamp int64, key string, value string}
meaning string
what string
words string
before string
after string
""",
    "diff": """\
from {cluster string, release string, as_of string}
to {cluster string, release string, as_of string}
connector string
aspect string
item string
before string
after string
words string
cause {topic string, partition int64, offset int64}
""",
    "comparisons": """\
cluster string
from {cluster string, release string, as_of string}
to {cluster string, release string, as_of string}
differences int64
gaps [string]
doubts [string]
problem string
certain_from {from string, to string}
""",
    "batches": """\
batch int64
cluster string
release string
since string
as_of string
head string
latest_ms int64
state_changes int64
finding_changes int64
digest string
problem string
""",
    "state_changes": """\
batch int64
cluster string
release string
table string
connector string
task int64
item string
change string
before string
after string
causes [{topic string, partition int64, offset int64}]
""",
    "finding_changes": """\
batch int64
change string
cluster string
connector string
kind string
severity string
sentence string
advice string
evidence [{cluster string, topic string, partition int64, offset int64}]
""",
}
"""Columns of each table, in order: a name and a type per line; `{…}` is a struct, `[…]` a list."""


def columns(schema: pa.Schema) -> list[str]:
    """Columns of a schema as `FROZEN` writes them."""
    return [f"{field.name} {type_text(field.type)}" for field in schema]


def type_text(column: pa.DataType) -> str:
    """Type of a column, with all types within it: Arrow's own text differs between versions."""
    if pa.types.is_map(column):
        return f"map({type_text(column.key_type)}, {type_text(column.item_type)})"
    if pa.types.is_list(column):
        return f"[{type_text(column.value_type)}]"
    if pa.types.is_struct(column):
        return f"{{{', '.join(columns(pa.schema(list(column))))}}}"
    return str(column)


def test_the_names_of_tables_are_frozen() -> None:
    """No table is removed or renamed; a new table is appended to `FROZEN`."""
    assert [*SCHEMAS] == [*FROZEN]


@pytest.mark.parametrize("name", FROZEN)
def test_the_columns_of_a_table_are_frozen(name: str) -> None:
    """Names, types and order stay; a new column comes last, and is appended to `FROZEN`."""
    assert columns(SCHEMAS[name]) == FROZEN[name].splitlines()
    assert all(field.nullable for field in SCHEMAS[name])
