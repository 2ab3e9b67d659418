"""Secrets in texts, in all forms in which messages show them."""

import json
import re
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from controlplane.worker import secret_index
from controlplane.worker.secret_index import SEARCHED_CHARACTERS, SecretIndex, forms_of
from tests.operation_counts import operations

SECRETS = (
    "hunter2",
    "it's-hunter2",
    'a"quoted"one',
    "both'\"kinds",
    "dom\\hunter2",
    "C:\\new\\x41\\u0041",
    "two\nlines\tand a tab",
    "pässwörd",
    "密码密码",
    "key😀key",
    "bell\x07 back\bspace",
    "ends with\\",
)
WRITERS: dict[str, Callable[[str], str]] = {
    "str": str,
    "repr": repr,
    "ascii": ascii,
    "json": json.dumps,
    "json in UTF-8": lambda text: json.dumps(text, ensure_ascii=False),
    "bytes": lambda text: repr(text.encode()),
}


ALL_BUT_THE_SECRET = re.compile(r"""[b"'\\]*bad password [b"'\\]*#["'\\]* of host-1["'\\]*""")


def index_of(*secrets: str) -> SecretIndex:
    """Index with all forms of some secrets."""
    index = SecretIndex()
    for secret in secrets:
        index.add(forms_of(secret))
    return index


def without_secrets(index: SecretIndex, text: str) -> str:
    """Text with `#` in place of each secret."""
    parts, end = list[str](), 0
    for start, stop in index.spans(text):
        parts += text[end:start], "#"
        end = stop
    return "".join([*parts, text[end:]])


@pytest.mark.parametrize("outer", WRITERS)
@pytest.mark.parametrize("inner", WRITERS)
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_found_in_each_form(secret: str, inner: str, outer: str) -> None:
    """A message shows a text as Python or JSON writes it, and other messages show that message."""
    message = WRITERS[outer](f"bad password {WRITERS[inner](secret)} of host-1")
    hidden = without_secrets(index_of(secret), message)
    assert ALL_BUT_THE_SECRET.fullmatch(hidden), hidden


@pytest.mark.parametrize("outer", WRITERS)
@pytest.mark.parametrize("inner", WRITERS)
@pytest.mark.parametrize("secret", ["x0bß'ä😀", "x41'b", "u0041 key", "xc3\\'\xa4"])
def test_a_secret_after_a_backslash_is_found(secret: str, inner: str, outer: str) -> None:
    """With the backslash, the start of the secret looks like an escape of another character."""
    written = WRITERS[inner](secret).lstrip("b").strip("\"'") if inner != "str" else secret
    message = WRITERS[outer](f"in C:\\{written} of host-1")
    hidden = without_secrets(index_of(secret), message)
    assert re.fullmatch(r"""[b"']*in C:\\*#\\* of host-1["']*""", hidden), hidden


def test_a_long_secret_is_found_in_pieces() -> None:
    """The pieces touch, so they form one span; a text shorter than a piece has no span."""
    secret = "".join(f"{number}é" for number in range(2_000))
    index = index_of(secret)
    assert index.longest == SEARCHED_CHARACTERS
    for written in (secret, ascii(secret)[1:-1]):
        text = f"bad {written}."
        assert index.spans(text) == [(4, len(text) - 1)]
    assert index.spans(secret[: SEARCHED_CHARACTERS - 1]) == []
    index.remove(forms_of(secret))
    assert not index._lengths


def test_all_places_are_found() -> None:
    """Random texts and secrets of few letters: each place of each secret is in a span."""
    random = Random(17)
    for _ in range(200):
        secrets = ["".join(random.choices("abc", k=random.randint(3, 8))) for _ in range(20)]
        text = "".join(random.choices("abcd", k=200))
        inside = {
            place
            for secret in secrets
            for start in range(len(text))
            if text.startswith(secret, start)
            for place in range(start, start + len(secret))
        }
        spans = index_of(*secrets).spans(text)
        assert {place for span in spans for place in range(*span)} == inside
        assert all(end < start for (_, end), (start, _) in pairwise(spans))


def test_removed_secrets_are_shown() -> None:
    """A form that two values share stays until both are removed."""
    index = index_of("secret", "secret", "other one")
    index.remove(forms_of("secret"))
    assert index.spans("secret") == [(0, 6)]
    index.remove(forms_of("secret"))
    index.remove(forms_of("other one"))
    assert index.spans("secret other one") == []
    assert len(index) == 0
    assert not index._lengths


def test_the_number_of_secrets_costs_little() -> None:
    """A search of a text without secrets takes as many operations for 10,000 secrets as for 10."""
    text = "Traceback (most recent call last)" * 30
    few, many = (index_of(*(f"secret-{n:05}" for n in range(count))) for count in (10, 10_000))
    assert operations(lambda: many.spans(text)) == operations(lambda: few.spans(text))


def test_a_text_that_takes_long_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets of many lengths that begin alike must be compared at each place."""
    index = index_of(*("a" * length + "b" for length in range(3, 300)))
    text = "a" * 1_000
    assert index.spans(text) == []
    monkeypatch.setattr(secret_index, "SEARCH_STEPS", 100_000)
    assert index.spans(text) == [(0, 1_000)]
