"""What real workers say of configs: still what was recorded of them."""

import pytest

from tests.kafka.real import Broker
from tests.validation.answers import read
from tests.validation.asking import answers
from tests.validation.cases import cases

pytestmark = [pytest.mark.java, pytest.mark.broker]


async def test_workers_say_what_was_recorded(broker: Broker) -> None:
    """Every config, asked of a worker of the broker's release."""
    recorded = read()
    assert [one.config for one in recorded] == list(cases())
    said = await answers(broker, broker.release, [one.config for one in recorded])
    assert said == [one.answers[broker.release] for one in recorded]
