"""Parser of `.properties` files: the text format of `java.util.Properties`, line by line."""

import re
from collections.abc import Iterator
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

from controlplane.core.text.file_errors import unreadable
from controlplane.settings.errors import SettingsError

MAX_PROPERTIES_BYTES = 1 << 20
"""Maximum file size. A worker's file has a few kB; a larger file is refused."""


class BadLine(SettingsError):
    """A malformed line, which Java refuses too; `line` is its number, from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason


def located(source: str, failure: SettingsError) -> SettingsError:
    """Return the same error with its location: `worker.properties:3: …`."""
    if isinstance(failure, BadLine):
        return SettingsError(f"{source}:{failure.line}: {failure.reason}")
    return SettingsError(f"{source}: {failure}")


_BYTE_ORDER_MARKS = ("\ufeff", "\u00ef\u00bb\u00bf")
"""Byte-order mark of UTF-8, decoded as UTF-8 and as ISO-8859-1."""
_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END = re.compile(r"\r\n|\n|\r")
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)", re.DOTALL)
_SURROGATES = re.compile("[\ud800-\udfff]+")


class Property(NamedTuple):
    """A key, its value, and the number of its first line, from 1."""

    line: int
    key: str
    value: str


def read_properties(path: Path) -> list[Property]:
    """Return the properties in a file, decoded as ISO-8859-1 like in Java.

    Raises:
        SettingsError: the file cannot be read or is malformed.
    """
    try:
        content = _read_limited(path)
    except OSError as failure:
        raise SettingsError(unreadable(path, failure)) from None
    try:
        _check_text(content)
        return list(properties_in(content.decode("iso-8859-1")))
    except SettingsError as failure:
        raise located(str(path), failure) from None


def _read_limited(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_PROPERTIES_BYTES + 1)


def _check_text(content: bytes) -> None:
    if len(content) > MAX_PROPERTIES_BYTES or b"\0" in content:
        raise SettingsError("is no .properties file: give the file with which your worker starts")


def properties_in(text: str) -> Iterator[Property]:
    r"""Yield properties as `java.util.Properties#load` reads them.

    - `=`, `:` or white space separates key and value; `#` and `!` begin comments.
    - A line that ends in an odd number of backslashes continues in the next.
    - `\t`, `\n`, `\r`, `\f` and `\uXXXX` are escapes; any other backslash is dropped.
    - A repeated key is yielded each time; its last value counts.
    - The caller decodes the text: a worker's file as ISO-8859-1, a provider's file as UTF-8.
    - Unlike in Java, a byte-order mark, which some editors write, is no part of the first key.

    Raises:
        BadLine: `\u` without four hexadecimal digits.
    """
    for mark in _BYTE_ORDER_MARKS:
        text = text.removeprefix(mark)
    return starmap(_property, _logical_lines(text))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join continued lines; yield each with the number of its first line, without comments."""
    lines = _LINE_END.split(text)
    logical, first = "", 0
    for number, natural in enumerate(lines, start=1):
        line = natural.lstrip(_BLANK)
        if not logical:
            first = number
            if not line or line[0] in "#!":
                continue
        continues = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        logical += line[:-1] if continues else line
        if not continues or number == len(lines):
            yield first, logical
            logical = ""


def _property(number: int, line: str) -> Property:
    key = _KEY.match(line)
    assert key is not None  # the pattern also matches an empty key
    separator = _SEPARATOR.match(line, key.end())
    assert separator is not None
    value = _unescape(number, line[separator.end() :])
    return Property(number, _unescape(number, key.group()), value)


def _unescape(number: int, text: str) -> str:
    def character(escape: re.Match[str]) -> str:
        code = escape.group(1)
        if code == "u":
            raise BadLine(number, "\\u must be followed by four hexadecimal digits")
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)

    return _SURROGATES.sub(_join_surrogates, _ESCAPE.sub(character, text))


def _join_surrogates(surrogates: re.Match[str]) -> str:
    """Join surrogate pairs into their character; a lone surrogate becomes U+FFFD."""
    return surrogates.group().encode("utf-16", "surrogatepass").decode("utf-16", "replace")
