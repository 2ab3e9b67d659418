"""Blanks around values of a config: Kafka ignores them, so the runtime ignores them, too."""

from typing import Any

from controlplane.connect import SourceRecord
from controlplane.worker.connector_classes import ConnectorClasses
from controlplane.worker.data_topics.kafka_clients import KafkaClients
from controlplane.worker.records.conversion import Pipelines
from controlplane.worker.records.record_errors import ErrorSettings
from controlplane.worker.task_identity import TaskIdentity
from controlplane.worker.tasks.exactly_once import TransactionBoundary
from tests.worker.worker_fixture import QUICK

DEAD_LETTERS = "errors.deadletterqueue.topic.name"
TRANSFORMS = "org.apache.kafka.connect.transforms"


def test_blanks_around_error_settings_do_not_count() -> None:
    """A tolerant connector stays tolerant, and its dead letters go to the named topic."""
    settings = ErrorSettings.of({"errors.tolerance": " all ", DEAD_LETTERS: "\tletters "})
    assert settings.tolerant
    assert settings.dead_letter_topic == "letters"


def test_blanks_around_a_boundary_do_not_count() -> None:
    """The boundary of transactions is read without case and blanks; the default is `poll`."""
    boundaries = [" Interval", "connector ", "", "  "]
    read = [TransactionBoundary.of({"transaction.boundary": text}) for text in boundaries]
    assert read == [
        TransactionBoundary.INTERVAL,
        TransactionBoundary.CONNECTOR,
        TransactionBoundary.POLL,
        TransactionBoundary.POLL,
    ]
    assert TransactionBoundary.of({}) is TransactionBoundary.POLL


def test_blanks_around_class_names_do_not_count() -> None:
    """Converters, transformations and predicates are found."""
    config = {
        "value.converter": " org.apache.kafka.connect.json.JsonConverter ",
        "value.converter.schemas.enable": "false",
        "transforms": " drop ",
        "transforms.drop.type": f" {TRANSFORMS}.Filter ",
        "transforms.drop.predicate": " empty ",
        "predicates": "empty",
        "predicates.empty.type": f"{TRANSFORMS}.predicates.RecordIsTombstone ",
    }
    pipeline = Pipelines(ConnectorClasses(), QUICK).source(config)
    assert pipeline.converted(SourceRecord(topic="t")) is None
    converted = pipeline.converted(SourceRecord(topic="t", value={"id": 7}))
    assert converted is not None
    assert converted.value == b'{"id":7}'


async def test_blanks_name_no_topic_of_dead_letters() -> None:
    """On brokers, a blank name opens no producer."""
    unused: Any = None
    clients = KafkaClients(unused, unused, unused)
    async with clients.dead_letter_producer(TaskIdentity("s", 0), {DEAD_LETTERS: "  "}) as producer:
        assert producer is None
