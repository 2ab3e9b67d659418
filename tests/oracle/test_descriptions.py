"""The descriptions of settings are not Kafka's sentences: its jars are the judge."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.oracle.definitions import answer
from tests.provenance.phrases import phrases
from tests.provenance.settings import descriptions

RELEASES = ("2.3.0", "3.1.0", "3.9.0", "4.3.0")
"""Sentences of Kafka seldom change between them."""


def documented(kafka: Mapping[str, Any]) -> Iterator[str]:
    """Every documentation sentence that a release tells."""
    plugins = [plugin["config"] or () for plugin in kafka["plugins"]]
    keys = [kafka[name] or () for name in kafka if name not in {"plugins", "release"}]
    for key in (key for definition in (*keys, *plugins) for key in definition):
        yield key["documentation"] or ""


@pytest.mark.java
@pytest.mark.parametrize("release", RELEASES)
def test_descriptions_are_our_own(release: str) -> None:
    """None shares more than a few words in a row with any sentence of Kafka."""
    kafkas = {phrase for text in documented(answer(release)) for phrase in phrases(text)}
    assert len(kafkas) > 1000
    alike = {text for text in descriptions().values() if kafkas.intersection(phrases(text))}
    assert alike == set()
