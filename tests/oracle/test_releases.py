"""`docs/releases.md` is complete, current and without a disagreement."""

import re

import pytest

from controlplane.core.releases.profiles import RELEASES
from tests.conftest import sampled
from tests.oracle.oracle_releases import ASKED, PROVED
from tests.oracle.releases import EDGES, FILE, document, rows_in, rows_of

SHARP_EDGES = 34

COMPARED = ("0.9.0.1", "2.3.0", "3.4.1", "3.9.1", "4.3.0")
"""Releases that Kafka's classes answer for anew."""


def test_every_edge_has_a_row() -> None:
    """Edges are numbered from 1 to 34, and each has a question or a note."""
    assert [edge.number for edge in EDGES] == list(range(1, SHARP_EDGES + 1))
    assert all(edge.probes or edge.questions or edge.note for edge in EDGES)


def test_file_has_every_edge() -> None:
    """The committed file has a section for each edge."""
    sections = re.findall(r"^## (\d+)\. ", FILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(number) for number in sections] == [edge.number for edge in EDGES]


def test_file_knows_no_disagreement() -> None:
    """The committed file lists no disagreement between our fold and Kafka's classes."""
    assert "Disagreements: 0." in FILE.read_text(encoding="utf-8")


def test_oracle_releases_exist() -> None:
    """All releases exist, oldest first, without repetition."""
    assert list(ASKED) == [release for release in RELEASES if release in ASKED]
    assert set(PROVED) <= set(RELEASES) - set(ASKED)


@pytest.mark.java
@pytest.mark.parametrize("release", sampled(COMPARED, "0.9.0.1", "3.4.1", "4.3.0"))
def test_file_has_the_answers_of_a_release(release: str) -> None:
    """A new run for a release gives its rows of the committed file."""
    assert rows_in(FILE.read_text(encoding="utf-8"), release) == rows_of(release)


@pytest.mark.java
@pytest.mark.prove
def test_file_is_current() -> None:
    """A new run for all releases gives the committed file (else run `tests.oracle.releases`)."""
    assert document() == FILE.read_text(encoding="utf-8")
