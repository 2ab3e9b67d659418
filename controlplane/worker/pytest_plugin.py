r"""Plugin for pytest: the fixture `connector_trial` runs a connector in a test.

    def test_lines_arrive(connector_trial, tmp_path):
        (tmp_path / "in.txt").write_text("one\n")
        run = connector_trial(Lines, {"file": str(tmp_path / "in.txt"), "topic": "t"})
        assert [record.value for record in run.records("t", 1)] == [b"one"]

pytest loads this module in every run of an environment in which the package is installed (entry
point `pytest11`). The runtime is therefore imported by the first test that uses the fixture.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from controlplane.worker.blocking_trial import StartTrial


@pytest.fixture
def connector_trial() -> "Iterator[StartTrial]":
    """Start connectors on logs in memory; all are stopped at the end of the test."""
    from controlplane.worker.blocking_trial import BlockingTrials  # noqa: PLC0415 - see above

    with BlockingTrials() as trials:
        yield trials.start
