"""Secrets in base64 and hex within texts: detection and removal.

Every run of eight or more base64 characters is decoded at each alignment, and from hex. The result
is not decoded again. A run counts as a secret if the decoded text spells one (`password=…`). Any
other run stays: an encoded key without such a word cannot be told from an encoded picture.
"""

import re
from binascii import a2b_base64
from collections.abc import Callable
from typing import Final

from controlplane.core.text import redaction

_RUN: Final = re.compile(
    r"[A-Za-z0-9+/_-]{8,}+(?:[ \t\r]*+\n[ \t\r\n]*+[A-Za-z0-9+/_-]{4,}+)*+={0,2}"
)
"""Base64 may be broken into lines. Only the white space that `_PLAIN` removes may stand between
them. No text causes backtracking."""

_HEX: Final = re.compile(r"(?:[0-9A-Fa-f]{2}){5,}")
_PRINTABLE: Final = re.compile(rb"[\t\n\r\x20-\x7e]{5,}")
_QUANTUM: Final = 4
"""Base64 characters per group of three bytes."""

_BETWEEN: Final = b"\1"
_ZEROS: Final = "A" * 2 * _QUANTUM

_REPLACED: Final = re.compile(r"""[\s\\"']*(?:\[hidden\]|\$\{encrypted:[^{}]*\})[\s\\"']*""")
"""Replacement of a secret, with its quotes."""

_PLAIN: Final = str.maketrans("-_", "+/", " \t\r\n=")


def may_hold_secrets(text: str) -> bool:
    """True if a run of a text may hold a secret, or the name of one.

    Only the printable parts of the decoded runs are searched: as they are, and without NULs (for
    UTF-16). Ordinary words are no base64: they decode to noise with control characters. Noise may
    contain a backslash or `%` by chance, so escapes alone are no trace of a secret.
    """
    decoded = _decoded(_RUN.findall(text))
    stretches = _PRINTABLE.findall(decoded) + _PRINTABLE.findall(decoded.replace(b"\0", b""))
    return bool(stretches) and redaction.has_secret_words(_BETWEEN.join(stretches).decode())


def _decoded(runs: list[str]) -> bytes:
    """Decode runs in each way, joined by `_BETWEEN`."""
    # Padding with the letter A, which encodes zeros, makes each run begin at a multiple of four. So
    # all runs are decoded together.
    plain = "\0".join(runs).translate(_PLAIN).split("\0")
    joined = "".join(run + _ZEROS[len(run) % _QUANTUM :] for run in plain)
    end = len(joined) - _QUANTUM
    decoded = [a2b_base64(joined[start : end + start]) for start in range(_QUANTUM)]
    decoded += [bytes.fromhex(digits) for run in runs for digits in _HEX.findall(run)]
    return _BETWEEN.join(decoded)


def without_secrets(text: str, hide: Callable[[str], str]) -> str:
    """Hide every run of a text that spells a secret."""
    if not may_hold_secrets(text):
        return text
    return _RUN.sub(lambda run: hide(run[0]) if _spells(_decoded([run[0]])) else run[0], text)


def _spells(decoded: bytes) -> bool:
    """True if a secret is spelled in decoded texts, and is not hidden yet."""
    secrets: list[str] = []

    def collect(secret: str) -> str:
        secrets.append(secret)
        return secret

    for text in decoded.split(_BETWEEN):
        redaction.text_without(text.decode("latin-1"), collect)
    return not all(map(_REPLACED.fullmatch, secrets))
