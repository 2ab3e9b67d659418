"""Text that is no JSON, judged by whether it can hold a secret.

No release reads it, so nothing tells a secret from the rest of it. It is harmless only if it is
plain text in UTF-8 and shows no trace of a secret: no word of one, no escapes, nothing encoded that
holds such a word. UTF-16, compressed and other binary values are never harmless.
"""

import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Final

from controlplane.core import redact

_SHORTEST: Final = 2
"""Bytes. A shorter text holds no secret: its first unit stays anyway."""

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")
_ENCODED: Final = re.compile(rb"[A-Za-z0-9+/_-]{8,}")
_HEX: Final = re.compile(rb"(?:[0-9A-Fa-f]{2}){5,}")
_QUANTUM: Final = 4
"""Characters of base64 that stand for whole bytes together."""


def is_harmless(raw: bytes) -> bool:
    """Whether a piece of a record that is no JSON can be archived as it is."""
    if len(raw) < _SHORTEST:
        return True
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return False
    if _CONTROLS.search(text) or redact.may_hold_secrets(text):
        return False
    return not any(redact.may_hold_secrets(decoded) for decoded in _decoded(raw))


def _decoded(raw: bytes) -> Iterator[str]:
    """Every run of letters and digits, decoded from base64 at each alignment, and from hex."""
    for run in _ENCODED.findall(raw):
        plain = run.replace(b"-", b"+").replace(b"_", b"/")
        for start in range(_QUANTUM):
            whole = plain[start : start + (len(plain) - start) // _QUANTUM * _QUANTUM]
            yield b64decode(whole).decode("latin-1")
    for run in _HEX.findall(raw):
        yield bytes.fromhex(run.decode()).decode("latin-1")
