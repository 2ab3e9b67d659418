"""Documentation of settings in answers: recordings hold digests of Kafka's sentences."""

import hashlib
import json
import re
from collections.abc import Iterable

DIGEST = "sha256:"
"""Prefix of a digest that replaces a sentence."""

_MEMBER = re.compile(r'"documentation":("(?:[^"\\]|\\.)*"|null)')


def digest(text: str) -> str:
    """Return the prefix and 12 hex digits of a text's SHA-256."""
    return f"{DIGEST}{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def digest_of_all(sentences: Iterable[str | None]) -> str | None:
    """One digest of several sentences in their order; None if there are no sentences."""
    texts = list(sentences)
    return digest(json.dumps(texts)) if texts else None


def sentences(text: str) -> list[str | None]:
    """The values of every member `documentation` in a JSON text, in their order."""
    return [json.loads(value) for value in _MEMBER.findall(text)]


def without_sentences(text: str) -> str:
    """The same JSON text with an empty string in every member `documentation`."""
    return _MEMBER.sub('"documentation":""', text)


def with_digests(text: str) -> str:
    """The same JSON text with digests in place of sentences; digests stay as they are."""
    return _MEMBER.sub(_digested, text)


def _digested(member: re.Match[str]) -> str:
    sentence = json.loads(member[1])
    if not sentence or sentence.startswith(DIGEST):
        return member[0]
    return f'"documentation":"{digest(sentence)}"'
