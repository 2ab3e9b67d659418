"""Kafka's own integration tests, unchanged, against this service."""

from pathlib import Path

import pytest

from tests.conftest import sampled
from tests.integration.junit import run_tests
from tests.integration.recorded_failures import read_failures
from tests.integration.results_page import PAGE, page, unexplained
from tests.integration.selection import REASONS, TEST_CLASSES
from tests.integration.worker_programs import OWN, own_service

SHORT = ("ConnectorTopicsIntegrationTest",)
"""Class that `make test` runs: sources and sinks, half a minute."""


@pytest.mark.java
@pytest.mark.broker
@pytest.mark.parametrize("test_class", sampled(TEST_CLASSES, *SHORT))
async def test_kafkas_tests_pass(test_class: str, tmp_path: Path) -> None:
    """Each test passes, or has a reason for its failure."""
    failures = await run_tests(test_class, await own_service(), tmp_path)
    assert failures.keys() == read_failures()[test_class][OWN].keys()
    reasons = REASONS.get(test_class, {})
    assert {test: why for test, why in failures.items() if why and test not in reasons} == {}


def test_every_failure_has_a_reason() -> None:
    """No test passes on Java workers and fails here without an explanation."""
    assert [*unexplained()] == []


def test_every_reason_is_of_a_test_that_fails() -> None:
    """A test with a reason fails; the reason is removed once it passes."""
    recorded = read_failures()
    stale = [
        f"{name}.{test}"
        for name, reasons in REASONS.items()
        for test in reasons
        if recorded[name][OWN].get(test, "not run") is None
    ]
    assert stale == []


def test_the_page_has_the_last_results() -> None:
    """The page has the last results of `make kafka-its`."""
    assert PAGE.read_text("utf-8") == page()
