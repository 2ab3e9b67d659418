"""Planted errors in each of the three folds are noticed, and the reported log is small."""

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from controlplane.core.entry import Entry
from controlplane.core.releases.profiles import Profile
from controlplane.core.state import Topics
from controlplane.scenario.folds import FoldTask
from replay.engine.partition_reader import PartitionReader
from replay.engine.spark.tasks import reduced
from tests.conftest import sampled
from tests.replay.archive.archives import served
from tests.replay.spark.smallest_log import disagreement
from tests.replay.spark.three_answers import ThreeFolds
from tests.replay.sql.oracle import TOPICS, SqlOracle

pytestmark = pytest.mark.java

PROPERTIES = b'{"properties":{}}'
OFFSET = b'["a",{"p":1}]'

ConfigRow = tuple[bytes, bytes | None]

CONFIGS: list[ConfigRow] = [
    (b"connector-a", PROPERTIES),
    (b"task-a-0", PROPERTIES),
    (b"commit-a", b'{"tasks":1}'),
    (b"target-state-a", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
    (b"task-a-0", b'{"properties":{"k":"v"}}'),
    (b"commit-a", b'{"tasks":2}'),
    (b"connector-a", None),
]
OFFSETS: list[ConfigRow] = [(OFFSET, b'{"o":1}'), (OFFSET, b'{"o":2}'), (OFFSET, None)]

LATE, EARLY = 9, 1
"""Timestamps of the first and the last offset record. Later records have earlier times."""

LOG = (
    *(Entry(TOPICS.config, 0, at, at, *row) for at, row in enumerate(CONFIGS)),
    *(Entry(TOPICS.offsets, 0, at, LATE - at, *row) for at, row in enumerate(OFFSETS)),
    Entry(TOPICS.offsets, 0, len(OFFSETS), EARLY, OFFSET, b'{"o":3}', aborted=True),
)
"""Log of one connector, which is removed, and of its offsets with decreasing timestamps."""


class Slip(NamedTuple):
    """Error planted in one of the folds, and the report that it causes."""

    who: str
    """Folds of one side of the disagreement, as the report lists them."""
    records: int
    """Number of records of the smallest log that shows the error."""
    sql: tuple[str, str] = ("", "")
    """Text of the scripts, and its replacement."""
    kernel: Callable[..., Iterator[pa.RecordBatch]] = reduced
    service: Callable[..., Any] = served
    core: Mapping[str, bool] = MappingProxyType({})
    """Behaviours of the release, which the folds of service and Spark share."""


def spoiled(spoil: Callable[[pa.Table], pa.Table]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Spark task that changes the answer of the kernel (a function on Arrow columns)."""
    kernel = PartitionReader.reduced

    def carried_out(*inputs: Any) -> Iterator[pa.RecordBatch]:
        with pytest.MonkeyPatch.context() as patch:  # in the task's own process
            patch.setattr(PartitionReader, "reduced", lambda *arguments: spoil(kernel(*arguments)))
            yield from reduced(*inputs)

    return carried_out


def without_tombstones(rows: pa.Table) -> pa.Table:
    """Drop the rows without a value."""
    return rows.filter(pc.is_valid(rows.column("value")))


def without_the_last(rows: pa.Table) -> pa.Table:
    """Drop the last row of a partition."""
    return rows.slice(0, rows.num_rows - 1)


def seeing_aborted(*args: Any, exactly_once: bool) -> Any:
    """Answer with aborted records, in spite of exactly-once support."""
    return served(*args)


RANK = "{'t': time, 'p': partition, 'o': \"offset\"})"
RUNNING = 'max(timestamp) over (partition by cluster, topic, partition order by "offset") as time'

SLIPS = {
    "SQL ignores nulls": Slip(
        "SQL", 2, sql=("{'value': value}, " + RANK + ".value", "value, " + RANK)
    ),
    "an incomplete task set is applied": Slip(
        "SQL", 3, sql=("where c.complete and t.is_task", "where t.is_task")
    ),
    "SQL orders records by their own times": Slip("SQL", 3, sql=(RUNNING, "timestamp as time")),
    "tombstones are lost": Slip("service, SQL", 1, kernel=spoiled(without_tombstones)),
    "the last row is lost": Slip("service, SQL", 1, kernel=spoiled(without_the_last)),
    "aborted records are seen": Slip("service", 1, service=seeing_aborted),
    "state.v2 is forgotten": Slip("service, Spark", 1, core={"target_state_v2": False}),
}
"""Plausible errors by their description."""


@pytest.mark.parametrize(
    "name",
    sampled(SLIPS, "tombstones are lost", "aborted records are seen"),
)
def test_a_slip_is_noticed(name: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report names the folds of one side of the disagreement, and has the smallest log."""
    slip = SLIPS[name]
    monkeypatch.setattr("replay.engine.spark.engine.reduced", slip.kernel)
    monkeypatch.setattr("tests.replay.spark.three_answers.served", slip.service)
    profile = msgspec.structs.replace(Profile.of("3.9"), **slip.core)
    three = ThreeFolds(spark, SqlOracle(lambda text: text.replace(*slip.sql)))
    asks = [FoldTask(LOG, profile, Topics(), support) for support in (False, True)]
    text = disagreement(asks, three.differ)
    assert text.count("Entry(") == slip.records
    assert re.search(f"^  {slip.who}: ", text, re.MULTILINE)
