"""Cluster for each test: an embedded log, which each command opens for itself."""

from pathlib import Path

import pytest

from tests.client.client_calls import ClusterCalls


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterCalls:
    """Empty cluster."""
    return ClusterCalls(f"sqlite:///{tmp_path}/state.db", tmp_path)
