"""No file quotes Kafka's proposals (KIPs) or OpenAPI files."""

from pathlib import Path

import pytest

from tests.provenance.origins import FEW_WORDS
from tests.provenance.phrases import Phrase, phrases
from tests.provenance.texts import all_files

FOLDERS = ("kips/*.txt", "openapi/*.yaml")

ANSWER = (
    "initial_offsets_response: The framework-managed offsets for this connector have been set "
    "successfully. However, if this connector manages offsets externally, they will need to be "
    "manually set in the system that the connector uses."
)
"""KIP-995 prescribes this answer, so the service gives it."""


def long_phrases(text: str) -> set[Phrase]:
    """Runs of words that are too long to be equal by chance."""
    return set(phrases(text, FEW_WORDS + 1))


@pytest.mark.shared
def test_no_file_quotes_a_proposal(shared: Path) -> None:
    """No file shares more than twelve words in a row with them, except a prescribed answer."""
    files = [path for folder in FOLDERS for path in shared.glob(folder)]
    theirs = set[Phrase]().union(*(long_phrases(path.read_text("utf-8")) for path in files))
    assert len(theirs) > 1000
    quoted = theirs - long_phrases(ANSWER)
    assert {path for path, text in all_files() if quoted & long_phrases(text)} == set()
