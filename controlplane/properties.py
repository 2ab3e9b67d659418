"""A worker's `.properties` file: the text format of `java.util.Properties`, line by line."""

import re
from collections.abc import Iterator
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

from controlplane.core.file_sentences import unreadable

MAX_PROPERTIES_BYTES = 1 << 20
"""A worker's file has a few kB; what is larger than 1 MiB is something else and is not read."""


class SettingsError(ValueError):
    """A setting cannot be used; the message names it and says what to do, in one sentence."""


class BadLine(SettingsError):
    """A line that Java cannot read either; `line` is its number, from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line, self.reason = line, reason


def located(source: str, failure: SettingsError) -> SettingsError:
    """The same error with the place where it is: `worker.properties:3: …`."""
    if isinstance(failure, BadLine):
        return SettingsError(f"{source}:{failure.line}: {failure.reason}")
    return SettingsError(f"{source}: {failure}")


_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END = re.compile(r"\r\n|\n|\r")
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)", re.DOTALL)
_TRAILING_BACKSLASHES = re.compile(r"\\*$")
_SURROGATES = re.compile("[\ud800-\udfff]+")


class Property(NamedTuple):
    """A key, its value, and the number of the line on which it begins, from 1."""

    line: int
    key: str
    value: str


def read_properties(path: Path) -> list[Property]:
    """The properties in a file, which Java reads as ISO-8859-1.

    Raises:
        SettingsError: the file cannot be read or is no such file.
    """
    try:
        content = _content(path)
    except OSError as failure:
        raise SettingsError(unreadable(path, failure)) from None
    try:
        _check_text(content)
        return list(properties_in(content.decode("iso-8859-1")))
    except SettingsError as failure:
        raise located(str(path), failure) from None


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_PROPERTIES_BYTES + 1)


def _check_text(content: bytes) -> None:
    if len(content) > MAX_PROPERTIES_BYTES or b"\0" in content:
        raise SettingsError("is no .properties file: give the one your worker is started with")


def properties_in(text: str) -> Iterator[Property]:
    r"""What `java.util.Properties#load` reads in a text; there the last of a key wins.

    `=`, `:` or white space separates; `#` and `!` begin comments; a line that ends in an odd number
    of backslashes goes on in the next; `\t`, `\n`, `\r`, `\f` and `\uXXXX` are characters, and a
    backslash before anything else is dropped. Java reads such a file as ISO-8859-1: decode it so.

    Raises:
        BadLine: `\u` without four hexadecimal digits.
    """
    return starmap(_property, _logical_lines(text))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined where one continues in the next, with the number of the first; no comments."""
    lines = _LINE_END.split(text)
    begun, first = "", 0
    for number, natural in enumerate(lines, start=1):
        line = natural.lstrip(_BLANK)
        if not begun:
            first = number
            if not line or line[0] in "#!":
                continue
        continues = len(_trailing_backslashes(line)) % 2 == 1
        begun += line[:-1] if continues else line
        if not continues or number == len(lines):
            yield first, begun
            begun = ""


def _trailing_backslashes(line: str) -> str:
    found = _TRAILING_BACKSLASHES.search(line)
    return found.group() if found else ""


def _property(number: int, line: str) -> Property:
    key = _KEY.match(line)
    assert key is not None  # it matches nothing, too
    separator = _SEPARATOR.match(line, key.end())
    assert separator is not None
    value = _unescaped(number, line[separator.end() :])
    return Property(number, _unescaped(number, key.group()), value)


def _unescaped(number: int, text: str) -> str:
    def character(escape: re.Match[str]) -> str:
        code = escape.group(1)
        if code == "u":
            raise BadLine(number, "\\u must be followed by four hexadecimal digits")
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)

    return _SURROGATES.sub(_joined, _ESCAPE.sub(character, text))


def _joined(surrogates: re.Match[str]) -> str:
    """Pairs as the one character they mean; a lone half, which nothing can encode, as U+FFFD."""
    return surrogates.group().encode("utf-16", "surrogatepass").decode("utf-16", "replace")
