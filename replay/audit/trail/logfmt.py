"""Log lines of `controlplane serve` in its default format: `key=value` pairs on one line.

A value with a space, `=` or `"` stands in double quotes; within them `"` and the backslash are
escaped. A key without `=` is true. `controlplane.observe` writes these lines.
"""

import re
from typing import Final

_PAIR: Final = re.compile(
    r'(?P<key>[^ ="]+)(?:=(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<plain>[^ "]*+)))?(?: |\Z)'
)
_FIRST_KEY: Final = re.compile(r'[^ ="{\[]+=')
_ESCAPED: Final = re.compile(r"\\(.)")


def is_logfmt(line: str) -> bool:
    """True if a line begins with a key and `=`."""
    return _FIRST_KEY.match(line) is not None


def read_logfmt(line: str) -> dict[str, str] | None:
    """Read the pairs of a line; None if it is not made of pairs."""
    facts: dict[str, str] = {}
    at = 0
    while at < len(line):
        match = _PAIR.match(line, at)
        if match is None:
            return None
        facts[match["key"]] = _value(match)
        at = match.end()
    return facts


def _value(match: re.Match[str]) -> str:
    if match["quoted"] is not None:
        return _ESCAPED.sub(r"\1", match["quoted"])
    return "true" if match["plain"] is None else match["plain"]
