"""Fixtures that give each test of a worker fresh connectors."""

from collections.abc import Iterator

import pytest

from tests.worker.bad_connectors import fresh_plan
from tests.worker.failing_records import forget_records
from tests.worker.scripted_source import script


@pytest.fixture(autouse=True)
def _fresh_script() -> Iterator[None]:
    script.reset()
    yield
    script.released.set()


@pytest.fixture(autouse=True)
def _fresh_bad_connectors() -> Iterator[None]:
    yield from fresh_plan()


@pytest.fixture(autouse=True)
def _no_failing_records() -> None:
    forget_records()
