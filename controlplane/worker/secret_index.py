r"""Search of texts for many secrets at once, also in escaped forms.

A message may show a secret as `repr`, JSON or `bytes` do, and escape such a text again. So secrets
are searched in a text and in its bare text. These replacements make the bare text, which has no
backslashes:

- An escape by digits becomes its character: `\xe4` becomes `ä`.
- Another escape loses its backslashes: `\'` becomes `'`, and `\n` becomes `n`.
- A line feed that is not escaped becomes `n`, too. The characters backspace, tab, form feed and
  carriage return become `b`, `t`, `f` and `r`.

So `it\'s\n` has the bare text `it'sn`. The text `it's`, followed by a line feed, has the same one.
"""

import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

SECRET_CHARACTERS = 3
"""Minimum length of a text to hide. Shorter ones are too frequent in the text of a trace."""

SEARCH_STEPS = 1_000_000
"""Maximum work for one text, about 0.3 s. A text that needs more is hidden as a whole.

A comparison takes one step, and a further one for every 64 characters that it compares.
"""

ESCAPE_CHARACTERS = 32
r"""Assumed maximum length of the escaped form of one character of a secret.

A character beyond U+FFFF takes 12 characters in JSON, as `\ud83d\ude00`. Each further escaping
doubles the backslashes. After three further escapings the form has 26 characters.
"""

SEARCHED_CHARACTERS = 1_000
"""Maximum length of a text to search for. A longer secret is searched in pieces.

An excerpt of a long message shows only its start and its end (`ConfigResolver.excerpt`). A secret
may reach from a shown part into the omitted middle. So the search goes beyond each shown part, by
at most `ESCAPE_CHARACTERS` times this length.
"""

_STEP_CHARACTERS = 64

_ESCAPE = re.compile(
    r"\\++u([dD][89abAB][0-9a-fA-F]{2})\\++u([dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\++(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))"
    r"|\\++|[\b\t\n\f\r]"
)
"""Escapes and control characters. The first form is a pair of surrogates, as in JSON."""

_LETTERS = {"\b": "b", "\t": "t", "\n": "n", "\f": "f", "\r": "r", "\\": ""}
r"""Bare text of control characters: the letter of their escape, such as `n` of `\n`.

The bare text of a backslash is empty.
"""

_CODES = str.maketrans(_LETTERS)

_LIKE_CODE = re.compile(r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}")
"""Start of a text that looks like an escape if a backslash precedes it."""

Span = tuple[int, int]
"""Start and end of a secret in a text."""


def forms_of(secret: str) -> set[str]:
    r"""Return the texts to search for: the secret, its bare text, and further forms.

    A message may show the UTF-8 bytes of a secret beyond ASCII: for the secret `grün`, it shows
    `gr\xc3\xbcn`. The bare text of this message has one character for each byte: `grÃ¼n`. So
    `grÃ¼n` is another form of the secret `grün`.

    A message may have a backslash directly in front of the secret. Then the start of the secret can
    look like an escape. With the secret `x41bc`, the message has `\x41bc`, whose bare text is
    `Abc`. So `Abc` is another form of the secret `x41bc`.

    Texts of less than `SECRET_CHARACTERS` are left out.
    """
    bare_forms = {_bare(secret)}
    if not secret.isascii():
        bare_forms.add(_bare(secret.encode("utf-8", "replace").decode("latin-1")))
    after_backslash = {_bare("\\" + form) for form in bare_forms if _LIKE_CODE.match(form)}
    forms = {secret} | bare_forms | after_backslash
    return {form for form in forms if len(form) >= SECRET_CHARACTERS}


class SecretIndex:
    """Pieces of forms of secrets, by their first characters. One pass over a text finds all."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        """Number of times that each piece was added."""
        self._lengths: dict[str, Counter[int]] = {}
        """Number of pieces of each length, by their first `SECRET_CHARACTERS` characters."""
        self.longest = 0
        """Length of the longest piece that was ever added."""

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, forms: Iterable[str]) -> None:
        """Add forms; each may be added several times."""
        for piece in _pieces(forms):
            if not self._counts[piece]:
                self._lengths.setdefault(piece[:SECRET_CHARACTERS], Counter())[len(piece)] += 1
                self.longest = max(self.longest, len(piece))
            self._counts[piece] += 1

    def remove(self, forms: Iterable[str]) -> None:
        """Undo one addition of each of these forms."""
        for piece in _pieces(forms):
            self._counts[piece] -= 1
            if self._counts[piece]:
                continue
            del self._counts[piece]
            lengths = self._lengths[piece[:SECRET_CHARACTERS]]
            lengths[len(piece)] -= 1
            if not lengths[len(piece)]:
                del lengths[len(piece)]
            if not lengths:
                del self._lengths[piece[:SECRET_CHARACTERS]]

    def spans(self, text: str) -> list[Span]:
        """Return where a text shows secrets: sorted, and no two of them touch."""
        if not self._counts:
            return []
        bare = bare_text(text)
        try:
            raw_spans = [*self._places(text)]
            bare_spans = [*self._places(bare.text)] if bare.text != text else []
        except _TooManySteps:
            return [(0, len(text))]
        return _joined([*raw_spans, *(bare.span_in_text(span) for span in bare_spans)])

    def _places(self, text: str) -> Iterator[Span]:
        """Yield the span of the longest piece that begins at each position of a text.

        Raises:
            _TooManySteps: it takes more than `SEARCH_STEPS`.
        """
        steps = 0
        for start in range(len(text) - SECRET_CHARACTERS + 1):
            lengths = self._lengths.get(text[start : start + SECRET_CHARACTERS])
            if lengths is None:
                continue
            longest = 0
            for length in lengths:
                steps += 1 + length // _STEP_CHARACTERS
                piece = text[start : start + length]
                if len(piece) > longest and piece in self._counts:
                    longest = len(piece)
            if longest:
                yield start, start + longest
            if steps > SEARCH_STEPS:
                raise _TooManySteps


class _TooManySteps(Exception):
    """A text needs too much work."""


def _pieces(forms: Iterable[str]) -> Iterator[str]:
    """Yield each form, or its pieces of `SEARCHED_CHARACTERS`; the last one may overlap."""
    for form in forms:
        for start in range(0, max(1, len(form) - SEARCHED_CHARACTERS + 1), SEARCHED_CHARACTERS):
            yield form[start : start + SEARCHED_CHARACTERS]
        # The rest may be too short to search for (`SECRET_CHARACTERS`), so the last piece overlaps.
        if len(form) % SEARCHED_CHARACTERS and len(form) > SEARCHED_CHARACTERS:
            yield form[-SEARCHED_CHARACTERS:]


class BareText(NamedTuple):
    """Bare text of an original text, and the origin of its pieces.

    A piece comes from one escape or control character, or from the text between two of them.
    """

    text: str
    starts: list[int]
    """Start of each piece in the bare text."""
    pieces: list[tuple[int, int, bool]]
    """Start and end of each piece in the original text; True: an escape or control character."""

    def span_in_text(self, span: Span) -> Span:
        """Return the place in the original text."""
        start, end = span
        first, _, is_escape = self._piece(start)
        text_start = first if is_escape else first + start - self.starts[self._at(start)]
        first, last, is_escape = self._piece(end - 1)
        text_end = last if is_escape else first + end - self.starts[self._at(end - 1)]
        return text_start, text_end

    def _at(self, position: int) -> int:
        return bisect_right(self.starts, position) - 1

    def _piece(self, position: int) -> tuple[int, int, bool]:
        return self.pieces[self._at(position)]


def bare_text(text: str) -> BareText:
    """Return the bare text of a text, as the module's docstring defines it, with its pieces."""
    parts, starts, pieces = list[str](), list[int](), list[tuple[int, int, bool]]()
    length = 0

    def add(part: str, start: int, end: int, *, is_escape: bool) -> None:
        nonlocal length
        if part:
            parts.append(part)
            starts.append(length)
            pieces.append((start, end, is_escape))
            length += len(part)

    before = 0
    for escape in _ESCAPE.finditer(text):
        add(text[before : escape.start()], before, escape.start(), is_escape=False)
        add(_character(escape), escape.start(), escape.end(), is_escape=True)
        before = escape.end()
    add(text[before:], before, len(text), is_escape=False)
    return BareText("".join(parts), starts, pieces)


def _bare(text: str) -> str:
    """Return the bare text without its pieces. Most texts have no escape, and take little time."""
    if "\\" in text:
        return _ESCAPE.sub(_character, text)
    return text if text.isprintable() else text.translate(_CODES)


def _character(escape: re.Match[str]) -> str:
    """Return the bare text of an escape or a control character."""
    high, low, *codes = escape.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)
    code = next((int(code, 16) for code in codes if code), None)
    if code is None:
        return _LETTERS[escape[0][-1]]
    if code > sys.maxunicode:
        return ""
    return _LETTERS.get(chr(code), chr(code))  # `\x0a` is the same character as `\n`


def _joined(spans: Iterable[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined
