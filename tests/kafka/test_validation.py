"""Validation by real workers still gives the recorded answers."""

import pytest

from tests.kafka.conftest import NEWEST
from tests.kafka.real_kafka import Broker
from tests.validation.answers import CLASSES_FILE, read
from tests.validation.cases import cases
from tests.validation.recorder import answers, ask_of_classes

pytestmark = [pytest.mark.java, pytest.mark.broker, NEWEST]


async def test_workers_say_what_was_recorded(broker: Broker) -> None:
    """Every config, asked of a worker of the broker's release."""
    recorded = read()
    assert [one.config for one in recorded] == list(cases())
    said = await answers(broker, broker.release, [one.config for one in recorded])
    assert said == [one.answers[broker.release] for one in recorded]


async def test_workers_say_of_classes_what_was_recorded(broker: Broker) -> None:
    """Classes that such a worker cannot find or make."""
    asked = ask_of_classes(broker.release)
    said = await answers(broker, broker.release, asked.configs, asked.classes)
    known = {str(one.config): one.answers for one in read(CLASSES_FILE)}
    assert said == [known[str(config)][broker.release] for config in asked.configs]
