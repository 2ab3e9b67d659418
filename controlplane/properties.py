"""A worker's `.properties` file: the text format of `java.util.Properties`, and values by key."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

MAX_PROPERTIES_BYTES = 1 << 20
"""A worker's file has a few kB; what is larger than 1 MiB is something else and is not read."""


class SettingsError(ValueError):
    """A setting cannot be used; the message names it and says what to do, in one sentence."""


_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END = re.compile(r"\r\n|\n|\r")
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)", re.DOTALL)
_TRAILING_BACKSLASHES = re.compile(r"\\*$")
_SURROGATES = re.compile("[\ud800-\udfff]+")


_WHITE = "".join(map(chr, range(0x21)))
"""What Java's `String.trim` takes away, which Kafka applies to every value."""

_PROVIDED = re.compile(r"\$\{[^}]*:[^}]*\}")


class Properties:
    """Values by key as Kafka takes them: trimmed. An empty value counts as none."""

    def __init__(self, raw: Mapping[str, str]) -> None:
        self._raw = raw

    def text(self, key: str) -> str | None:
        """The value, or None.

        Raises:
            SettingsError: the value is left to a config provider, and those are not run here.
        """
        value = self._raw.get(key, "").strip(_WHITE)
        if self._raw.get("config.providers") and _PROVIDED.search(value):
            raise SettingsError(
                f"{key} comes from a config provider, which cannot be asked here: "
                "use a copy of the file with the value written into it"
            )
        return value or None

    def path(self, key: str) -> Path | None:
        """The value as the path of a file, or None."""
        value = self.text(key)
        return Path(value) if value else None

    def choice(self, key: str, choices: tuple[str, ...], default: str) -> str:
        """The value, which must be one of `choices` (upper case; any case is understood)."""
        value = (self.text(key) or default).upper()
        if value not in choices:
            raise SettingsError(f"{key} is {value!r}: use {', '.join(choices)}")
        return value

    def blank(self, key: str) -> bool:
        """The key is there and its value is empty."""
        return key in self._raw and self.text(key) is None


def read_properties(path: Path) -> Properties:
    """The properties in a file, which Java reads as ISO-8859-1.

    Raises:
        SettingsError: the file cannot be read or is no such file.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_PROPERTIES_BYTES + 1)
    except OSError as failure:
        raise SettingsError(f"cannot be read ({failure.strerror})") from None
    if len(content) > MAX_PROPERTIES_BYTES or b"\0" in content:
        raise SettingsError("is no .properties file: give the one your worker is started with")
    return Properties(parse_properties(content.decode("iso-8859-1")))


def parse_properties(text: str) -> dict[str, str]:
    r"""Keys and values of a text as `java.util.Properties#load` reads it; the last of a key wins.

    `=`, `:` or white space separates; `#` and `!` begin comments; a line that ends in an odd number
    of backslashes goes on in the next; `\t`, `\n`, `\r`, `\f` and `\uXXXX` are characters, and a
    backslash before anything else is dropped. Java reads such a file as ISO-8859-1: decode it so.

    Raises:
        SettingsError: `\u` without four hexadecimal digits.
    """
    return dict(_pair(number, line) for number, line in _logical_lines(text))


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


def _pair(number: int, line: str) -> tuple[str, str]:
    key = _KEY.match(line)
    assert key is not None  # it matches nothing, too
    separator = _SEPARATOR.match(line, key.end())
    assert separator is not None
    return _unescaped(number, key.group()), _unescaped(number, line[separator.end() :])


def _unescaped(number: int, text: str) -> str:
    def character(escape: re.Match[str]) -> str:
        code = escape.group(1)
        if code == "u":
            raise SettingsError(f"line {number}: \\u must be followed by four hexadecimal digits")
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)

    return _SURROGATES.sub(_joined, _ESCAPE.sub(character, text))


def _joined(surrogates: re.Match[str]) -> str:
    """Pairs as the one character they mean; a lone half, which nothing can encode, as U+FFFD."""
    return surrogates.group().encode("utf-16", "surrogatepass").decode("utf-16", "replace")
