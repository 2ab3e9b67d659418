"""The examples by which the language was designed are scenarios like all others, to the letter."""

from pathlib import Path

import pytest

SCENARIOS = Path(__file__).parents[2] / "scenarios"

EXAMPLES = ("upgrade/stop-in-mixed-3.4-3.7-cluster",)


@pytest.mark.shared
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_as_designed(name: str, shared: Path) -> None:
    """Byte for byte; that it prints what it says is tested where all scenarios are."""
    designed = (shared / "scenarios.md").read_text()
    assert (SCENARIOS / f"{name}.scenario").read_text() in designed
