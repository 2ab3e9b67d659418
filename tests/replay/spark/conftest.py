"""One session of Spark for all tests: to start it costs as much as most of them together."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from replay.engine.session import session
from replay.engine.where import Where


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on this machine."""
    with session(Where("local[2]")) as started:
        yield started
