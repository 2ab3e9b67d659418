"""No file of the repository contains sentences of Kafka's documentation, as its jars show."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from tests.conftest import sampled
from tests.oracle import definitions
from tests.provenance.origins import FEW_WORDS
from tests.provenance.phrases import Phrase, phrases
from tests.provenance.settings import descriptions
from tests.provenance.texts import all_files

answer = cache(definitions.answer)

RELEASES = ("2.3.0", "3.1.0", "3.9.0", "4.3.0")
"""Releases to read: few, because Kafka seldom changes a sentence."""


def documented(kafka: Mapping[str, Any]) -> Iterator[str]:
    """Every documentation sentence of a release."""
    plugins = [plugin["config"] or () for plugin in kafka["plugins"]]
    keys = [kafka[name] or () for name in kafka if name not in {"plugins", "release"}]
    for key in (key for definition in (*keys, *plugins) for key in definition):
        yield key["documentation"] or ""


@pytest.mark.java
@pytest.mark.parametrize("release", sampled(RELEASES, "2.3.0", "4.3.0"))
def test_descriptions_are_our_own(release: str) -> None:
    """No description shares more than a few words in a row with a sentence of Kafka."""
    kafkas = {phrase for text in documented(answer(release)) for phrase in phrases(text)}
    assert len(kafkas) > 1000
    alike = {text for text in descriptions().values() if kafkas.intersection(phrases(text))}
    assert alike == set()


@pytest.fixture(scope="module")
def phrases_by_file() -> Mapping[str, set[Phrase]]:
    """Long runs of words in each file of the repository, packed ones included."""
    return {path: set(phrases(text, FEW_WORDS + 1)) for path, text in all_files()}


@pytest.mark.java
@pytest.mark.parametrize("release", sampled(RELEASES, "2.3.0", "4.3.0"))
def test_no_file_quotes_kafkas_documentation(
    release: str, phrases_by_file: Mapping[str, set[Phrase]]
) -> None:
    """Catalogues, recordings, programs and documents quote none of its sentences."""
    kafkas = {
        phrase for text in documented(answer(release)) for phrase in phrases(text, FEW_WORDS + 1)
    }
    assert len(kafkas) > 1000
    assert {path for path, ours in phrases_by_file.items() if ours & kafkas} == set()
