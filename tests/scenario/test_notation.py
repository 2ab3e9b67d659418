"""Notation of bytes as text: without loss, without line breaks, with all bytes visible."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.scenario.notation import bytes_of, key_text_of, text_of

SHOWN = [
    (None, "∅"),
    (b"", "(empty)"),
    (b"null", "null"),
    ("∅".encode(), r"\xE2\x88\x85"),
    (b"(empty)", r"\x28empty)"),
    (b'{"a":"\\u0007 \\\\"}', r'{"a":"\u0007 \\"}'),
    (b"\xff\x00", r"\xFF\x00"),
    (rb"\x41", r"\x5Cx41"),
    (rb"\y", r"\y"),
    (b" a ", r"\x20a\x20"),
    ("\u3000a\u00a0".encode(), r"\xE3\x80\x80a\xC2\xA0"),
    ("é😀".encode(), "é😀"),
    ("\u202e\u2028".encode(), r"\xE2\x80\xAE\xE2\x80\xA8"),
]


@pytest.mark.parametrize(("raw", "text"), SHOWN)
def test_special_signs_are_read_back(raw: bytes | None, text: str) -> None:
    """Each special sign, and text that resembles one, is written and read back."""
    assert text_of(raw) == text
    assert bytes_of(text) == raw


def test_two_spaces_end_a_key() -> None:
    """A key never has two successive spaces; a value may."""
    assert key_text_of(b"a   b") == r"a \x20\x20b"
    assert text_of(b"a   b") == "a   b"


@given(st.none() | st.binary() | st.text("\\x0aF ∅(empty)#\u202e\r\n\x85").map(str.encode))
def test_any_bytes_are_read_back(raw: bytes | None) -> None:
    """Any bytes become one line, which reads back as the same bytes."""
    for text in (text_of(raw), key_text_of(raw)):
        assert bytes_of(text) == raw
        assert len(text.splitlines()) == 1
        assert text == text.strip() != ""
