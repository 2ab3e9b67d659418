"""Kafka's own integration tests pass against this service."""

from pathlib import Path

import pytest

from tests.integration.suites import run, served

pytestmark = [pytest.mark.java, pytest.mark.broker]

PACKAGE = "org.apache.kafka.connect.integration"


async def test_kafkas_validation_tests_pass(tmp_path: Path) -> None:
    """Classes that are missing, abstract or broken, and configs that contradict themselves."""
    outcomes = await run(f"{PACKAGE}.ConnectorValidationIntegrationTest", served(), tmp_path)
    assert len(outcomes) == 28
    assert {name: why for name, why in outcomes.items() if why} == {}
