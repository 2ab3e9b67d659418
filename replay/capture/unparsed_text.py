"""Text that is no JSON, judged by whether it can hold a secret.

No release reads it, so nothing tells a secret from the rest of it. It is harmless only if it is
plain text in UTF-8 and shows no trace of a secret: no word of one, no escapes, nothing encoded that
holds such a word. UTF-16, compressed and other binary values are never harmless.
"""

import re
from typing import Final

from controlplane.core import redact
from replay.capture import encoded_text

_SHORTEST: Final = 2
"""Bytes. A shorter text holds no secret: its first unit stays anyway."""

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")


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
    return not encoded_text.may_hold_secrets(text)
