"""References to config providers in texts: `${provider:path:key}` or `${provider:key}`.

Kafka: `ConfigTransformer`. A text is scanned once, also if it has many `${` without an end.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

START = "${"
_END = "}"


class ConfigReference(NamedTuple):
    """A reference in a text."""

    text: str
    """The reference as it is written."""
    provider: str
    path: str
    """Empty if there is none."""
    key: str


def has_references(text: str) -> bool:
    """Return True if a text has a reference."""
    return next(_located(text), None) is not None


def references_in(text: str) -> Iterator[ConfigReference]:
    """Yield the references in a text."""
    return (reference for _, reference in _located(text))


def replace_references(text: str, replacement: Callable[[ConfigReference], str]) -> str:
    """Return a text with each reference replaced by the text that `replacement` returns."""
    parts, end = list[str](), 0
    for start, reference in _located(text):
        parts += (text[end:start], replacement(reference))
        end = start + len(reference.text)
    return "".join((*parts, text[end:]))


def _located(text: str) -> Iterator[tuple[int, ConfigReference]]:
    """Yield the references with the index of each.

    A `${` and the next `}` enclose a reference if a colon is between them. A second `${` before
    this `}` begins no reference: `${a${b:c}` is one reference to the provider `a${b`. Without a
    colon, as in `${a${b}`, there is no reference, and the search goes on after the `}`.
    """
    start = text.find(START)
    while start >= 0:
        end = text.find(_END, start)
        if end < 0:
            return
        content = text[start + len(START) : end]
        if ":" in content:
            provider, _, place = content.partition(":")
            path, colon, key = place.partition(":")
            if not colon:
                path, key = "", place
            yield start, ConfigReference(text[start : end + 1], provider, path, key)
        start = text.find(START, end)
