"""Runs of words that two texts share, apart from case, markup and punctuation."""

import re
from collections.abc import Iterator

LONGEST = 5
"""Number of words that two sentences about one subject may share by chance."""

_MARKUP = re.compile(r"<[^>]*>|[`\"]")
_WORD = re.compile(r"\w(?:[\w'.%$-]*\w)?")

Phrase = tuple[str, ...]


def words(text: str) -> list[str]:
    """Words of a text in lower case; the dotted name of a setting is one word."""
    return _WORD.findall(_MARKUP.sub(" ", text).lower())


def phrases(text: str, length: int = LONGEST + 1) -> Iterator[Phrase]:
    """Yield every run of `length` words in a text."""
    all_words = words(text)
    return (tuple(all_words[at : at + length]) for at in range(len(all_words) - length + 1))
