"""Scenarios in documents: the two of the design, and those of the guides."""

import re
from pathlib import Path

import pytest

from tests.scenario.playback import reported

ROOT = Path(__file__).parents[2]

EXAMPLES = (
    "upgrade/stop-in-mixed-3.4-3.7-cluster",
    "offsets/create-with-offsets-crash-after-wipe",
)


@pytest.mark.shared
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_as_designed(name: str, shared: Path) -> None:
    """An example equals its design byte for byte."""
    designed = (shared / "scenarios.md").read_text()
    assert (ROOT / "scenarios" / f"{name}.scenario").read_text() in designed


@pytest.mark.parametrize("document", ["docs/testing.md", "scenarios/README.md"])
def test_an_example_in_a_document_plays_as_written(document: str) -> None:
    """A copy of an example from a document gives the shown output."""
    text = (ROOT / document).read_text()
    fenced = re.findall(r"^```\n(cluster .*?)^```$", text, re.MULTILINE | re.DOTALL)
    indented = re.findall(r"^(    # .*?\n(?:(?: {4}.*)?\n)+)", text, re.MULTILINE)
    examples = [*fenced, *(re.sub("^ {4}", "", block, flags=re.MULTILINE) for block in indented)]
    assert [reported(example) for example in examples] == [""]
