"""Transformations and predicates: shipped ones of Kafka, and an author's own."""

from collections.abc import Sequence
from textwrap import dedent
from typing import Any

import pytest

from controlplane.connect import Sink, SinkRecord, SinkTaskContext
from controlplane.connect.records import RecordHeader, SourceRecord
from controlplane.connect.transforms import (
    ConnectRecord,
    HasHeaderKey,
    Predicate,
    RecordIsTombstone,
    TopicNameMatches,
    Transformation,
    replaced,
)
from controlplane.core.commands import CreateConnector
from controlplane.logs.log import Record
from controlplane.plane import Refusal
from controlplane.worker.connector_classes import ConnectorClasses, class_name
from controlplane.worker.plugin_path import classes_in
from controlplane.worker.records.conversion import Pipelines
from controlplane.worker.records.record_errors import ToleranceExceeded
from controlplane.worker.worker import ConnectWorker
from tests.worker.worker_fixture import (
    QUICK,
    committed_offsets,
    config_of,
    produce,
    running,
    running_classes,
    task_trace,
    until,
    until_state,
)

PACKAGE = "org.apache.kafka.connect.transforms"

put: list[str] = []
"""Values that the sink of these tests has got."""


@pytest.fixture(autouse=True)
def _empty() -> None:
    put.clear()


class TopicKeepingSink(Sink):
    """Sink that keeps topic and value of each record."""

    def put(self, task: SinkTaskContext, records: Sequence[SinkRecord]) -> None:
        """Append `topic=value` for each record."""
        del task
        put.extend(f"{record.topic}={record.value}" for record in records)


class ReturningAnything(Transformation):
    """Transformation that returns what its setting `returned` names."""

    def apply(self, record: ConnectRecord) -> Any:
        """Return the record, a text or None, as `returned` says."""
        return {"record": record, "text": "text", "none": None}[self.settings["returned"]]


class Falsy(Predicate):
    """Returns values other than `bool`, as `re.match` does."""

    def test(self, record: ConnectRecord) -> Any:
        """Return None for most records, and a text for others."""
        return "yes" if record.value == "a" else None


class Grabbing(Transformation):
    """Changes the offset of its input record."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Change the record's own offset to 99 and return a copy with 77."""
        assert isinstance(record, SourceRecord)
        record.source_offset["at"] = 99  # type: ignore[index]
        return replaced(record, value="changed", source_offset={"at": 77})


# --- the three predicates -------------------------------------------------------------------------


def record(**fields: Any) -> SourceRecord:
    """Source record of the topic `orders` with these fields."""
    return SourceRecord(**{"topic": "orders", "value": "v"} | fields)


@pytest.mark.parametrize(
    ("predicate", "settings", "selected", "others"),
    [
        (
            TopicNameMatches,
            {"pattern": "ord.*"},
            [record(), record(topic="ord")],
            [record(topic="my-orders"), record(topic="or")],
        ),
        (
            HasHeaderKey,
            {"name": "h"},
            [record(headers=(RecordHeader("h", None),))],
            [record(), record(headers=(RecordHeader("H", 1),))],
        ),
        (RecordIsTombstone, {}, [record(value=None)], [record(), record(value="")]),
    ],
)
def test_predicates_select_their_records(
    predicate: type[Predicate],
    settings: dict[str, str],
    selected: list[SourceRecord],
    others: list[SourceRecord],
) -> None:
    """Each predicate selects the records that Kafka's documentation names."""
    made = predicate()
    made.configure(settings)
    assert [made.test(tested) for tested in selected] == [True] * len(selected)
    assert [made.test(tested) for tested in others] == [False] * len(others)


CHAIN = {"transforms": "drop", "transforms.drop.type": f"{PACKAGE}.Filter"}


def filtered_by(predicate: str, negate: str | None = None, /, **settings: str) -> dict[str, str]:
    """Config of a Filter with one of Kafka's predicates."""
    config = CHAIN | {
        "transforms.drop.predicate": "p",
        "predicates": "p",
        "predicates.p.type": f"{PACKAGE}.predicates.{predicate}",
    }
    config |= {f"predicates.p.{key}": value for key, value in settings.items()}
    return config if negate is None else config | {"transforms.drop.negate": negate}


TOPICS = ["t=a", "t=None", "u=b"]


async def _three_records(worker: ConnectWorker) -> None:
    """Write a record with a header, a tombstone, and a record of another topic."""
    log = worker.plane.log
    await log.create_topic("t", 1)
    await log.create_topic("u", 1)
    await log.append(
        [
            Record("t", 0, 1_000, None, b"a", (("h", b"1"),)),
            Record("t", 0, 1_000, b"k", None),
            Record("u", 0, 1_000, None, b"b"),
        ]
    )


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (CHAIN, []),
        (filtered_by("TopicNameMatches", pattern="t"), ["u=b"]),
        (filtered_by("TopicNameMatches", "true", pattern="t"), ["t=a", "t=None"]),
        (filtered_by("HasHeaderKey", name="h"), ["t=None", "u=b"]),
        (filtered_by("HasHeaderKey", "True", name="h"), ["t=a"]),
        (filtered_by("RecordIsTombstone"), ["t=a", "u=b"]),
        (filtered_by("RecordIsTombstone", "false"), ["t=a", "u=b"]),
        (filtered_by("RecordIsTombstone", "true"), ["t=None"]),
    ],
)
async def test_filter_drops_the_selected_records(
    config: dict[str, str], expected: list[str]
) -> None:
    """Filter drops the selected records or the rest; dropped records are committed."""
    async with running(TopicKeepingSink) as worker:
        await _three_records(worker)
        await worker.plane.execute(
            CreateConnector("s", config_of(TopicKeepingSink, topics="t,u") | config)
        )
        done = {("t", 0): 2, ("u", 0): 1}
        await until(lambda: committed_offsets(worker, "connect-s") == done)
        assert sorted(put) == sorted(expected)


@pytest.mark.parametrize(
    "wrong",
    [
        filtered_by("TopicNameMatches", pattern="("),
        filtered_by("HasHeaderKey", name=""),
        filtered_by("NoSuchPredicate"),
        {"transforms.drop.type": f"{PACKAGE}.NoSuchTransformation"},
    ],
)
async def test_wrong_chains_are_refused(wrong: dict[str, str]) -> None:
    """The validation of a config finds wrong chains."""
    async with running(TopicKeepingSink) as worker:
        config = config_of(TopicKeepingSink, topics="t") | CHAIN | wrong
        with pytest.raises(Refusal):
            await worker.plane.execute(CreateConnector("s", config))


async def test_a_predicate_that_is_not_listed_fails_the_task() -> None:
    """The task fails, because Kafka's validation does not find the mistake either."""
    async with running(TopicKeepingSink) as worker:
        config = config_of(TopicKeepingSink, topics="t") | CHAIN
        config["transforms.drop.predicate"] = "missing"
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "FAILED")
        assert "predicates.missing.type is missing" in task_trace(worker, "s")


# --- an author's own ------------------------------------------------------------------------------

PLUGINS = """
    from controlplane.connect import key
    from controlplane.connect.transforms import Predicate, Transformation, replaced


    class Suffix(Transformation):
        config = (key("text"), key("times", "INT", 1))

        def apply(self, record):
            if record.value == "boom":
                raise ValueError("no boom")
            suffix = self.settings["text"] * int(self.settings["times"])
            return replaced(record, value=f"{record.value}{suffix}")


    class ValueIs(Predicate):
        config = (key("value"),)

        def test(self, record):
            return record.value == self.settings["value"]
"""


@pytest.fixture(scope="module")
def authors(tmp_path_factory: pytest.TempPathFactory) -> ConnectorClasses:
    """Classes of a directory in plugin.path, and the sink of these tests."""
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "suffixes_of_an_author.py").write_text(dedent(PLUGINS))
    classes = classes_in([str(folder)])
    return ConnectorClasses(
        [TopicKeepingSink],
        others=[
            classes.transformation("suffixes_of_an_author.Suffix"),
            classes.predicate("suffixes_of_an_author.ValueIs"),
        ],
    )


OWN = {
    "transforms": "s",
    "transforms.s.type": "suffixes_of_an_author.Suffix",
    "transforms.s.text": "!",
    "transforms.s.predicate": "p",
    "predicates": "p",
    "predicates.p.type": "suffixes_of_an_author.ValueIs",
    "predicates.p.value": "a",
}


async def test_an_authors_transformations_run(authors: ConnectorClasses) -> None:
    """An author's transformations get settings with defaults, and only the selected records."""
    async with running_classes(authors, runtime=QUICK) as worker:
        await produce(worker.plane.log, "t", "a", "b")
        config = config_of(TopicKeepingSink, topics="t") | OWN
        await worker.plane.execute(CreateConnector("s", config))
        await until(lambda: put == ["t=a!", "t=b"])


async def test_an_exception_fails_the_task(authors: ConnectorClasses) -> None:
    """The trace has the author's line; nothing is put or committed."""
    async with running_classes(authors, runtime=QUICK) as worker:
        await produce(worker.plane.log, "t", "a", "boom")
        config = config_of(TopicKeepingSink, topics="t") | OWN | {"predicates.p.value": "boom"}
        await worker.plane.execute(CreateConnector("s", config))
        await until_state(worker, "s", "RUNNING", "FAILED")
        trace = task_trace(worker, "s")
        assert 'raise ValueError("no boom")' in trace
        assert "suffixes_of_an_author.py" in trace
        assert put == []
        assert committed_offsets(worker, "connect-s") == {}


async def test_the_settings_of_an_author_are_validated(authors: ConnectorClasses) -> None:
    """A missing required setting raises Kafka's error."""
    async with running_classes(authors, runtime=QUICK) as worker:
        config = config_of(TopicKeepingSink, topics="t") | OWN
        del config["transforms.s.text"]
        with pytest.raises(Refusal, match=r"transforms\.s\.text"):
            await worker.plane.execute(CreateConnector("s", config))


# --- nonsense -------------------------------------------------------------------------------------

SOURCE = record(source_partition={"p": 1}, source_offset={"at": 1})


def transformed(transformation: type[Transformation], predicate: str = "", **config: str) -> Any:
    """Send a record through a chain of one transformation."""
    classes = ConnectorClasses(others=[transformation, Falsy])
    chain = {
        "transforms": "t",
        "transforms.t.type": class_name(transformation),
        "predicates": "p",
        "predicates.p.type": class_name(Falsy),
    }
    if predicate:
        chain["transforms.t.predicate"] = "p"
    chain |= {f"transforms.t.{name}": value for name, value in config.items()}
    return Pipelines(classes, QUICK).source(chain).converted(SOURCE)


def test_a_result_that_is_no_record_fails() -> None:
    """A result of another type is an error: dropping the record would lose data silently."""
    with pytest.raises(ToleranceExceeded) as failure:
        transformed(ReturningAnything, returned="text")
    assert "ReturningAnything.apply returned str instead of a SourceRecord or None" in str(
        failure.value.__cause__
    )
    assert transformed(ReturningAnything, returned="none") is None
    assert transformed(ReturningAnything, returned="record").value == b"v"


def test_any_false_value_of_a_predicate_selects_nothing() -> None:
    """A predicate may return None or a match object."""
    assert transformed(ReturningAnything, "p", returned="none").value == b"v"
    assert transformed(ReturningAnything, "p", returned="none", negate="true") is None


def test_the_offset_of_the_task_is_out_of_reach() -> None:
    """A transformation that changes the offset in place changes a copy."""
    assert transformed(Grabbing).value == b"changed"
    assert SOURCE.source_offset == {"at": 1}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"topic": 7}, "Invalid topic: 7"),
        ({"topic": ""}, "Invalid topic: ''"),
        ({"kafka_partition": -1}, "Invalid partition: -1"),
        ({"kafka_partition": "x"}, "Invalid partition: 'x'"),
        ({"timestamp": -5}, "Invalid timestamp: -5"),
        ({"timestamp": 2**63}, "Invalid timestamp: 9223372036854775808"),
        ({"headers": (RecordHeader(3, "x"),)}, "Invalid header name: 3"),  # type: ignore[arg-type]
        ({"headers": (RecordHeader("\ud800", "x"),)}, r"Invalid header name: '\\ud800'"),
    ],
)
def test_unwritable_fields_fail_the_task(fields: dict[str, Any], sentence: str) -> None:
    """Unwritable fields fail the task with a clear message, before the producer gets them."""
    pipeline = Pipelines(ConnectorClasses(), QUICK).source({})
    with pytest.raises(Exception, match=sentence):
        pipeline.converted(record(**fields))
