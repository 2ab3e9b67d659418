"""Results of Kafka's integration tests, per class and kind of worker, in a JSON file."""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.integration.junit import Failures

FILE = Path(__file__).parent / "failures.json"

RecordedFailures = Mapping[str, Mapping[str, Failures]]
"""Results by class and kind of worker."""


def read_failures() -> RecordedFailures:
    """Results of the last runs."""
    recorded: RecordedFailures = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    return recorded


def record_failures(test_class: str, worker: str, failures: Failures) -> None:
    """Replace the results of a class on one kind of worker."""
    recorded = {name: dict(results) for name, results in read_failures().items()}
    recorded.setdefault(test_class, {})[worker] = dict(failures)
    FILE.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n", "utf-8")
