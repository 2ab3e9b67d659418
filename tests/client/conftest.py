"""A cluster for each test: an embedded log, opened by each command for itself."""

from pathlib import Path

import pytest

from tests.client.client_calls import ClusterCalls


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterCalls:
    """A cluster with nothing in it yet."""
    return ClusterCalls(f"sqlite:///{tmp_path}/state.db", tmp_path)
