"""Validation by real workers still gives the recorded answers."""

import pytest

from tests.kafka.conftest import NEWEST
from tests.kafka.real_kafka import Broker
from tests.validation.answers import CLASSES_FILE, read
from tests.validation.cases import cases
from tests.validation.recorder import answers, ask_of_classes

pytestmark = [pytest.mark.java, pytest.mark.broker, NEWEST]


async def test_workers_give_the_recorded_answers(broker: Broker) -> None:
    """A worker of the broker's release validates every recorded config with the recorded answer."""
    recorded = read()
    assert [record.config for record in recorded] == list(cases())
    present = await answers(broker, broker.release, [record.config for record in recorded])
    assert present == [record.answers[broker.release] for record in recorded]


@pytest.mark.prove
async def test_workers_give_the_recorded_answers_about_classes(broker: Broker) -> None:
    """The worker gives the recorded answers about classes that it cannot find or create."""
    questions = ask_of_classes(broker.release)
    present = await answers(broker, broker.release, questions.configs, questions.classes)
    answers_by_config = {str(record.config): record.answers for record in read(CLASSES_FILE)}
    assert present == [
        answers_by_config[str(config)][broker.release] for config in questions.configs
    ]
